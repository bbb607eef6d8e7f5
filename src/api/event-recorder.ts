// Tells people what happened to an object, as core/v1 Events that kubectl describe finds. Best effort: it never fails and never waits for
// its caller, forgets the oldest when too much is told, and says the same thing once with a count.
import { createHash } from 'node:crypto';
import type { Clock } from '../model/clock.ts';
import { timestamp } from '../model/clock.ts';
import { isReason, messageOf } from '../model/errors.ts';
import { EVENT_NAMESPACE, type ApiObject } from '../model/meta.ts';
import { Events, type Event } from '../model/system.ts';
import type { Client } from './client.ts';
import type { Log } from './log.ts';

export interface EventRecorderOptions {
  client: Client;
  /** `flock-agent`, `flock-controller`. */
  component: string;
  /** The node or replica that speaks. */
  instance: string;
  clock: Clock;
  log: Log;
}

/** What an event is about. */
export type EventSubject = Pick<ApiObject, 'apiVersion' | 'kind' | 'metadata'>;

export interface EventRecorder {
  /** `reason` in CamelCase, `message` a sentence. A `%` is written out: kubelets and sidecars take it for a format. */
  record(about: EventSubject, type: Event['type'], reason: string, message: string): void;
  /** Resolves when all that was recorded is written, or given up: without pauses, for somebody is stopping. */
  flush(): Promise<void>;
}

/** The same thing within this time is one event with a count, ms. */
const SAME = 600_000;
const LONGEST_MESSAGE = 1_024;
const LONGEST_NAME = 253;
/** Waiting to be written, and remembered for their count. */
const MOST_WAITING = 256;
const MOST_REMEMBERED = 1_024;
/** Events that may be written at once, and a second in the long run. */
const BURST = 50;
const RATE = 5;
/** Failures in a row that are waited after: 1 s, 2 s, ... 16 s. */
const PATIENCE = 5;

interface Told {
  key: string;
  event: Event;
  /** Not yet written. */
  more: number;
  /** It is on the server. */
  written: boolean;
  /** Monotonic ms. */
  last: number;
}

export function eventRecorder(options: EventRecorderOptions): EventRecorder {
  return new BufferedRecorder(options);
}

const cut = (text: string, longest: number): string => (text.length <= longest ? text : `${text.slice(0, longest - 1)}…`);

class BufferedRecorder implements EventRecorder {
  readonly #options: EventRecorderOptions;
  /** In order of their last use. */
  readonly #told = new Map<string, Told>();
  readonly #waiting = new Set<Told>();
  #tokens = BURST;
  #filledAt: number;
  #writing: Promise<void> | null = null;
  #made = 0;
  /** Somebody waits for the end: nothing is spread over time. */
  #hurry = new AbortController();
  /** In a row. */
  #failures = 0;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#filledAt = options.clock.monotonic();
  }

  record(about: EventSubject, type: Event['type'], reason: string, message: string): void {
    const clean = cut(message.replaceAll(/\s?%/gu, ' percent'), LONGEST_MESSAGE);
    const key = JSON.stringify([about.metadata.uid ?? about.metadata.name, about.kind, type, reason, clean]);
    const told = this.#remembered(key) ?? {
      key,
      event: this.#eventOf(about, { key, type, reason, message: clean }),
      more: 0,
      written: false,
      last: 0,
    };
    told.more += 1;
    told.last = this.#options.clock.monotonic();
    told.event.lastTimestamp = timestamp(this.#options.clock);
    this.#told.delete(key);
    this.#told.set(key, told);
    this.#waiting.add(told);
    this.#bound();
    this.#begin();
  }

  #begin(): void {
    if (this.#writing !== null || this.#waiting.size === 0) return;
    this.#writing = this.#writeAll().finally(() => {
      this.#writing = null;
      this.#begin();
    });
  }

  async flush(): Promise<void> {
    this.#hurry.abort();
    while (this.#writing !== null) await this.#writing;
    this.#hurry = new AbortController();
  }

  #remembered(key: string): Told | null {
    const told = this.#told.get(key);
    return told !== undefined && this.#options.clock.monotonic() - told.last < SAME ? told : null;
  }

  #bound(): void {
    for (const [key] of this.#told) {
      if (this.#told.size <= MOST_REMEMBERED) break;
      this.#told.delete(key);
    }
    for (const told of this.#waiting) {
      if (this.#waiting.size <= MOST_WAITING) break;
      this.#waiting.delete(told);
      this.#options.log.warn({ reason: told.event.reason, object: told.event.involvedObject.name }, 'an event was dropped: too many wait');
    }
  }

  #eventOf(
    { apiVersion, kind, metadata }: EventSubject,
    told: { key: string; type: Event['type']; reason: string; message: string },
  ): Event {
    const { component, instance, clock } = this.#options;
    const { key, ...content } = told;
    const { name, namespace, uid, resourceVersion } = metadata;
    // Unique among all who tell of this object, and the same in a replayed simulation.
    this.#made += 1;
    const suffix = createHash('sha256')
      .update(JSON.stringify([component, instance, key, clock.now(), this.#made]))
      .digest('hex')
      .slice(0, 16);
    const now = timestamp(clock);
    return {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: `${name.slice(0, LONGEST_NAME - 17).replace(/[-.]+$/u, '')}.${suffix}`, namespace: namespace ?? EVENT_NAMESPACE },
      involvedObject: {
        apiVersion,
        kind,
        name,
        ...(namespace ? { namespace } : {}),
        ...(uid ? { uid } : {}),
        ...(resourceVersion ? { resourceVersion } : {}),
      },
      ...content,
      count: 0,
      firstTimestamp: now,
      lastTimestamp: now,
      source: { component, host: instance },
      reportingComponent: component,
      reportingInstance: instance,
    };
  }

  /** Never rejects. */
  async #writeAll(): Promise<void> {
    // What is told in one turn is written as one.
    await Promise.resolve();
    for (const told of this.#waiting) {
      await this.#haveToken();
      this.#waiting.delete(told);
      const { more, event } = told;
      told.more = 0;
      event.count = (event.count ?? 0) + more;
      try {
        await this.#write(told);
        told.written = true;
        this.#failures = 0;
      } catch (error) {
        await this.#failed(told, more, error);
      }
    }
  }

  /** A server that is away for a moment is waited for; one that stays away is not. */
  async #failed(told: Told, more: number, error: unknown): Promise<void> {
    const { event } = told;
    const again = isReason(error, 'Unavailable') && this.#failures < PATIENCE && !this.#hurry.signal.aborted;
    if (!again) {
      this.#options.log.warn(
        { reason: event.reason, object: event.involvedObject.name, told: event.message },
        `an event was lost: ${messageOf(error)}`,
      );
      return;
    }
    event.count = (event.count ?? 0) - more;
    told.more += more;
    this.#waiting.add(told);
    await this.#options.clock.sleep(1_000 * 2 ** this.#failures, this.#hurry.signal).catch(() => undefined);
    this.#failures += 1;
  }

  async #write({ event, written }: Told): Promise<void> {
    const { client } = this.#options;
    const { name, namespace = EVENT_NAMESPACE } = event.metadata;
    if (written) {
      try {
        const { count, lastTimestamp } = event;
        await client.patch(Events, name, { count, lastTimestamp }, { namespace });
        return;
      } catch (error) {
        // Events are forgotten by their server after a while.
        if (!isReason(error, 'NotFound')) throw error;
      }
    }
    await client.create(Events, event);
  }

  async #haveToken(): Promise<void> {
    if (this.#hurry.signal.aborted) return;
    const { clock } = this.#options;
    const now = clock.monotonic();
    this.#tokens = Math.min(BURST, this.#tokens + ((now - this.#filledAt) * RATE) / 1000);
    this.#filledAt = now;
    if (this.#tokens < 1) {
      await clock.sleep(((1 - this.#tokens) * 1000) / RATE);
      return this.#haveToken();
    }
    this.#tokens -= 1;
  }
}
