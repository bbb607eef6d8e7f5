// A work queue of keys: events add keys, workers take them; the two never mix. A key is never worked on twice at once, and what is added
// while it is worked on is worked on again. Knows no object and no event.
import type { Clock } from '../model/clock.ts';
import { messageOf } from '../model/errors.ts';
import { backoffDelay, type Backoff } from './backoff.ts';
import type { Log } from './log.ts';

export interface WorkQueueOptions {
  /** Brings one key in order. `again`: look at it again after so many ms. An error: again after a back-off, which success resets. */
  work: (key: string) => Promise<void | { again: number }>;
  /** How many keys at once. */
  workers: number;
  clock: Clock;
  random: () => number;
  log: Log;
  /** Default 0.5 s to 30 s. */
  backoff?: Backoff;
  /** Called whenever the number of waiting keys changed. */
  onDepth?: (depth: number) => void;
  onError?: (key: string, error: unknown) => void;
}

export interface WorkQueue {
  /** Does nothing for a key that waits already, or once the queue is stopped. */
  add(key: string): void;
  /** The earlier of two times for one key counts. */
  addAfter(key: string, ms: number): void;
  /** Resolves when nothing waits or is worked on; keys that are due later do not count. */
  idle(): Promise<void>;
  /** Takes nothing new, drops what is due later, finishes what waits, and resolves then. */
  stop(): Promise<void>;
}

export const DEFAULT_BACKOFF: Backoff = { first: 500, longest: 30_000 };

export function workQueue(options: WorkQueueOptions): WorkQueue {
  return new KeyedQueue(options);
}

interface Delayed {
  due: number;
  cancel: AbortController;
}

class KeyedQueue implements WorkQueue {
  readonly #options: WorkQueueOptions;
  /** In order of arrival. */
  readonly #waiting = new Set<string>();
  readonly #working = new Set<string>();
  /** Added while worked on. */
  readonly #again = new Set<string>();
  readonly #delayed = new Map<string, Delayed>();
  readonly #failures = new Map<string, number>();
  #whenIdle: (() => void)[] = [];
  #stopped = false;

  constructor(options: WorkQueueOptions) {
    this.#options = options;
  }

  add(key: string): void {
    if (this.#stopped) return;
    if (this.#working.has(key)) {
      this.#again.add(key);
      return;
    }
    this.#waiting.add(key);
    this.#depthChanged();
    this.#pump();
  }

  addAfter(key: string, ms: number): void {
    if (this.#stopped) return;
    if (ms <= 0) return this.add(key);
    const due = this.#options.clock.monotonic() + ms;
    const earlier = this.#delayed.get(key);
    if (earlier !== undefined && earlier.due <= due) return;
    earlier?.cancel.abort();
    const delayed = { due, cancel: new AbortController() };
    this.#delayed.set(key, delayed);
    const arrive = (): void => {
      this.#delayed.delete(key);
      this.add(key);
    };
    this.#options.clock.sleep(ms, delayed.cancel.signal).then(arrive, () => {});
  }

  idle(): Promise<void> {
    if (this.#isIdle()) return Promise.resolve();
    return new Promise((resolve) => this.#whenIdle.push(resolve));
  }

  stop(): Promise<void> {
    this.#stopped = true;
    for (const { cancel } of this.#delayed.values()) cancel.abort();
    this.#delayed.clear();
    return this.idle();
  }

  #isIdle(): boolean {
    return this.#waiting.size === 0 && this.#working.size === 0;
  }

  #pump(): void {
    for (const key of this.#waiting) {
      if (this.#working.size >= this.#options.workers) return;
      this.#waiting.delete(key);
      this.#working.add(key);
      this.#depthChanged();
      void this.#workOn(key);
    }
  }

  /** Never rejects. */
  async #workOn(key: string): Promise<void> {
    let next: number | null = null;
    try {
      const outcome = await this.#options.work(key);
      this.#failures.delete(key);
      next = outcome?.again ?? null;
    } catch (error) {
      next = this.#failed(key, error);
    }
    this.#working.delete(key);
    // What came while it was worked on counts even when the queue was stopped since: it was accepted.
    if (this.#again.delete(key)) this.#waiting.add(key);
    if (next !== null) this.addAfter(key, next);
    this.#depthChanged();
    this.#pump();
    if (this.#isIdle()) for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  #failed(key: string, error: unknown): number {
    const { log, onError, backoff = DEFAULT_BACKOFF, random } = this.#options;
    const failures = this.#failures.get(key) ?? 0;
    this.#failures.set(key, failures + 1);
    const again = backoffDelay(failures, backoff, random);
    log.warn({ key, failures: failures + 1, again }, messageOf(error));
    onError?.(key, error);
    return again;
  }

  #depthChanged(): void {
    this.#options.onDepth?.(this.#waiting.size);
  }
}
