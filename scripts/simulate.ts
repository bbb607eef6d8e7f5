// `npm run simulate`: plays histories of the simulation (src/simulation) for 90 s on all processors; on a machine that is too busy to play
// enough of them in that time, goes on until they are. Says how many, how often each crash point ended a process, and which seeds broke a
// rule; the last line is `N passed, N failed`.
//   -- --seed N        plays one history and tells what happens in it, line by line
//   -- --minutes N     plays longer; --seconds N likewise
//   -- --from N        begins with that seed instead of one that the time gives
//   -- --until-failure ends at the first history that breaks a rule, and counts no crash points
//   -- --histories N   plays so many instead, however long it takes
//   -- --seeds N,N     plays these
//   -- --workers N     so many at once
//   -- --mutations     breaks the code on purpose, and shows that it is seen (scripts/mutations); words choose by name
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { CRASH_POINTS } from '../src/simulation/deaths.ts';
import { simulate, type Outcome } from '../src/simulation/simulate.ts';
import { checkMutations } from './mutations/check.ts';

/** Each named crash point ends a process at least so often in a run. */
const HITS = 50;
/** That is so after so many histories. A run goes on until it is, also beyond its time, but no further. */
const ENOUGH = 600;
/** A history that is played for longer than this does not end, ms. */
const ENDLESS = 300_000;
/** Processes that died in a history stay in a thread's memory: it is left after so many histories. */
const RENEWED = 50;

const { values, positionals } = parseArgs({
  options: {
    seed: { type: 'string' },
    minutes: { type: 'string' },
    seconds: { type: 'string', default: '90' },
    from: { type: 'string' },
    histories: { type: 'string' },
    seeds: { type: 'string' },
    workers: { type: 'string' },
    'until-failure': { type: 'boolean', default: false },
    mutations: { type: 'boolean', default: false },
  },
  allowPositionals: true,
});

const WORKERS = Number(values.workers ?? availableParallelism());
const say = (line: string): void => void process.stdout.write(`${line}\n`);

function told({ seed, breach, steps, events, lasted, digest }: Outcome): string {
  return `seed ${seed}: ${breach ?? 'every rule held'} (${steps} steps, ${events} events, ${Math.round(lasted / 1000)} s, ${digest})`;
}

async function replay(seed: number): Promise<boolean> {
  const outcome = await simulate(seed, { tell: say });
  say(told(outcome));
  say(outcome.breach === null ? '1 passed, 0 failed' : '0 passed, 1 failed');
  return outcome.breach === null;
}

// ---- many histories ------------------------------------------------------------------------------------------------------------

interface Tally {
  histories: number;
  failed: number;
  steps: number;
  events: number;
  lasted: number;
  hit: Map<string, number>;
  moves: Map<string, number>;
}

const add = (into: Map<string, number>, counts: { [key: string]: number }): void => {
  for (const [key, count] of Object.entries(counts)) into.set(key, (into.get(key) ?? 0) + count);
};

class Run {
  readonly tally: Tally = { histories: 0, failed: 0, steps: 0, events: 0, lasted: 0, hit: new Map(), moves: new Map() };
  readonly #until: number;
  readonly #first: number;
  /** Those to play, where they are chosen. */
  readonly #chosen: readonly number[] | null;
  #begun = 0;
  #over = false;

  constructor(which: { first: number; chosen: readonly number[] | null }, milliseconds: number) {
    this.#first = which.first;
    this.#chosen = which.chosen;
    this.#until = performance.now() + milliseconds;
  }

  get seeds(): string {
    return this.#chosen ? `seeds ${this.#chosen.join(', ')}` : `seeds ${this.#first} to ${this.#first + this.#begun - 1}`;
  }

  #seed(): number {
    this.#begun += 1;
    return this.#chosen?.[this.#begun - 1] ?? this.#first + this.#begun - 1;
  }

  /** One thread, history after history; another in its place when it does not answer, and now and then. */
  async play(): Promise<void> {
    let worker = newWorker();
    for (let played = 1; !this.#over && this.#goesOn(); played += 1) {
      const outcome = await answerOf(worker, this.#seed());
      this.#count(outcome);
      if (outcome.digest !== '' && played % RENEWED !== 0) continue;
      await worker.terminate();
      worker = newWorker();
    }
    await worker.terminate();
  }

  #goesOn(): boolean {
    if (this.#chosen) return this.#begun < this.#chosen.length;
    if (values.histories !== undefined) return this.#begun < Number(values.histories);
    return performance.now() < this.#until || this.#lacks();
  }

  /** Too few histories were played to judge how often points were hit. */
  #lacks(): boolean {
    if (values['until-failure'] || this.#begun >= ENOUGH) return false;
    return CRASH_POINTS.some((point) => (this.tally.hit.get(point) ?? 0) < HITS);
  }

  #count(outcome: Outcome): void {
    const { tally } = this;
    tally.histories += 1;
    tally.steps += outcome.steps;
    tally.events += outcome.events;
    tally.lasted += outcome.lasted;
    add(tally.hit, outcome.hit);
    add(tally.moves, outcome.moves);
    if (outcome.breach === null) return;
    tally.failed += 1;
    say(`FAILED ${told(outcome)}\n       npm run simulate -- --seed ${outcome.seed}`);
    if (values['until-failure']) this.#over = true;
  }
}

const newWorker = (): Worker => new Worker(new URL('../src/simulation/worker.ts', import.meta.url));

function answerOf(worker: Worker, seed: number): Promise<Outcome> {
  const failed = (breach: string): Outcome => ({ seed, breach, steps: 0, events: 0, lasted: 0, hit: {}, moves: {}, digest: '' });
  return new Promise((resolve) => {
    const settle = (outcome: Outcome): void => {
      clearTimeout(timer);
      worker.off('message', settle);
      worker.off('error', broke);
      resolve(outcome);
    };
    const broke = (error: unknown): void => settle(failed(`the simulation itself failed: ${String(error)}`));
    const timer = setTimeout(() => settle(failed('the history does not end')), ENDLESS);
    worker.on('message', settle);
    worker.on('error', broke);
    worker.postMessage(seed);
  });
}

async function playMany(): Promise<boolean> {
  const milliseconds = values.minutes === undefined ? Number(values.seconds) * 1_000 : Number(values.minutes) * 60_000;
  const first = values.from === undefined ? Math.floor(Date.now() / 1_000) * 1_000 : Number(values.from);
  const began = performance.now();
  const chosen = values.seeds?.split(',').map(Number) ?? null;
  const run = new Run({ first, chosen }, milliseconds);
  await Promise.all(Array.from({ length: WORKERS }, () => run.play()));
  const { tally } = run;
  const seconds = ((performance.now() - began) / 1_000).toFixed(1);
  say(
    `${tally.histories} histories (${run.seeds}) in ${seconds} s: ${tally.steps} steps, ${tally.events} events, ${(tally.lasted / 3_600_000).toFixed(1)} h of virtual time`,
  );
  say(`moves: ${[...tally.moves].map(([phase, count]) => `${count} ${phase}`).join(', ')}`);
  const rare = values['until-failure'] || chosen ? 0 : tellPoints(tally.hit);
  say(`${tally.histories - tally.failed} passed, ${tally.failed + rare} failed`);
  return tally.failed + rare === 0 && tally.histories > 0;
}

/** How many were hit too rarely. */
function tellPoints(hit: Map<string, number>): number {
  const counts = CRASH_POINTS.map((point) => ({ point, count: hit.get(point) ?? 0 }));
  say(`deaths at ${counts.length} crash points:`);
  for (const { point, count } of counts) say(`${String(count).padStart(8)} ${point}`);
  const rare = counts.filter(({ count }) => count < HITS);
  for (const { point, count } of rare) say(`FAILED ${point} ended a process ${count} times only, not ${HITS}`);
  return rare.length;
}

const sound =
  values.seed !== undefined
    ? await replay(Number(values.seed))
    : values.mutations
      ? await checkMutations({ words: positionals, enough: Number(values.histories ?? ENOUGH), workers: WORKERS }, say)
      : await playMany();
process.exitCode = sound ? 0 : 1;
