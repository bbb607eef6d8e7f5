// Counts what a round does, and tells of it a few times a second. Pure but for its clock.
import type { Clock } from '../model/clock.ts';
import type { Progress } from './transfer.ts';

const EVERY = 250;

export class Meter {
  readonly round: number;
  total = 0;
  done = 0;
  sent = 0;
  resumed = 0;
  frames = 0;
  readonly #clock: Clock;
  readonly #tell: (progress: Progress) => void;
  #activity: Progress['activity'] = 'preparing';
  #toldAt = -Infinity;
  #recorded = 0;
  #copyingSince: number | null = null;
  #copied = 0;

  constructor(round: number, clock: Clock, tell: (progress: Progress) => void) {
    this.round = round;
    this.#clock = clock;
    this.#tell = tell;
  }

  /** Payload bytes a second, over the time spent copying. */
  get rate(): number {
    const time = this.#copied + (this.#copyingSince === null ? 0 : this.#clock.monotonic() - this.#copyingSince);
    return time > 0 ? Math.round((this.sent * 1000) / time) : 0;
  }

  turnTo(activity: Progress['activity']): void {
    const now = this.#clock.monotonic();
    if (this.#copyingSince !== null) this.#copied += now - this.#copyingSince;
    this.#copyingSince = activity === 'copying' ? now : null;
    this.#activity = activity;
    this.#toldAt = -Infinity;
    this.tell();
  }

  /** Payload that no record of the journal counts yet. Counts it: call right before it is recorded. */
  takeUnrecorded(): number {
    const unrecorded = this.sent - this.#recorded;
    this.#recorded = this.sent;
    return unrecorded;
  }

  tell(): void {
    const now = this.#clock.monotonic();
    if (now - this.#toldAt < EVERY) return;
    this.#toldAt = now;
    this.#tell({
      round: this.round,
      bytesTotal: BigInt(this.total),
      bytesDone: BigInt(Math.min(this.done, this.total)),
      bytesSent: BigInt(this.sent),
      bytesResumed: BigInt(this.resumed),
      rate: this.rate,
      activity: this.#activity,
    });
  }
}
