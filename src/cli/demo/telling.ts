// How the demo speaks: steps with the time since it began, progress that is redrawn on a terminal, claims as lines with `ok` or `FAILED`.
// Knows no step and no claim.
import type { Context } from '../context.ts';
import { harmless, paintFor, type Paint } from '../format.ts';
import { progressOn, type Progress, type Step } from '../progress.ts';

export class Telling {
  readonly paint: Paint;
  readonly #context: Context;
  readonly #progress: Progress;
  readonly #began: number;
  #held = 0;
  #failed = 0;

  constructor(context: Context) {
    this.#context = context;
    this.paint = paintFor(context.out, context.env);
    this.#progress = progressOn(context.out, context.clock);
    this.#began = context.clock.monotonic();
  }

  get held(): number {
    return this.#held;
  }

  get failed(): number {
    return this.#failed;
  }

  /** A line as it is. */
  line(text: string): void {
    this.#progress.end();
    this.#context.out.write(`${text}\n`);
  }

  heading(text: string): void {
    this.line(`\n${this.paint('bold', text)}`);
  }

  /** Something that was done, or is being done. */
  step(text: string): void {
    const seconds = ((this.#context.clock.monotonic() - this.#began) / 1000).toFixed(1);
    this.line(`${this.paint('dim', `${seconds.padStart(5)} s`)}  ${harmless(text)}`);
  }

  /** What is less than it could be here, and why. */
  lack(text: string): void {
    this.line(`${this.paint('yellow', '   note')}  ${harmless(text)}`);
  }

  progress(step: Step): void {
    this.#progress.show({ ...step, text: this.#context.out.isTerminal ? step.text : `         ${step.text}` });
  }

  claim(text: string, holds: boolean, why = ''): void {
    if (holds) this.#held += 1;
    else this.#failed += 1;
    const verdict = holds ? this.paint('green', 'ok    ') : this.paint('red', 'FAILED');
    this.line(`${verdict}  ${harmless(holds || why === '' ? text : `${text}: ${why}`)}`);
  }

  end(): void {
    this.#progress.end();
  }
}
