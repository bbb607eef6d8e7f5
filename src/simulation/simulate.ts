// One history: a few hundred steps of people, applications and misfortune from a seed, then a rest in which everything has to come to its
// end. The same seed gives the same history, to the last event.
import { createHash } from 'node:crypto';
import { Misfortune } from './misfortune.ts';
import { People } from './people.ts';
import { rest, type Actors } from './rest.ts';
import { Takers } from './takers.ts';
import { World } from './world.ts';

export interface Outcome {
  seed: number;
  /** Which rule was broken, and by what; null: none. */
  breach: string | null;
  steps: number;
  events: number;
  /** Virtual ms. */
  lasted: number;
  /** Deaths by crash point. */
  hit: { [point: string]: number };
  /** How its moves ended. */
  moves: { [phase: string]: number };
  /** Of everything that happened: equal for equal histories. */
  digest: string;
}

interface Act {
  name: string;
  weight: number;
  act: () => void;
}

const STEPS = { least: 200, most: 400 };
const MEAN_STEP = 1_800;

function actsOf({ people, takers, misfortune }: Actors, temper: Temper): Act[] {
  const act = (name: string, weight: number, of: () => void): Act => ({ name, weight, act: of });
  return [
    act('create', 7, () => people.create()),
    act('delete', 2.5, () => people.delete()),
    act('grow', 5, () => people.grow()),
    act('order', 12, () => people.order()),
    act('order twice', 0.6, () => people.orderTwice()),
    act('cancel', 2, () => people.cancel()),
    act('delete move', 3, () => people.deleteMove()),
    act('drain', 5, () => people.drain()),
    act('uncordon', 2, () => people.uncordonAll()),
    act('start or stop', 6, () => people.startOrStop()),
    act('give way', 12, () => people.giveWay()),
    act('decide', 2, () => people.decide()),
    act('take a snapshot', 3 * temper.snapshots, () => takers.take()),
    act('delete a snapshot', 1.5 * temper.snapshots, () => takers.drop()),
    act('restore a snapshot', 4 * temper.snapshots, () => takers.restore()),
    act('clone', 2.5 * temper.snapshots, () => takers.clone()),
    act('kill', 2 * temper.crashes, () => misfortune.kill()),
    act('restart', temper.crashes, () => misfortune.restart()),
    act('power cut', temper.crashes, () => misfortune.powerCut()),
    act('cut', 2 * temper.network, () => misfortune.cut()),
    act('siege', 4, () => misfortune.siege()),
    act('storm', temper.network, () => misfortune.storm()),
    act('server stops', temper.network, () => misfortune.serverStops()),
    act('watches drop', temper.network, () => misfortune.watchesDrop()),
    act('full pool', temper.disks, () => misfortune.fullPool()),
    act('pool gone', temper.disks, () => misfortune.poolGone()),
    act('create where no room is', 4.5, () => {
      misfortune.fullFirst();
      people.createAnywhere();
    }),
    act('blindness', temper.disks, () => misfortune.blindness()),
    act('unmounted under it', 1.5, () => misfortune.pullAway()),
    act('intruder', 0.7, () => misfortune.intruder()),
    act('clocks', 0.3, () => misfortune.clocks()),
    act('disk lost', temper.losses, () => misfortune.diskLost()),
    act('backup', temper.restores, () => misfortune.backup()),
    act('restore', temper.restores, () => misfortune.restore()),
    act('restore what was given back', 3 * temper.restores, () => misfortune.restoreBehind()),
  ];
}

/** How much of what a history has: some have nothing but deaths, some have everything. */
interface Temper {
  crashes: number;
  network: number;
  disks: number;
  losses: number;
  restores: number;
  /** Not where records go back: then nobody knows which of them are of another past. */
  snapshots: number;
}

function temperOf({ chance }: World): Temper {
  const often = (likelihood: number, most: number): number => (chance.happens(likelihood) ? chance.between(0.2, most) : 0);
  const temper = { crashes: often(0.7, 2), network: often(0.6, 2), disks: often(0.4, 1.5), losses: often(0.1, 0.2) };
  const restores = often(0.15, 0.6);
  return { ...temper, restores, snapshots: restores > 0 ? 0 : often(0.75, 2) };
}

function choose(acts: readonly Act[], at: number): Act {
  let left = at * acts.reduce((sum, { weight }) => sum + weight, 0);
  for (const act of acts) {
    left -= act.weight;
    if (left < 0) return act;
  }
  return acts[0] as Act;
}

export interface SimulateOptions {
  /** Told every line of what happens. */
  tell?: (line: string) => void;
}

export async function simulate(seed: number, { tell }: SimulateOptions = {}): Promise<Outcome> {
  const world = new World(seed, tell ?? null);
  const stray = (error: unknown): void =>
    world.rules.break('no error is lost', error instanceof Error ? (error.stack ?? error.message) : String(error));
  process.on('unhandledRejection', stray);
  try {
    return await history(seed, world);
  } finally {
    process.off('unhandledRejection', stray);
  }
}

async function history(seed: number, world: World): Promise<Outcome> {
  const people = new People(world);
  const misfortune = new Misfortune(world, () => [...people.applications.values()]);
  const takers = new Takers(world, people);
  const acts = actsOf({ people, takers, misfortune }, temperOf(world));
  // Long enough for another to lead, while the first one's order is still in his pocket.
  world.onStun = (point) => {
    if (point === 'commit:before' && world.chance.happens(0.9))
      world.time.after(world.chance.between(3_000, 18_000), () => people.disturbLast());
  };
  const steps = STEPS.least + world.chance.below(STEPS.most - STEPS.least);
  let step = 0;
  await world.pass(5_000);
  people.create();
  for (; step < steps && world.rules.breach === null; step += 1) {
    choose(acts, world.chance.next()).act();
    await world.pass(world.chance.around(MEAN_STEP));
  }
  if (world.rules.breach === null) await rest(world, { people, takers, misfortune });
  return outcomeOf(seed, world, step);
}

function outcomeOf(seed: number, world: World, steps: number): Outcome {
  const phases = [...world.rules.ended.values()];
  const hit = Object.fromEntries([...world.deaths.hit].toSorted(([one], [other]) => one.localeCompare(other)));
  const { happened, now } = world.time;
  const { breach } = world.rules;
  const all = JSON.stringify([breach, steps, happened, now, hit, world.server.registry.version, world.chance.next()]);
  return {
    seed,
    breach,
    steps,
    events: happened,
    lasted: now,
    hit,
    moves: Object.fromEntries(
      Map.groupBy(phases, (phase) => phase)
        .entries()
        .map(([phase, list]) => [phase, list.length]),
    ),
    digest: createHash('sha256').update(all).digest('hex').slice(0, 16),
  };
}
