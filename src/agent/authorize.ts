// Whom this node serves a copy's bytes: only the node that a fresh read of the Move names, and only in a phase that copies (rule 9).
import { isDeleting, phaseOf } from '../decide/observed.ts';
import type { Client } from '../api/client.ts';
import { FlockError, ifFound } from '../model/errors.ts';
import { printable } from '../model/names.ts';
import type { Move, MovePhase } from '../model/move.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import type { Authorize, Hello, Offer, Peer } from '../transfer/transfer.ts';
import type { Copies, LocalCopy } from './copies.ts';
import type { Turns } from '../host/turns.ts';
import type { AgentPorts } from './ports.ts';
import { freshMove } from './records.ts';

const PHASES: { [P in Exclude<Hello['purpose'], 'measure'>]: readonly MovePhase[] } = {
  round: ['Syncing', 'ReadyToCutOver', 'Fencing', 'FinalDelta', 'Verifying'],
  scrub: ['Published', 'Retaining'],
};

export function authorizer(
  ports: Pick<AgentPorts, 'client' | 'node' | 'mounts'>,
  { copies, lock }: { copies: Copies; lock: Turns },
): Authorize {
  const { client, node, mounts } = ports;
  return async (hello, peer) => {
    if (await isRevoked(client, peer))
      throw new FlockError('Forbidden', `node ${peer.node} was removed from this cluster: its certificate is revoked; enrol it again`);
    const move = await freshMove(client, hello.move);
    if (!move) throw new FlockError('NotFound', `there is no move ${printable(hello.move)}`);
    const why = whyNot(hello, peer.node, node, move);
    if (why) throw new FlockError('Forbidden', `node ${peer.node} is not served for move ${printable(hello.move)}: ${why}`);
    const local = await copies.one(hello.volumeUid, hello.copy);
    // Who flushes has the mount open for a moment: under the volume's lock, or an unmount would find it busy by this very agent.
    const flush = (): Promise<void> =>
      lock(local.seen.label.volume, async () => {
        // As it is then, not as it is now: a volume may be mounted during the round.
        for (const target of (await copies.one(hello.volumeUid, hello.copy)).seen.published) await mounts.beFlushed(target);
      });
    return { ...offer(hello, local), flush };
  };
}

/** Longer than this nobody is let in to measure, whatever the record says, ms. */
const LONGEST_MEASURE = 300_000;

/** Who may measure the wire to this node now; null: nobody. */
export function measuredBy(node: StorageNode | null, now: number): string | null {
  const { by, until } = node?.spec?.measure ?? {};
  const left = until === undefined ? 0 : Date.parse(until) - now;
  return left > 0 && left <= LONGEST_MEASURE ? (by ?? null) : null;
}

/** By a fresh read of this node's own record. */
export async function authorizeMeasuring(
  { client, node, clock }: Pick<AgentPorts, 'client' | 'node' | 'clock'>,
  peer: Peer,
): Promise<void> {
  if (await isRevoked(client, peer)) throw new FlockError('Forbidden', `node ${peer.node} was removed from this cluster`);
  const record = await ifFound(client.get(StorageNodes, node));
  if (measuredBy(record, clock.now()) !== peer.node)
    throw new FlockError('Forbidden', `node ${peer.node} may not measure the wire to node ${node}: order it by flockctl bench`);
}

/** Deleting a StorageNode revokes what was signed for it, also when a record of that name was made anew. */
async function isRevoked(client: Client, { node, uid }: Peer): Promise<boolean> {
  const record = await ifFound(client.get(StorageNodes, node));
  return record?.metadata.uid !== uid || isDeleting(record);
}

/** The record's word against what the peer says of itself. */
export function whyNot(hello: Hello, peer: string, node: string, move: Move): string | null {
  const { source, volumeUid, epoch } = move.status ?? {};
  const checks: [boolean, string][] = [
    [move.metadata.uid === hello.moveUid, 'a move of that name was made anew since'],
    [move.spec.target === peer, `its target is node ${move.spec.target}`],
    [source?.node === node, `its source is node ${source?.node}, not ${node}`],
    [volumeUid === hello.volumeUid && source?.copy === hello.copy, 'it is about another volume or copy'],
    [epoch === hello.epoch, `it is at epoch ${epoch}, not ${hello.epoch}`],
    [hello.purpose !== 'measure' && PHASES[hello.purpose].includes(phaseOf(move)), `in phase ${phaseOf(move)} nothing is copied`],
  ];
  return checks.find(([holds]) => !holds)?.[1] ?? null;
}

function offer(hello: Hello, { found, seen }: LocalCopy): Offer {
  const { role, epoch } = seen.label;
  const expected = hello.purpose === 'scrub' ? role === 'stale' || role === 'retired' : role === 'active' || role === 'retired';
  if (epoch !== hello.epoch || !expected)
    throw new FlockError(
      'Conflict',
      `the copy's own label says ${role} at epoch ${epoch}; a ${hello.purpose} of epoch ${hello.epoch} is not served from it`,
    );
  return { pool: found.pool, copy: found.name, fenced: role === 'stale' || (role === 'retired' && seen.held) };
}
