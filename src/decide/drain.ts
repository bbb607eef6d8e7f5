// What the controller's next step of draining a node is: order the next move, or tell what is left. A node is drained when nothing of any
// volume depends on it any more: it may be destroyed then. Pure.
import type { Stored } from '../model/meta.ts';
import type { Move } from '../model/move.ts';
import type { Drain, StorageNode } from '../model/storage-node.ts';
import type { Volume } from '../model/volume.ts';
import { keptCopies } from './kept.ts';
import { hasEnded, isDeleting, isUnfinished, phaseOf, servedCopy, type Why } from './observed.ts';
import { lessPromised, needToMove, place } from './placement.ts';

export interface DrainSeen {
  node: Stored<StorageNode>;
  nodes: readonly Stored<StorageNode>[];
  volumes: readonly Stored<Volume>[];
  moves: readonly Stored<Move>[];
}

export type DrainStep =
  { step: 'order'; move: string; volume: string; target: string } | { step: 'tell'; drain: Drain | null } | { step: 'none' };

/** `moving`: its way out is ordered; `message`: how far that is, or what is in the way. */
interface Left {
  volume: string;
  moving: boolean;
  message: string;
}

export function nextDrainStep(seen: DrainSeen): DrainStep {
  if (!seen.node.spec?.drain) return tell(seen, null);
  const judged = onNode(seen).map((volume) => judge(seen, volume));
  for (const each of judged) if ('step' in each) return each;
  const left = [...judged.flatMap((each) => ('step' in each ? [] : [each])), ...unproven(seen)];
  return tell(seen, { left: left.length, moving: left.filter(({ moving }) => moving).length, message: messageOf(seen, left) });
}

const onNode = ({ node, volumes }: DrainSeen): Stored<Volume>[] =>
  volumes.filter((volume) => volume.spec.node === node.metadata.name && !isDeleting(volume)).toSorted((one, other) => byName(one, other));

const byName = (one: Stored<Volume>, other: Stored<Volume>): number => (one.metadata.name < other.metadata.name ? -1 : 1);

const LONGEST_NAME = 253;

/** One name a volume and epoch: what failed once is not ordered again and again. */
export function drainMove({ metadata, spec }: Stored<Volume>): string {
  const end = `-drain-${spec.epoch ?? 0}`;
  return `${metadata.name.slice(0, LONGEST_NAME - end.length).replace(/[^a-z0-9]+$/u, '')}${end}`;
}

function judge(seen: DrainSeen, volume: Stored<Volume>): Left | Extract<DrainStep, { step: 'order' }> {
  const { name } = volume.metadata;
  const under = seen.moves.find((move) => move.spec.volume === name && isUnfinished(move));
  if (under) return { volume: name, moving: true, message: waysOf(under) };
  const move = drainMove(volume);
  const before = seen.moves.find(({ metadata }) => metadata.name === move);
  if (before)
    return {
      volume: name,
      moving: false,
      message: `move ${move} ended as ${phaseOf(before)}${because(before)}; delete it to try again, or move it by hand`,
    };
  if (!servedCopy(volume)?.created) return { volume: name, moving: false, message: 'it is not made yet; delete it, or wait' };
  const found = elsewhere(seen, volume);
  return 'node' in found
    ? { step: 'order', move, volume: name, target: found.node }
    : { volume: name, moving: false, message: found.message };
}

function elsewhere({ node, nodes, volumes, moves }: DrainSeen, volume: Stored<Volume>): { node: string } | Why {
  const others = nodes.filter(({ metadata }) => metadata.name !== node.metadata.name);
  const kept = keptCopies(volumes, moves);
  return place(lessPromised(others, volumes, moves), (target) => needToMove(volume, target, kept));
}

const waysOf = (move: Stored<Move>): string => {
  const { obstacle } = move.status ?? {};
  return `on its way to node ${move.spec.target} (${phaseOf(move)}${obstacle ? `, ${obstacle.reason}: ${obstacle.message}` : ''})`;
};

const because = ({ status }: Move): string => (status?.obstacle ? `: ${status.obstacle.message}` : '');

/** The volume is elsewhere, but its target was not yet compared with what is kept here: that may still be needed. */
function unproven(seen: DrainSeen): Left[] {
  const { name } = seen.node.metadata;
  const gone = new Set(
    seen.volumes.filter((volume) => volume.spec.node !== name && !isDeleting(volume)).map(({ metadata }) => metadata.name),
  );
  const kept = seen.moves.filter((move) => move.status?.source?.node === name && !hasEnded(move) && gone.has(move.spec.volume));
  const unread = kept.filter((move) => ['Running', undefined].includes(move.status?.incoming?.scrub?.state));
  return unread.map(({ spec }) => ({
    volume: spec.volume,
    moving: true,
    message: `on node ${spec.target}, which is compared with the old copy here`,
  }));
}

const MOST_TOLD = 5;

function messageOf({ node }: DrainSeen, left: readonly Left[]): string {
  if (left.length === 0) return `no volume depends on node ${node.metadata.name} any more`;
  // What waits for somebody first.
  const told = left.toSorted((one, other) => Number(one.moving) - Number(other.moving)).slice(0, MOST_TOLD);
  const rest = left.length - told.length;
  const each = told.map(({ volume, message }) => `volume ${volume}: ${message}`).join('; ');
  return `${each}${rest > 0 ? `; and ${rest} more` : ''}`.slice(0, 1000);
}

/** What is told of each volume, one by one. */
export const drainParts = (message: string): string[] => message.split(/; (?=volume [a-z0-9.-]+: |and \d+ more$)/u);

function tell({ node }: DrainSeen, drain: Drain | null): DrainStep {
  return isSame(node.status?.drain ?? null, drain) ? { step: 'none' } : { step: 'tell', drain };
}

const isSame = (one: Drain | null, other: Drain | null): boolean =>
  one === null || other === null ? one === other : one.left === other.left && one.moving === other.moving && one.message === other.message;
