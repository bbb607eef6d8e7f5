// How every history ends: nothing goes wrong any more, people decide what only they can, applications stop. Within bounded time every move
// has ended, every acknowledged write is there, nothing is left over, and a world in which nothing happens costs no write. Then everything
// is deleted, and nothing at all may be left.
import type { Stored } from '../model/meta.ts';
import { Moves, type Move } from '../model/move.ts';
import { snapshotPoint } from '../model/points.ts';
import { Snapshots, type Snapshot } from '../model/snapshot.ts';
import { Volumes } from '../model/volume.ts';
import { messageOf } from '../model/errors.ts';
import type { MemoryCopy } from './blocks.ts';
import type { Machine } from './machine.ts';
import type { People } from './people.ts';
import type { Misfortune } from './misfortune.ts';
import type { Takers } from './takers.ts';
import type { World } from './world.ts';

/** Virtual ms: retention (1 min) and back-offs (30 s) several times over. */
const PATIENCE = 1_800_000;
const LOOK = 10_000;
/** Longer than anything is put off to be written. */
const QUIET = 45_000;
/** Looks, while processes may still die. */
const LULL = 14;
const ENDED = ['Done', 'Cancelled', 'Failed'];

export interface Actors {
  people: People;
  takers: Takers;
  misfortune: Misfortune;
}

export async function rest(world: World, { people, takers, misfortune }: Actors): Promise<void> {
  world.note('world', 'comes to rest');
  misfortune.endAll();
  await world.pass(LOOK);
  people.uncordonAll();
  for (const application of people.applications.values()) application.wanted = false;
  // Much ends now that was waited for: a last chance to die amid it.
  for (let looks = 0; looks < LULL && world.rules.breach === null; looks += 1) {
    people.decide();
    people.giveUpGrowth();
    takers.tidy();
    await world.pass(LOOK);
  }
  world.deaths.calm = true;
  await settled(
    world,
    () => [...leftover(world), ...stillUsed(people)],
    () => {
      tidy(world, people);
      takers.tidy();
    },
  );
  if (world.rules.breach === null) await examined(world, people);
  if (world.rules.breach === null) await unchanged(world);
  if (world.rules.breach === null) await emptied(world, people, takers);
}

/** Looks until nothing is left over. */
async function settled(world: World, left: () => string[], meanwhile: () => void): Promise<void> {
  const until = world.time.now + PATIENCE;
  for (;;) {
    meanwhile();
    await world.pass(LOOK);
    const still = left();
    if (still.length === 0 || world.rules.breach !== null) return;
    if (world.time.now > until) return world.rules.break('everything comes to an end', still.join('; '));
  }
}

/** Decisions; and moves are taken back that wait for what will not come, or are of another past than their volume. */
function tidy(world: World, people: People): void {
  people.decide();
  const names = new Set(world.volumes().map(({ metadata }) => metadata.name));
  for (const move of world.moves()) if (move.spec.cancel !== true && !hasEnded(move) && isVain(world, names, move)) people.cancel(move);
}

const phaseOf = ({ status }: Stored<Move>): string => status?.phase ?? 'Pending';
const hasEnded = (move: Stored<Move>): boolean => ENDED.includes(phaseOf(move));

function isVain(world: World, names: ReadonlySet<string>, move: Stored<Move>): boolean {
  if (phaseOf(move) === 'Pending' && move.status?.obstacle?.reason === 'NoPool') return true;
  if (phaseOf(move) === 'Pending' && !names.has(move.spec.volume)) return true;
  return world.rules.truths.get(move.status?.volumeUid ?? '')?.rewritten === true;
}

const stillUsed = (people: People): string[] =>
  [...people.applications.values()].filter((application) => application.isMounted()).map(({ volume }) => `${volume} is still mounted`);

/** What should not be there when everything has ended. */
function leftover(world: World): string[] {
  return [...movesLeft(world), ...volumesLeft(world), ...snapshotsLeft(world), ...disksLeft(world)];
}

const snapshotsOf = (world: World): Stored<Snapshot>[] => world.server.registry.list(Snapshots).items;

/** Those that were taken for a clone, which have a label, go by themselves. */
const snapshotsLeft = (world: World): string[] =>
  snapshotsOf(world).flatMap(({ metadata, spec, status }) =>
    status?.phase === 'Ready' && metadata.deletionTimestamp === undefined && metadata.labels === undefined
      ? []
      : [`snapshot ${metadata.name} of ${spec.volume} is ${status?.phase}: ${JSON.stringify(status)}`],
  );

const movesLeft = (world: World): string[] =>
  world.moves().flatMap(({ metadata, status, spec }) => {
    const phase = status?.phase ?? 'Pending';
    const dying = metadata.deletionTimestamp === undefined ? '' : ', deleted';
    if (ENDED.includes(phase) && dying === '') return [];
    return [`move ${metadata.name} of ${spec.volume} is ${phase}${dying}: ${JSON.stringify(status)}`];
  });

const volumesLeft = (world: World): string[] =>
  world.volumes().flatMap(({ metadata, spec, status }) => {
    const copies = Object.keys(status?.copies ?? {});
    const phase = status?.phase;
    if (metadata.deletionTimestamp === undefined && phase === 'Available' && copies.length === 1 && copies[0] === spec.copy) return [];
    return [`volume ${metadata.name} at ${spec.copy} on ${spec.node} is ${phase}: ${JSON.stringify(status)}`];
  });

function disksLeft(world: World): string[] {
  const named = new Map(world.volumes().map(({ metadata, spec }) => [`${metadata.uid}-${spec.copy}`, spec.node]));
  const kept = new Set(snapshotsOf(world).map(({ metadata }) => snapshotPoint(metadata.uid)));
  const left = [...world.machines.values()].flatMap((machine) => [...copiesLeft(machine, named, kept), ...journalsLeft(machine)]);
  return world.wires.open > 0 ? [...left, `${world.wires.open} nodes still offer volume data`] : left;
}

const copiesLeft = ({ name: node, disks }: Machine, named: ReadonlyMap<string, string | undefined>, kept: ReadonlySet<string>): string[] =>
  disks
    .flatMap(({ copies }) => [...copies])
    .flatMap(([name, copy]) => {
      const { label, points } = copy;
      if (named.get(name) !== node) return [`${node} still has copy ${label.copy} of ${label.volume} (${label.role})`];
      const stray = [...points.keys()].filter((point) => !kept.has(point));
      if (stray.length === 0 && label.role === 'active' && isInOrder(copy)) return [];
      const of = `copy ${label.copy} of ${label.volume} on ${node}`;
      return [`${of} is ${label.role}, with points ${stray.join()}`];
    });

/** Of a directory: whole, and where the served ones lie. */
const isInOrder = (copy: MemoryCopy): boolean => !('state' in copy) || (copy.state === 'ready' && 'at' in copy && copy.at === 'served');

const journalsLeft = ({ name: node, disks, journals }: Machine): string[] =>
  [...journals.keys()]
    .filter((name) => !disks.some(({ copies }) => copies.has(name)))
    .map((name) => `${node} still has a journal of ${name}`);

/** One that stays where its pool was away when it was unmounted is no harm; after the next use it is gone. */
const devicesLeft = (world: World): string[] =>
  [...world.machines.values()].flatMap(({ name, disk }) =>
    [...disk.copies.values()].flatMap(({ label, device }) => (device === null ? [] : [`${label.volume} is still attached on ${name}`])),
  );

/** Every volume is served once more, with all that was acknowledged. */
async function examined(world: World, people: People): Promise<void> {
  const waiting = new Map([...people.applications].filter(([name]) => world.volumes().some(({ metadata }) => metadata.name === name)));
  const why = new Map<string, string>();
  let busy = false;
  const look = async (): Promise<void> => {
    for (const [name, application] of waiting) {
      try {
        await application.examine();
        waiting.delete(name);
      } catch (error) {
        why.set(name, messageOf(error));
      }
    }
    busy = false;
  };
  await settled(
    world,
    () => [...[...waiting.keys()].map((name) => `${name} cannot be served: ${why.get(name)}`), ...leftover(world), ...devicesLeft(world)],
    () => {
      if (busy) return;
      busy = true;
      void look();
    },
  );
}

/** Leases are renewed; nothing else is written. */
async function unchanged(world: World): Promise<void> {
  await world.pass(QUIET);
  const before = new Map(world.rules.writes);
  await world.pass(QUIET);
  for (const [kind, count] of world.rules.writes)
    if (kind !== 'Lease' && count !== before.get(kind))
      world.rules.break('an unchanged world costs no write', `${count - (before.get(kind) ?? 0)} writes of ${kind} in ${QUIET / 1000} s`);
}

const stillRecorded = (world: World): string[] => [
  ...world.volumes().map(({ metadata }) => `volume ${metadata.name} is still recorded`),
  ...snapshotsOf(world).map(({ metadata }) => `snapshot ${metadata.name} is still recorded`),
];

async function emptied(world: World, people: People, takers: Takers): Promise<void> {
  const { registry } = world.server;
  // The volumes wait for their snapshots.
  takers.dropAll();
  for (const { metadata } of world.moves()) registry.delete(Moves, metadata.name);
  for (const { metadata } of world.volumes()) registry.delete(Volumes, metadata.name);
  await settled(
    world,
    () => [...leftover(world), ...stillRecorded(world)],
    () => people.decide(),
  );
  for (const application of people.applications.values()) application.over = true;
}
