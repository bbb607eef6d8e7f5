// What the next step is when an orchestrator wants a volume on a node: for a volume that follows its application, being wanted elsewhere is the
// order to move there. Pure; asked anew after every change, until it is there or refused.
import type { Stored } from '../model/meta.ts';
import type { Move } from '../model/move.ts';
import type { StorageNode } from '../model/storage-node.ts';
import type { Volume } from '../model/volume.ts';
import { asksToCancel, hasEnded, isCommitted, isDeleting, isUnfinished, phaseOf, servedCopy, type Why } from './observed.ts';
import { needToMove, whyNot } from './placement.ts';

export interface AttachSeen {
  volume: Stored<Volume>;
  /** Where it is wanted, and what is known of that node. */
  wanted: { name: string; record: StorageNode | null };
  /** All Moves of the volume. */
  moves: readonly Stored<Move>[];
  /** Name of the Move that this wish ordered; null: none yet. */
  ordered: string | null;
}

export type AttachStep =
  | { step: 'there' }
  | { step: 'order' }
  /** It is on its way elsewhere, where nobody wants it any more. */
  | { step: 'cancel'; move: string }
  | { step: 'wait'; for: string }
  /** `reason` of placement's, or one of these. */
  | { step: 'refuse'; why: Why };

export function nextAttachStep(seen: AttachSeen): AttachStep {
  const { volume, wanted } = seen;
  if (isDeleting(volume)) return refuse('Deleting', `volume ${volume.metadata.name} is being deleted`);
  if (volume.spec.node === wanted.name) return whereItIs(volume);
  if (volume.spec.dataMigrationMode !== 'VolumeTransfer')
    return refuse(
      'Elsewhere',
      `volume ${volume.metadata.name} is on node ${volume.spec.node ?? '(none yet)'}, not on ${wanted.name}, and does not follow its application (dataMigrationMode Disabled); move it: flockctl move ${volume.metadata.name} --to ${wanted.name}`,
    );
  return toThere(seen);
}

const refuse = (reason: string, message: string): AttachStep => ({ step: 'refuse', why: { reason, message } });

/** After the commit the copy still has to become the one that is served. */
function whereItIs(volume: Volume): AttachStep {
  const copy = servedCopy(volume);
  if (copy?.role === 'active') return { step: 'there' };
  return { step: 'wait', for: copy?.obstacle?.message ?? `its copy on node ${volume.spec.node} to become active` };
}

function toThere({ volume, wanted, moves, ordered }: AttachSeen): AttachStep {
  const own = moves.find(({ metadata }) => metadata.name === ordered);
  if (own && hasEnded(own)) return refuse('MoveEnded', endOf(own));
  const running = moves.find(isUnfinished);
  if (running) return alongWith(running, wanted.name);
  const why = whyNot(wanted.name, wanted.record, needToMove(volume, wanted.name));
  return why ? { step: 'refuse', why } : { step: 'order' };
}

function alongWith(move: Stored<Move>, wanted: string): AttachStep {
  const { name } = move.metadata;
  const told = move.status?.obstacle?.message ?? `move ${name}, which is ${phaseOf(move)}`;
  if (move.spec.target === wanted || isCommitted(move) || asksToCancel(move)) return { step: 'wait', for: told };
  return { step: 'cancel', move: name };
}

const endOf = ({ metadata, spec, status }: Stored<Move>): string =>
  `move ${metadata.name} to node ${spec.target} ended as ${status?.phase}: ${status?.ending?.message ?? 'nothing was said'}`;
