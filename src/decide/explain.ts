// In words: what a volume, a move or a node is, what it waits for, and what would happen if. Says what the decisions would decide, by asking
// them. Pure.
import type { Stored } from '../model/meta.ts';
import type { Move, MovePhase } from '../model/move.ts';
import { durationMs } from '../model/names.ts';
import { humanBytes } from '../model/quantity.ts';
import type { Snapshot } from '../model/snapshot.ts';
import { HELD_BACK, type StorageNode } from '../model/storage-node.ts';
import { filesystemOf, type CopyStatus, type Volume, type VolumeSpec } from '../model/volume.ts';
import { DEFAULTS } from './defaults.ts';
import { keptCopies, type KeptCopy } from './kept.ts';
import { copiesOf, hasEnded, isCommitted, isDeleting, isFencing, isReady, isUnfinished, phaseOf, servedCopy } from './observed.ts';
import { holdsDirectories, lessPromised, needToMove, place, whyNot } from './placement.ts';

export interface Records {
  volumes: readonly Stored<Volume>[];
  moves: readonly Stored<Move>[];
  nodes: readonly Stored<StorageNode>[];
  snapshots: readonly Stored<Snapshot>[];
}

/** A title and sentences. */
export interface Passage {
  title: string;
  lines: readonly string[];
}

const passages = (...all: Passage[]): Passage[] => all.filter(({ lines }) => lines.length > 0);
const whenSo = (isSo: boolean, line: string): string[] => (isSo ? [line] : []);
const sizeOf = (text: string | undefined): string => humanBytes(BigInt(text ?? 0));

// ---- a volume ------------------------------------------------------------------------------------------------------------------

export function explainVolume(volume: Stored<Volume>, records: Records): Passage[] {
  return passages(
    { title: 'Is', lines: [whatIs(volume, records), ...whereIs(volume)] },
    { title: 'Waits for', lines: waitsFor(volume, records) },
    { title: 'Keeps', lines: keeps(volume, records) },
    { title: 'If it is mounted', lines: [ifMounted(volume, records)] },
    { title: 'If it moves', lines: ifMoved(volume, records) },
    { title: 'If its node is lost', lines: ifLost(volume) },
    { title: 'If it is deleted', lines: ifDeleted(volume, records) },
  );
}

const whatIs = ({ metadata, spec, status }: Stored<Volume>, { nodes }: Pick<Records, 'nodes'>): string =>
  `volume ${metadata.name}: ${status?.capacity ? sizeOf(status.capacity) : spec.size}, ${contentOf(spec, nodes)}, ${status?.phase ?? 'Pending'}`;

/** What is on it. */
export function contentOf(spec: VolumeSpec, nodes: readonly StorageNode[]): string {
  if (spec.pool !== undefined && holdsDirectories(nodes, spec.pool)) return "a directory of its pool's filesystem";
  return filesystemOf(spec) ?? 'a raw block device';
}

function whereIs({ spec, status }: Stored<Volume>): string[] {
  const copy = status?.copies?.[spec.copy ?? ''];
  if (!spec.node) return ['it has no node yet'];
  const used = copy?.published?.length ? `mounted at ${copy.published.join(', ')}` : 'not in use';
  return [`copy ${spec.copy} in pool ${spec.pool} of node ${spec.node} is the one that is served, at epoch ${spec.epoch}; ${used}`];
}

function waitsFor({ metadata, status }: Stored<Volume>, { moves }: Records): string[] {
  const { obstacle } = status ?? {};
  const own = obstacle ? [`${obstacle.reason}: ${obstacle.message}${obstacle.since ? ` (since ${obstacle.since})` : ''}`] : [];
  return [
    ...own,
    ...moves
      .filter((move) => move.spec.volume === metadata.name && isUnfinished(move))
      .map((move) => `move ${move.metadata.name}: ${meaningOf(move)}`),
  ];
}

function keeps(volume: Stored<Volume>, { snapshots, moves }: Records): string[] {
  const kept = keptCopies([volume], moves);
  const others = Object.entries(copiesOf(volume)).filter(([id]) => id !== volume.spec.copy);
  const held = snapshots.filter(({ spec }) => spec.volume === volume.metadata.name);
  return [
    ...others.map(([id, copy]) => otherCopy(id, copy) + endOf(kept.find((each) => each.copy === id))),
    ...held.map(
      ({ metadata, status }) => `snapshot ${metadata.name} on node ${status?.node ?? '(none yet)'}, ${status?.phase ?? 'Pending'}`,
    ),
  ];
}

const OTHERS: { [role in CopyStatus['role']]: string } = {
  ordered: 'is ordered and not made yet',
  incoming: 'is being filled by a move',
  active: 'says that it is active, but the record names another: it is not served',
  retired: 'is fenced for a move that has not committed',
  standby: 'is an older, verified generation',
  stale: 'is superseded and kept for a while; it takes room and is never served',
};

/** Until when a move keeps it, and how to end that. */
const endOf = (kept: KeptCopy | undefined): string =>
  kept === undefined ? '' : `; at least until ${new Date(kept.until).toISOString()}, or sooner by: flockctl move release ${kept.move}`;

const otherCopy = (id: string, { node, role, obstacle, size }: CopyStatus): string =>
  `copy ${id} on node ${node}${size === undefined ? '' : ` (${sizeOf(size)})`} ${OTHERS[role]}${obstacle ? ` (${obstacle.message})` : ''}`;

function ifMounted(volume: Stored<Volume>, { moves, nodes }: Records): string {
  const { spec, metadata } = volume;
  if (isDeleting(volume)) return 'it is refused: it is being deleted';
  const copy = servedCopy(volume);
  if (!spec.node || copy?.role !== 'active') return 'it is refused until its copy is made and active';
  const fencing = moves.find((move) => move.spec.volume === metadata.name && isFencing(move) && !isCommitted(move));
  if (fencing) return `it is refused until move ${fencing.metadata.name} has cut over`;
  if (!isReady(nodeOf(nodes, spec.node))) return `it is not possible while the agent of node ${spec.node} does not answer`;
  return `it works on node ${spec.node}: flockctl volume mount ${metadata.name} DIR. On any other node it is refused`;
}

const nodeOf = (nodes: readonly Stored<StorageNode>[], name: string): Stored<StorageNode> | null =>
  nodes.find(({ metadata }) => metadata.name === name) ?? null;

const onItsWay = ({ metadata, spec }: Stored<Move>): string => `it is on its way to node ${spec.target} (move ${metadata.name})`;

function ifMoved(volume: Stored<Volume>, { nodes, volumes, moves }: Records): string[] {
  const under = moves.find((move) => move.spec.volume === volume.metadata.name && isUnfinished(move));
  if (under) return [`${onItsWay(under)}; it can go elsewhere once that has ended (flockctl explain move ${under.metadata.name})`];
  const kept = keptCopies(volumes, moves);
  const others = lessPromised(
    nodes.filter(({ metadata }) => metadata.name !== volume.spec.node),
    volumes,
    moves,
  );
  const judged = others.map((node) => ({
    name: node.metadata.name,
    why: whyNot(node.metadata.name, node, needToMove(volume, node.metadata.name, kept)),
  }));
  const can = judged.filter(({ why }) => why === null).map(({ name }) => name);
  const used = (servedCopy(volume)?.published?.length ?? 0) > 0;
  return [
    can.length > 0 ? `it can go to ${can.join(', ')}` : 'no other node can take it',
    ...judged.flatMap(({ why }) => (why ? [why.message] : [])),
    ...whenSo(can.length > 0 && used, 'it is copied while it is in use, and cut over once it is unmounted'),
    ...whenSo(can.length > 0, `the old copy is kept for ${volume.spec.retainSource ?? DEFAULTS.retainSource} after that`),
  ];
}

function ifLost({ spec }: Stored<Volume>): string[] {
  if (!spec.node) return [];
  return [`the volume waits for node ${spec.node}: its bytes are on that node's disk. No copy elsewhere is promoted by itself`];
}

function ifDeleted(volume: Stored<Volume>, { snapshots }: Records): string[] {
  const { name } = volume.metadata;
  const held = snapshots.filter(({ spec }) => spec.volume === name).map(({ metadata }) => metadata.name);
  const used = servedCopy(volume)?.published ?? [];
  return [
    'all its copies are removed, and what is on them is lost',
    ...whenSo(used.length > 0, `only after it is unmounted from ${used.join(', ')}`),
    ...whenSo(held.length > 0, `only after its snapshots are deleted: ${held.join(', ')}`),
  ];
}

// ---- a move --------------------------------------------------------------------------------------------------------------------

/** What happens in each phase, and what ends it. */
const MEANING: { [phase in MovePhase]: string } = {
  Pending: 'it waits for its turn: for the nodes to have room, for other moves, or for an earlier move of the same volume',
  Reserving: 'the target makes room',
  Syncing: 'the target copies, round by round, while the application goes on',
  ReadyToCutOver: 'what is left is small enough; it cuts over once nobody uses the volume at the source',
  Fencing: 'the source proves that nobody can write it any more',
  FinalDelta: 'the last changes are read from the fenced source, written, read back and compared',
  Verifying: 'what was proven is looked at once more before the commit',
  Committed: 'the volume belongs to the target; from here on it only goes forward',
  Activating: 'the target makes its copy the one that is served',
  Published: 'the volume may be used at the target',
  Retaining: 'the volume is at the target; the old copy is kept, and compared with the new one',
  Done: 'it is over: the volume is at the target, and the old copy is gone',
  Cancelling: 'it is taken back: the source is served again and the target removes what it has',
  Cancelled: 'it was taken back',
  Failed: 'it ended without moving the volume',
};

const meaningOf = (move: Move): string => {
  const { obstacle } = move.status ?? {};
  return `${phaseOf(move)}: ${MEANING[phaseOf(move)]}${obstacle ? `. ${obstacle.reason}: ${obstacle.message}` : ''}`;
};

/** Why a copy in the background is slower than its disks and its wire: what its nodes say. */
export function heldBackBy(move: Move, nodes: readonly Stored<StorageNode>[]): string[] {
  const copying = phaseOf(move) === 'Syncing' || phaseOf(move) === 'ReadyToCutOver' || move.status?.incoming?.scrub?.state === 'Running';
  if (!copying || hasEnded(move)) return [];
  return nodes
    .filter(({ metadata }) => isOf(move, metadata.name))
    .flatMap(({ status }) => status?.conditions?.find(({ type, status: is }) => type === HELD_BACK && is === 'True')?.message ?? []);
}

export function explainMove(move: Stored<Move>, now: number, nodes: readonly Stored<StorageNode>[]): Passage[] {
  const { spec, status = {}, metadata } = move;
  const source = status.source ? ` from node ${status.source.node}` : '';
  return passages(
    {
      title: 'Is',
      lines: [
        `move ${metadata.name}: volume ${spec.volume}${source} to node ${spec.target}${spec.reason ? `, because ${spec.reason}` : ''}`,
        meaningOf(move),
        ...heldBackBy(move, nodes),
      ],
    },
    { title: 'Keeps', lines: keptFor(move, now) },
    { title: 'If it is cancelled', lines: ifCancelled(move) },
  );
}

function keptFor(move: Stored<Move>, now: number): string[] {
  const { source, committedAt, incoming, release } = move.status ?? {};
  if (phaseOf(move) !== 'Retaining' || !source || committedAt === undefined) return [];
  const hours = Math.max(0, now - Date.parse(committedAt)) / durationMs('1h');
  const scrub = incoming?.scrub?.state ?? 'not begun';
  return [
    `the old copy ${source.copy} on node ${source.node}, for ${hours.toFixed(1)} h by now; comparison: ${scrub}${release ? '; it is let go' : ''}`,
  ];
}

function ifCancelled(move: Stored<Move>): string[] {
  if (hasEnded(move)) return [];
  if (isCommitted(move)) return ['it is too late: the volume is at the target. Move it back instead'];
  const { source } = move.status ?? {};
  const stays = source ? `stays on node ${source.node}, and what was copied is removed` : 'stays where it is; nothing was copied yet';
  return [`the volume ${stays}: flockctl move cancel ${move.metadata.name}`];
}

// ---- a node --------------------------------------------------------------------------------------------------------------------

export function explainNode(node: Stored<StorageNode>, records: Records): Passage[] {
  const { name } = node.metadata;
  const here = records.volumes.filter(({ spec }) => spec.node === name);
  return passages(
    { title: 'Is', lines: [...readiness(node), ...poolsOf(node)] },
    { title: 'Serves', lines: here.map((volume) => whatIs(volume, records)) },
    {
      title: 'Takes part in',
      lines: records.moves
        .filter((move) => !hasEnded(move) && isOf(move, name))
        .map((move) => `move ${move.metadata.name}: ${meaningOf(move)}`),
    },
    {
      title: 'Keeps',
      lines: keptCopies(records.volumes, records.moves)
        .filter((each) => each.node === name)
        .map(keptHere),
    },
    { title: 'If it is drained', lines: ifDrained(node, here, records) },
    {
      title: 'If it is lost',
      lines:
        here.length === 0
          ? ['nothing that is served is lost']
          : [`${namesOf(here)} ${here.length === 1 ? 'waits for it: its' : 'wait for it: their'} bytes are on its disks`],
    },
  );
}

const keptHere = (kept: KeptCopy): string =>
  `copy ${kept.copy} of volume ${kept.volume} in pool ${kept.pool}, ${humanBytes(kept.size)}: superseded${endOf(kept)}`;

const isOf = (move: Move, node: string): boolean => move.spec.target === node || move.status?.source?.node === node;
const namesOf = (volumes: readonly Stored<Volume>[]): string => volumes.map(({ metadata }) => metadata.name).join(', ');

function answering(status: StorageNode['status']): string {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return ready?.status === 'True' ? 'its agent answers' : `its agent does not answer (${ready?.message ?? 'it never reported'})`;
}

function readiness({ metadata, status, spec }: Stored<StorageNode>): string[] {
  return [
    `node ${metadata.name}: ${answering(status)}`,
    ...whenSo(spec?.unschedulable === true, 'it takes no volumes (spec.unschedulable)'),
    ...whenSo(spec?.drain === true, `it is being drained: ${status?.drain?.message ?? 'nothing was done yet'}`),
  ];
}

const poolsOf = ({ status }: Stored<StorageNode>): string[] =>
  Object.entries(status?.pools ?? {}).map(([name, pool]) =>
    pool.healthy
      ? `pool ${name} (${pool.type}): ${sizeOf(pool.free)} free`
      : `pool ${name} (${pool.type}): ${pool.obstacle?.message ?? 'not usable now'}`,
  );

/** One after the other, each in the room that the last one left. */
function ifDrained(node: Stored<StorageNode>, here: readonly Stored<Volume>[], { nodes, volumes, moves }: Records): string[] {
  if (here.length === 0) return ['it has nothing to give away'];
  const others = nodes.filter(({ metadata }) => metadata.name !== node.metadata.name);
  const lines: string[] = [];
  let promised: Stored<Move>[] = [...moves];
  const kept = keptCopies(volumes, moves);
  for (const volume of here) {
    const { name } = volume.metadata;
    const under = moves.find((move) => move.spec.volume === name && isUnfinished(move));
    if (under) {
      lines.push(`${name}: ${onItsWay(under)}`);
      continue;
    }
    const found = place(lessPromised(others, volumes, promised), (target) => needToMove(volume, target, kept));
    lines.push('node' in found ? `${name} would go to node ${found.node}` : `${name} could not leave: ${found.message}`);
    if ('node' in found) promised = [...promised, pending(volume, found.node)];
  }
  return lines;
}

const pending = ({ metadata, ...volume }: Stored<Volume>, target: string): Stored<Move> => ({
  apiVersion: volume.apiVersion,
  kind: 'Move',
  metadata,
  spec: { volume: metadata.name, target },
});
