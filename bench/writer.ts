// An application of the benchmark, a process of its own: writes 4 KiB somewhere in its file, durably, again and again, and tells how long that took.
// Knows no moves.
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { randomBytes } from 'node:crypto';

/** Since it was asked last. */
export interface Written {
  writes: number;
  /** Of the durations of single writes, ms. */
  p99: number;
  longest: number;
}

const BLOCK = 4096;
/** Writes before orders are looked for. */
const BURST = 16;

const [path = '', size = '0'] = process.argv.slice(2);
const blocks = Number(size) / BLOCK;
const file = openSync(path, constants.O_RDWR | constants.O_DSYNC);
const block = randomBytes(BLOCK);
let durations: number[] = [];
let ended = false;

process.on('message', () => {
  const sorted = durations.toSorted((a, b) => a - b);
  const written: Written = { writes: sorted.length, p99: sorted[Math.floor(sorted.length * 0.99)] ?? NaN, longest: sorted.at(-1) ?? NaN };
  durations = [];
  process.send?.(written);
});
process.on('disconnect', () => (ended = true));

while (!ended) {
  for (let write = 0; write < BURST; write += 1) {
    const began = performance.now();
    writeSync(file, block, 0, BLOCK, Math.floor(Math.random() * blocks) * BLOCK);
    durations.push(performance.now() - began);
  }
  await new Promise((resolve) => setImmediate(resolve));
}
closeSync(file);
