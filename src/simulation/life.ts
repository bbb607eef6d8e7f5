// One life of a process: a clock of its own, pauses at every call, and an end that may come at any of them. Whoever is dead does nothing
// any more, whatever it still tries: what it waits for never comes. Whoever is stunned stands still for a while and then goes on as if
// nothing had been. Knows no agent and no controller.
import type { Clock } from '../model/clock.ts';
import type { Chance } from './chance.ts';
import type { Deaths } from './deaths.ts';
import type { VirtualTime } from './time.ts';

export interface LifeParts {
  name: string;
  /** Whose crash points it passes. */
  role: 'agent' | 'controller';
  time: VirtualTime;
  chance: Chance;
  deaths: Deaths;
  /** How its clock differs: its wall clock by so many ms, its speed by this factor. */
  clock: { skew: number; speed: number };
  /** Called when it is stunned at a point. */
  onStun: (point: string) => void;
  /** Called once when it ends. */
  onEnd: (why: string) => void;
}

const EPOCH = Date.UTC(2026, 0, 1);
/** How long whoever is stunned stands still, ms: longer than a Lease. */
const STUNNED = { least: 20_000, most: 70_000 };
const never = <T>(): Promise<T> => new Promise<T>(() => {});

export class Life {
  readonly name: string;
  over = false;
  readonly chance: Chance;
  readonly clock: Clock;
  readonly #parts: LifeParts;
  readonly #ends = new Set<() => void>();
  #stunnedUntil = 0;

  constructor(parts: LifeParts) {
    this.#parts = parts;
    this.name = parts.name;
    this.chance = parts.chance;
    const { time, clock } = parts;
    this.clock = {
      now: () => Math.floor(EPOCH + time.now + clock.skew),
      monotonic: () => time.now * clock.speed,
      sleep: (ms, signal) => this.#sleep(ms / clock.speed, signal),
    };
  }

  end(why: string): void {
    if (this.over) return;
    this.over = true;
    for (const each of this.#ends) each();
    this.#parts.onEnd(why);
  }

  /** Called when it ends; returns how to call that off. */
  whenOver(call: () => void): () => void {
    this.#ends.add(call);
    return () => void this.#ends.delete(call);
  }

  /** A named place between two writes. */
  readonly crash = (point: string): void => {
    if (this.over) throw new Error(`${this.name} is dead`);
    const { deaths, role, onStun } = this.#parts;
    const due = deaths.due(role, point);
    if (due === 'stun') {
      this.#stunnedUntil = this.#parts.time.now + this.chance.between(STUNNED.least, STUNNED.most);
      onStun(point);
    }
    if (due !== 'death') return;
    this.end(`at ${point}`);
    throw new Error(`${this.name} died at ${point}`);
  };

  /** Runs it as soon as this process is not stunned; at once when it is not, never when it is dead. Its clocks go on meanwhile. */
  awake(run: () => void): void {
    if (this.over) return;
    const left = this.#stunnedUntil - this.#parts.time.now;
    if (left <= 0) return run();
    this.#parts.time.after(left, () => this.awake(run));
  }

  /** Goes on after `ms` of true time, unless it is dead then. */
  wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#parts.time.after(ms, () => this.awake(resolve));
    });
  }

  /** As long as a disk or a scheduler takes: others may go first. */
  pause(): Promise<void> {
    return this.over ? never() : this.wait(this.chance.happens(0.01) ? this.chance.around(400) : this.chance.around(1.5));
  }

  #sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error);
      const stop = (): void => reject(signal?.reason as Error);
      signal?.addEventListener('abort', stop, { once: true });
      this.#parts.time.after(ms, () => {
        signal?.removeEventListener('abort', stop);
        this.awake(resolve);
      });
    });
  }

  /** What this process does to the world outside: each call pauses first, and a dead one does nothing. `touched` after each. */
  mortal<T extends object>(target: T, touched: () => void): T {
    return new Proxy(target, {
      get: (of, key) => {
        const value: unknown = Reflect.get(of, key, of);
        if (typeof value !== 'function') return value;
        const call = value as (...given: unknown[]) => unknown;
        return (...given: unknown[]): unknown => {
          const made = key === 'changed' ? null : this.#acted(() => call.apply(of, given), touched);
          return made ?? this.#iterated(call.apply(of, given) as AsyncIterable<unknown>);
        };
      },
    });
  }

  async #acted(act: () => unknown, touched: () => void): Promise<unknown> {
    await this.pause();
    try {
      const outcome = await act();
      return isHandle(outcome) ? this.mortal(outcome, touched) : outcome;
    } finally {
      touched();
    }
  }

  async *#iterated(items: AsyncIterable<unknown>): AsyncIterable<unknown> {
    await this.pause();
    yield* items;
  }
}

/** Open copies and holds are the process's too. */
const isHandle = (outcome: unknown): outcome is object =>
  typeof outcome === 'object' && outcome !== null && ('close' in outcome || 'release' in outcome);
