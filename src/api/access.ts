// Who may do what with the records: pure rules over what is there and what would be. A node writes what its own agent has to say and
// nothing else; in a cluster an admission policy says the same. Knows no transport.
import type { Kind } from '../model/kind.ts';
import { SYSTEM_NAMESPACE, type ApiObject } from '../model/meta.ts';
import type { Move } from '../model/move.ts';
import type { Snapshot } from '../model/snapshot.ts';
import type { StorageNode } from '../model/storage-node.ts';
import type { Volume } from '../model/volume.ts';
import { nodeLease } from './election.ts';
import { isRecord, sameJson } from './merge-patch.ts';
import { ADMIN_GROUP, CONTROLLER_GROUP, NODE_GROUP, NODE_USER_PREFIX } from './peer.ts';
import type { Verb } from './registry.ts';
import { resourceOf } from './status.ts';

export interface Identity {
  /** Common name of the certificate. */
  user: string;
  /** Its organisations. */
  groups: readonly string[];
}

export interface Write {
  old: ApiObject | null;
  next: ApiObject | null;
}

/** Why not, as the end of a sentence that begins with who; null: allowed. */
export type Refusal = string | null;

const mayAll = ({ groups }: Identity): boolean => groups.includes(ADMIN_GROUP) || groups.includes(CONTROLLER_GROUP);

/** The node that an identity speaks for, null if it is none. */
const nodeNamed = ({ user, groups }: Identity): string | null =>
  groups.includes(NODE_GROUP) && user.startsWith(NODE_USER_PREFIX) ? user.slice(NODE_USER_PREFIX.length) : null;

export const told = ({ user, groups }: Identity): string => `${JSON.stringify(user)} (${groups.join(', ') || 'in no group'})`;

export function mayRead(identity: Identity): Refusal {
  if (mayAll(identity) || nodeNamed(identity) !== null) return null;
  return `may not read: it needs a certificate of the group ${ADMIN_GROUP}, ${CONTROLLER_GROUP} or ${NODE_GROUP}`;
}

export function mayWrite(identity: Identity, verb: Verb, kind: Kind, write: Write): Refusal {
  if (mayAll(identity)) return null;
  const node = nodeNamed(identity);
  if (node === null) return `may not ${verb} it: only ${ADMIN_GROUP} and ${CONTROLLER_GROUP} may`;
  const rule = OF_NODES[resourceOf(kind)];
  if (!rule) return `may not ${verb} it: a node writes no ${kind.plural}`;
  return rule(node, verb, write);
}

type Rule = (node: string, verb: Verb, write: Write) => Refusal;

const OF_NODES: { [resource: string]: Rule } = {
  'storagenodes.flock.dev': ownStorageNode,
  'leases.coordination.k8s.io': ownLease,
  events: anyEvent,
  'volumes.flock.dev': ownCopies,
  'moves.flock.dev': ownPart,
  'snapshots.flock.dev': ownSnapshots,
};

/** What keeps an object from going when it is deleted. */
const HOLDS: readonly string[] = ['finalizers', 'ownerReferences'];

function ownStorageNode(node: string, verb: Verb, { old, next }: Write): Refusal {
  const name = (next ?? old)?.metadata.name;
  if (name !== node) return `may not ${verb} it: a node writes its own StorageNode, ${node}, and no other`;
  if (verb === 'delete') return 'may not delete it: that takes the node out of the cluster, which is for an administrator to say';
  const kept = changed(old?.metadata, next?.metadata).filter((field) => HOLDS.includes(field));
  if (kept.length > 0) return `may not change its ${kept.join(', ')}: nobody holds its own record against being deleted`;
  return ordersOfOthers((old ?? {}) as StorageNode, (next ?? {}) as StorageNode);
}

/** Whether it takes volumes, and is drained, is for others to say: who is drained may be destroyed. */
function ordersOfOthers(old: StorageNode, next: StorageNode): Refusal {
  const spec = changed(old.spec, next.spec);
  if (spec.length > 0) return `may not change spec.${spec.join(', spec.')}: that is for an administrator to say`;
  return sameJson(old.status?.drain, next.status?.drain) ? null : 'may not change status.drain: the controller says how far it is drained';
}

function ownLease(node: string, verb: Verb, { old, next }: Write): Refusal {
  const metadata = (next ?? old)?.metadata;
  const own = nodeLease(node);
  if (metadata?.name === own && metadata.namespace === SYSTEM_NAMESPACE) return null;
  return `may not ${verb} it: a node writes its own Lease, ${SYSTEM_NAMESPACE}/${own}, and no other`;
}

function anyEvent(_: string, verb: Verb): Refusal {
  return verb === 'delete' ? 'may not delete it: events go by themselves' : null;
}

/** The fields that differ, by name. */
function changed(a: unknown, b: unknown): string[] {
  const [before, after] = [isRecord(a) ? a : {}, isRecord(b) ? b : {}];
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((key) => !sameJson(before[key], after[key]));
}

/** An object as far as it is not status. */
const besides = ({ metadata, ...rest }: ApiObject & { status?: unknown }): object => {
  const { resourceVersion: _, ...meta } = metadata;
  return { ...rest, metadata: meta, status: undefined };
};

/** Refuses all but an update that changes nothing outside of `status`. */
function statusOnly(verb: Verb, { old, next }: Write): Refusal {
  if (verb !== 'update' || !old || !next) return `may not ${verb} it: a node writes parts of its status`;
  const fields = changed(besides(old), besides(next));
  return fields.length === 0 ? null : `may not change its ${fields.join(', ')}: a node writes parts of its status`;
}

function ownCopies(node: string, verb: Verb, write: Write): Refusal {
  const refusal = statusOnly(verb, write);
  if (refusal !== null) return refusal;
  const [before = {}, after = {}] = [(write.old as Volume).status, (write.next as Volume).status];
  const others = changed(before, after).filter((field) => field !== 'copies');
  if (others.length > 0) return `may not change status.${others.join(', status.')}: a node writes its own copies' entries in status.copies`;
  return ownEntries(node, before.copies ?? {}, after.copies ?? {});
}

type Copies = NonNullable<NonNullable<Volume['status']>['copies']>;

function ownEntries(node: string, before: Copies, after: Copies): Refusal {
  for (const id of changed(before, after)) {
    const stranger = [before[id], after[id]].find((entry) => entry !== undefined && entry.node !== node);
    if (stranger) return `may not change status.copies.${id}: that copy is on node ${JSON.stringify(stranger.node)}`;
  }
  return null;
}

/** What the controller writes of a Snapshot's status. */
const NAMED: readonly string[] = ['node', 'pool', 'copy', 'volumeUid'];

function ownSnapshots(node: string, verb: Verb, write: Write): Refusal {
  const refusal = statusOnly(verb, write);
  if (refusal !== null) return refusal;
  const [before, after] = [(write.old as Snapshot).status, (write.next as Snapshot).status];
  if (before?.node !== node) return `may not change its status: it is of a copy on node ${JSON.stringify(before?.node ?? 'none yet')}`;
  const others = changed(before, after).filter((field) => NAMED.includes(field));
  return others.length === 0 ? null : `may not change status.${others.join(', status.')}: the controller says which copy it is of`;
}

function ownPart(node: string, verb: Verb, write: Write): Refusal {
  const refusal = statusOnly(verb, write);
  if (refusal !== null) return refusal;
  const [before, after] = [(write.old as Move).status, (write.next as Move).status];
  const writers: { [field: string]: string | undefined } = { outgoing: before?.source?.node, incoming: before?.target?.node };
  for (const field of changed(before, after)) {
    if (!Object.hasOwn(writers, field))
      return `may not change status.${field}: a node writes status.outgoing as the source and status.incoming as the target`;
    if (writers[field] !== node)
      return `may not change status.${field}: that is for node ${JSON.stringify(writers[field] ?? 'none yet')} to write`;
  }
  return null;
}
