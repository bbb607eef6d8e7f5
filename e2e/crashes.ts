// `npm run crashes`: kills the real processes of a real cluster at every named point between two writes, once each, while an application
// writes and its volume moves (crashes/story.ts); every story must end with equal bytes and nothing left over. Needs root. The last line is
// `N passed, N failed`: deaths that everything came through, and points or stories that failed.
//   -- --rounds N     N deaths instead, at points and times that chance takes from seeds; the server dies, too
//   -- --seed N       one story with the deaths of that seed
//   -- --from N       rounds begin with that seed instead of one that the time gives
//   -- --plot NAME    only this plot: image, directory or snapshots (crashes/points.ts)
//   -- --points WORD  only the points with this word in their names
//   -- --lanes N      so many clusters at once, 2 by default
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Chance } from '../src/simulation/chance.ts';
import { MovingStory } from './crashes/moving.ts';
import { PLOTS, type Plot } from './crashes/points.ts';
import { SnapshotStory } from './crashes/snapshots.ts';
import { Stage } from './crashes/stage.ts';
import type { Story } from './crashes/story.ts';
import { Chances, Visits, type Threats } from './crashes/threats.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string' },
    seed: { type: 'string' },
    from: { type: 'string' },
    plot: { type: 'string' },
    points: { type: 'string', default: '' },
    lanes: { type: 'string', default: '2' },
  },
});

const plots = PLOTS.filter((plot) => values.plot === undefined || values.plot === plot);
if (plots.length === 0) throw new Error(`there is no plot ${values.plot}: ${PLOTS.join(', ')}`);

/** In rounds most volumes are of blocks. Not drawn from what the story draws from. */
function plotOf(seed: number): Plot {
  const chosen =
    (['image', 'image', 'image', 'directory', 'directory', 'snapshots'] as const)[new Chance(seed ^ 0x9107).below(6)] ?? 'image';
  return plots.includes(chosen) ? chosen : (plots[0] as Plot);
}

function storyOf(plot: Plot, stage: Stage, seed: number): Story {
  const [name, chance] = [`v${seed}`, new Chance(seed)];
  if (plot === 'snapshots') return new SnapshotStory(stage, name, chance);
  return new MovingStory(stage, name, { chance, directory: plot === 'directory' });
}

const say = (line: string): void => void process.stdout.write(`${line}\n`);
/** Stories in which no point was visited that was not before, until those that are left are given up. */
const IN_VAIN = 3;

interface Tally {
  stories: number;
  deaths: number;
  failed: number;
}

class Lane {
  readonly #folder: string;
  readonly #tally: Tally;
  #stage: Stage | null = null;
  #clusters = 0;
  #keeps = false;

  constructor(number: number, tally: Tally) {
    this.#folder = realpathSync(mkdtempSync(join(tmpdir(), `flock-crashes-${number}-`)));
    this.#tally = tally;
  }

  /** One story with these threats. False when it failed: what it left is not used any more. */
  async play(seed: number, { plot, threats, replay }: { plot: Plot; threats: Threats; replay: string }): Promise<boolean> {
    const stage = await this.#opened(threats);
    const before = stage.deaths;
    const story = storyOf(plot, stage, seed);
    this.#tally.stories += 1;
    try {
      await story.tell();
      this.#tally.deaths += stage.deaths - before;
      return true;
    } catch (error) {
      this.#tally.failed += 1;
      say(`FAILED seed ${seed}: ${error instanceof Error ? error.message : String(error)}\n       npm run crashes -- ${replay}`);
      say(await story.records().catch(String));
      say(stage.tell());
      await this.#abandon(stage);
      return false;
    }
  }

  async #opened(threats: Threats): Promise<Stage> {
    if (this.#stage) {
      this.#stage.threaten(threats);
      return this.#stage;
    }
    this.#clusters += 1;
    const stage = new Stage(join(this.#folder, String(this.#clusters)));
    this.#stage = stage;
    await stage.open(threats, values.rounds !== undefined || values.seed !== undefined);
    return stage;
  }

  /** Kept for who wants to look, as far as it can be: its processes end with this one. */
  async #abandon(stage: Stage): Promise<void> {
    this.#stage = null;
    this.#keeps = true;
    await stage.halt();
    say(`       kept in ${stage.layout.directory}`);
  }

  async close(): Promise<void> {
    await this.#stage?.close();
    this.#stage = null;
    if (!this.#keeps) rmSync(this.#folder, { recursive: true });
  }
}

const lanes = Array.from({ length: Number(values.lanes) }, (_, number) => number + 1);
const tally: Tally = { stories: 0, deaths: 0, failed: 0 };
const began = performance.now();
let next = values.from === undefined ? Math.floor(Date.now() / 1_000) * 10 : Number(values.from);

/** Every point that is this lane's. */
async function visit(number: number): Promise<void> {
  const lane = new Lane(number, tally);
  for (const plot of plots) await visitPlot(lane, number, plot);
  await lane.close();
}

async function visitPlot(lane: Lane, number: number, plot: Plot): Promise<void> {
  const threats = new Visits(plot, (point, index) => point.includes(values.points) && index % lanes.length === number - 1);
  for (let vain = 0; threats.left.length > 0 && vain < IN_VAIN;) {
    const left = threats.left.length;
    next += 1;
    const replay = `--plot ${plot} --points '${values.points}' --from ${next - 1}`;
    const sound = await lane.play(next, { plot, threats, replay });
    vain = threats.left.length < left && sound ? 0 : vain + 1;
  }
  for (const point of threats.left) say(`FAILED nobody came by ${point} in plot ${plot}`);
  tally.failed += threats.left.length;
  say(`plot ${plot}: ${tally.deaths} deaths so far, ${minutes()} min`);
}

function playSeed(lane: Lane, seed: number): Promise<boolean> {
  const plot = plotOf(seed);
  return lane.play(seed, { plot, threats: new Chances(plot, new Chance(seed ^ 0x5eed)), replay: `--plot ${plot} --seed ${seed}` });
}

async function playRounds(number: number, rounds: number): Promise<void> {
  const lane = new Lane(number, tally);
  while (tally.deaths < rounds) {
    next += 1;
    await playSeed(lane, next);
    say(`${tally.deaths} deaths in ${tally.stories} stories, ${tally.failed} failed, ${minutes()} min`);
  }
  await lane.close();
}

async function playOne(seed: number): Promise<void> {
  const lane = new Lane(1, tally);
  await playSeed(lane, seed);
  await lane.close();
}

const minutes = (): string => ((performance.now() - began) / 60_000).toFixed(1);

say(`seeds from ${next + 1}, ${lanes.length} clusters at once`);
if (values.seed !== undefined) await playOne(Number(values.seed));
else await Promise.all(lanes.map((number) => (values.rounds === undefined ? visit(number) : playRounds(number, Number(values.rounds)))));
say(`${tally.deaths} deaths in ${tally.stories} stories in ${minutes()} min`);
say(`${tally.deaths} passed, ${tally.failed} failed`);
process.exit(tally.failed === 0 && tally.deaths > 0 ? 0 : 1);
