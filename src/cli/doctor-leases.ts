// What the Leases tell the doctor: whose clock is wrong, and whether a controller works. Silence is judged by whether a Lease moved while it was
// looked at, for the times in it are another machine's.
import { CONTROLLER_LEASE, nodeOfLease } from '../api/election.ts';
import { isReady } from '../decide/observed.ts';
import type { Stored } from '../model/meta.ts';
import type { StorageNode } from '../model/storage-node.ts';
import type { Lease } from '../model/system.ts';
import type { Seen } from './doctor-seen.ts';
import { ok, wrong, type Finding } from './finding.ts';
import { humanSeconds } from './format.ts';

export const controllerLease = (leases: readonly Stored<Lease>[]): Stored<Lease> | undefined =>
  leases.find(({ metadata, spec }) => metadata.name === CONTROLLER_LEASE && spec.holderIdentity);
export const renewedAt = (lease: Lease): number => Date.parse(lease.spec.renewTime ?? '1970-01-01T00:00:00Z');
/** Certificates are judged by clocks, and people read the times in records. */
const SKEW_MS = 2_000;
const KEEP_IN_TIME = 'keep all machines in time (chrony, systemd-timesyncd)';

/** Renewed every 2 s by controllers, every 10 s by nodes. */
const CONTROLLER_RENEWS_MS = 2_400;
export const NODE_RENEWS_MS = 11_000;

/** Of a node's Lease: no clock that is in time wrote it within the node's beat. Either the clock is behind, or the Lease is overdue. */
const seemsBehind = (lease: Lease, reference: number): boolean => reference - renewedAt(lease) - NODE_RENEWS_MS >= SKEW_MS;

/** Names of nodes' Leases that tell only when they are renewed whether a clock is behind. */
export function unclear(leases: readonly Stored<Lease>[], nodes: readonly Stored<StorageNode>[]): string[] {
  const reference = controllerLease(leases);
  if (reference === undefined) return [];
  const ready = nodes.filter(isReady).map(({ metadata }) => metadata.name);
  const doubted = leases.filter((lease) => seemsBehind(lease, renewedAt(reference)));
  return doubted.map(({ metadata }) => metadata.name).filter((name) => ready.includes(nodeOfLease(name) ?? ''));
}

export function clocks(seen: Seen): Finding[] {
  const lease = controllerLease(seen.leases);
  const reference = lease === undefined || isSilent(seen, lease) ? null : renewedAt(lease);
  const own = ownClock(seen, reference);
  const others = reference === null ? [] : seen.leases.flatMap((each) => nodeClock(seen, each, reference));
  return own.length + others.length === 0 ? [ok('the clocks of the cluster agree')] : [...own, ...others];
}

/** What was written in the future was written by a clock that is ahead of ours. */
function ownClock({ leases, now }: Seen, reference: number | null): Finding[] {
  const ahead = Math.max(...leases.map(renewedAt), 0) - now;
  const behind = reference === null ? 0 : now - reference - CONTROLLER_RENEWS_MS;
  if (ahead >= SKEW_MS)
    return [wrong(`this machine's clock is ${humanSeconds(ahead / 1000)} behind another's of the cluster: ${KEEP_IN_TIME}`)];
  if (behind >= SKEW_MS)
    return [wrong(`this machine's clock is ${humanSeconds(behind / 1000)} ahead of the controller's: ${KEEP_IN_TIME}`)];
  return [];
}

/** An overdue Lease says nothing about a clock, for nobody may be there to renew it: only one that was seen to be renewed does. */
function nodeClock({ nodes: known, renewed }: Seen, lease: Stored<Lease>, reference: number): Finding[] {
  const name = nodeOfLease(lease.metadata.name);
  const node = known.find(({ metadata }) => metadata.name === name);
  if (name === null || node === undefined || !isReady(node)) return [];
  const ahead = renewedAt(lease) - reference - CONTROLLER_RENEWS_MS;
  const isBehind = renewed.has(lease.metadata.name) && seemsBehind(lease, reference);
  if (ahead < SKEW_MS && !isBehind) return [];
  const behind = reference - renewedAt(lease) - NODE_RENEWS_MS;
  const told = isBehind ? `${humanSeconds(behind / 1000)} behind` : `${humanSeconds(ahead / 1000)} ahead of`;
  return [wrong(`the clock of node ${name} is ${told} the controller's: ${KEEP_IN_TIME}`)];
}

function isSilent({ now, renewed }: Seen, lease: Lease): boolean {
  return !renewed.has(CONTROLLER_LEASE) && now - renewedAt(lease) > (lease.spec.leaseDurationSeconds ?? 15) * 1_000;
}

export function controller(seen: Seen): Finding[] {
  const lease = controllerLease(seen.leases);
  if (!lease) return [wrong('no controller works: start one with flockctl controller, or flockctl up on this machine')];
  const holder = lease.spec.holderIdentity;
  if (!isSilent(seen, lease)) return [ok(`controller ${holder} works`)];
  const silent = humanSeconds((seen.now - renewedAt(lease)) / 1000);
  return [
    wrong(
      `the controller ${holder} has been silent for ${silent}, and nothing is placed, moved or judged: look at its log, or start another; one that was just started takes over within ${lease.spec.leaseDurationSeconds ?? 15} s`,
    ),
  ];
}
