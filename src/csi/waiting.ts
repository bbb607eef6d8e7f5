// Waiting for records of a kind: one watch for all calls tells that one changed, and a fresh read of it says how it is. Knows no call.
import { status } from '@grpc/grpc-js';
import type { Client } from '../api/client.ts';
import { informer, type Informer } from '../api/informer.ts';
import type { Log } from '../api/log.ts';
import type { Clock } from '../model/clock.ts';
import { isReason, messageOf } from '../model/errors.ts';
import type { Kind } from '../model/kind.ts';
import type { ApiObject, Stored } from '../model/meta.ts';
import { Snapshots, type Snapshot } from '../model/snapshot.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import { Refused, statusOf } from './errors.ts';

export interface WaitingPorts {
  client: Client;
  clock: Clock;
  random: () => number;
  log: Log;
}

/** A change that the watch has not told of is found after this, ms. */
const LOOK_AGAIN = 5_000;

export class Waits<T extends ApiObject> {
  readonly #ports: WaitingPorts;
  readonly #kind: Kind<T>;
  readonly #tellingOf: (record: T) => string;
  readonly #records: Informer<T>;
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #stopped = new AbortController();

  /** `tellingOf`: how it is, for who waited in vain. */
  constructor(ports: WaitingPorts, kind: Kind<T>, tellingOf: (record: T) => string) {
    this.#ports = ports;
    this.#kind = kind;
    this.#tellingOf = tellingOf;
    this.#records = informer(ports.client, kind, ports);
    this.#records.onChange((name) => {
      for (const wake of this.#waiting.get(name) ?? []) wake();
    });
  }

  /** Watches until it is stopped. */
  start(): Promise<void> {
    return this.#records.start(this.#stopped.signal);
  }

  /** Whoever waits is told to come again, to another replica. */
  stop(): void {
    this.#stopped.abort(new Refused(status.UNAVAILABLE, 'the driver is stopping; try again'));
  }

  /** Aborts when this is stopped. */
  get stopped(): AbortSignal {
    return this.#stopped.signal;
  }

  /** The watch stands. */
  get synced(): Promise<void> {
    return this.#records.synced;
  }

  /** The record as it is now; null: there is none. */
  async read(name: string): Promise<Stored<T> | null> {
    try {
      return await this.#ports.client.get(this.#kind, name);
    } catch (error) {
      if (isReason(error, 'NotFound')) return null;
      throw error;
    }
  }

  /** What `judge` answers, once it does. When the signal aborts or this is stopped first, throws why, with what is known of it. */
  async until<R>(name: string, judge: (record: Stored<T> | null) => R | null, ends: AbortSignal): Promise<R> {
    const signal = AbortSignal.any([ends, this.#stopped.signal]);
    for (;;) {
      using change = this.#nextChange(name, signal);
      const seen = await this.#seen(name);
      if (typeof seen !== 'string') {
        const result = judge(seen);
        if (result !== null) return result;
      }
      await change.happened;
      if (signal.aborted) throw this.#overdue(name, typeof seen === 'string' ? seen : seen ? this.#tellingOf(seen) : 'it is gone', signal);
    }
  }

  /** Deletes this very record, and resolves when it is gone; a later one of its name is not touched. */
  async beGone({ name, uid }: { name: string; uid: string }, signal: AbortSignal): Promise<void> {
    await this.#ports.client.delete(this.#kind, name, { uid }).catch((error: unknown) => {
      if (!isReason(error, 'NotFound', 'Conflict')) throw error;
    });
    await this.until(name, (seen) => (seen?.metadata.uid === uid ? null : true), signal);
  }

  /** A server that does not answer is waited for. */
  async #seen(name: string): Promise<Stored<T> | null | string> {
    try {
      return await this.read(name);
    } catch (error) {
      if (isReason(error, 'Unavailable')) return messageOf(error);
      throw error;
    }
  }

  /** From now on: what happens between a look and the waiting is not missed. */
  #nextChange(name: string, signal: AbortSignal): { happened: Promise<void> } & Disposable {
    const { promise, resolve } = Promise.withResolvers<void>();
    const ended = new AbortController();
    const all = this.#waiting.get(name) ?? new Set();
    this.#waiting.set(name, all.add(resolve));
    this.#ports.clock.sleep(LOOK_AGAIN, AbortSignal.any([signal, ended.signal])).then(resolve, () => resolve());
    return {
      happened: promise,
      [Symbol.dispose]: () => {
        ended.abort();
        all.delete(resolve);
        if (all.size === 0 && this.#waiting.get(name) === all) this.#waiting.delete(name);
      },
    };
  }

  #overdue(name: string, last: string, signal: AbortSignal): Refused {
    const { code, details } = statusOf(signal.reason);
    return new Refused(code, `${details}; ${this.#kind.singular} ${name}: ${last}`);
  }
}

export type VolumeWaits = Waits<Volume>;
export type SnapshotWaits = Waits<Snapshot>;

export interface AllWaits {
  volumes: VolumeWaits;
  snapshots: SnapshotWaits;
}

const tellingOf = ({ status }: Volume | Snapshot): string => status?.obstacle?.message ?? `it is ${status?.phase ?? 'new'}`;

export const volumeWaits = (ports: WaitingPorts): VolumeWaits => new Waits(ports, Volumes, tellingOf);
export const snapshotWaits = (ports: WaitingPorts): SnapshotWaits => new Waits(ports, Snapshots, tellingOf);
