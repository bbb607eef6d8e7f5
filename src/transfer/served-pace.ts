// How fast one connection is served: by the target's limit, and by what this node bears while the work is in the background. Knows no frames.
import { atMost } from '../decide/restraint.ts';
import type { Pacer } from './pacing.ts';
import type { Restraint, Work } from './restraint.ts';

export class ServedPace {
  readonly #pacer: Pacer;
  readonly #restraint: Restraint | undefined;
  #limit: number | null = null;
  #work: Work | null = null;

  constructor(pacer: Pacer, restraint: Restraint | undefined) {
    this.#pacer = pacer;
    this.#restraint = restraint;
  }

  /** null: nothing holds this node's own work back. */
  get work(): Work | null {
    return this.#work;
  }

  /** The target's limit, bytes a second. */
  limit(bytesPerSecond: number | null): 'kernel' | 'bucket' {
    this.#limit = bytesPerSecond;
    return this.#pace(this.#work?.ceiling() ?? null);
  }

  /** What is served from now on is background work, or an application waits for it. */
  turn(to: 'background' | 'foreground'): void {
    if (to === 'background') this.#work ??= this.#restraint?.join((ceiling) => void this.#pace(ceiling)) ?? null;
    else {
      this.end();
      this.#pace(null);
    }
  }

  /** Nothing is served any more. */
  end(): void {
    this.#work?.leave();
    this.#work = null;
  }

  #pace(ceiling: number | null): 'kernel' | 'bucket' {
    return this.#pacer.limit(atMost(this.#limit, ceiling));
  }
}
