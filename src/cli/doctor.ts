// What may be wrong, looked at from here: this machine, the way to the server, what the records say. Each finding has the way out.
// Changes nothing.
import type { Client } from '../api/client.ts';
import { CONTROLLER_LEASE } from '../api/election.ts';
import { isReady } from '../decide/observed.ts';
import type { HostAbilities } from '../host/probe.ts';
import { SYSTEM_NAMESPACE, type Stored } from '../model/meta.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { Leases, type Lease } from '../model/system.ts';
import { Volumes } from '../model/volume.ts';
import { listAll } from '../api/list-all.ts';
import { certificateOf } from '../api/peer.ts';
import { humanSeconds } from './format.ts';

/** ok: as it should be · note: something that this cluster can do without · wrong: something that a person should mend. */
export interface Finding {
  state: 'ok' | 'note' | 'wrong';
  text: string;
}

const ok = (text: string): Finding => ({ state: 'ok', text });
const wrong = (text: string): Finding => ({ state: 'wrong', text });

export function machineFindings({ kernel, root, canMount, filesystems, missing }: HostAbilities): Finding[] {
  const can = canMount ? `mounts ${filesystems.join(', ') || 'nothing'}` : 'cannot mount volumes';
  return [
    { state: root && !canMount ? 'wrong' : 'ok', text: `this machine: Linux ${kernel}, ${root ? 'root' : 'not root'}, ${can}` },
    ...missing.map((text): Finding => ({ state: 'note', text })),
  ];
}

/** Before this the server should have written a new one, ms. */
const CERTIFICATE_DUE = 30 * 24 * 3_600_000;

export function certificateFinding(certificate: string, now: number): Finding {
  const left = certificateOf(certificate).validToDate.getTime() - now;
  const until = `until ${certificateOf(certificate).validTo}`;
  const wayOut = 'the server writes a new one when it starts: restart it, or copy its kubeconfig again';
  if (left <= 0) return wrong(`the certificate in the kubeconfig has expired (${until}); ${wayOut}`);
  if (left < CERTIFICATE_DUE) return wrong(`the certificate in the kubeconfig ends soon (${until}); ${wayOut}`);
  return ok(`the certificate in the kubeconfig is good ${until}`);
}

export async function recordFindings(client: Client, now: number): Promise<Finding[]> {
  const leases = (await client.list(Leases, { namespace: SYSTEM_NAMESPACE })).items;
  const nodes = (await listAll(client, StorageNodes)).items;
  return [
    clockFinding(leases, now),
    controllerFinding(leases, now),
    ...(nodes.length === 0 ? [wrong('no node has enrolled; flockctl server invite lets one in, flockctl up makes a cluster here')] : []),
    ...nodes.flatMap(nodeFindings),
    ...(await volumeFindings(client)),
  ];
}

/** Leases are judged by clocks: a difference of some seconds shortens every grace. */
const SKEW_MS = 2_000;

const renewedAt = (lease: Lease): number => Date.parse(lease.spec.renewTime ?? '1970-01-01T00:00:00Z');

/** What was written in the future was written by a clock that is ahead of ours. */
function clockFinding(leases: readonly Lease[], now: number): Finding {
  const ahead = Math.max(...leases.map(renewedAt), 0) - now;
  if (ahead < SKEW_MS) return ok("this machine's clock is not behind those of the cluster");
  return wrong(
    `this machine's clock is ${humanSeconds(ahead / 1000)} behind another's of the cluster: keep all of them in time (chrony, systemd-timesyncd)`,
  );
}

function controllerFinding(leases: readonly Stored<Lease>[], now: number): Finding {
  const lease = leases.find((one) => one.metadata.name === CONTROLLER_LEASE);
  const holder = lease?.spec.holderIdentity;
  if (!lease || !holder) return wrong('no controller works: start one with flockctl controller, or flockctl up on this machine');
  const silent = now - renewedAt(lease);
  if (silent > (lease.spec.leaseDurationSeconds ?? 15) * 2_000)
    return wrong(`the controller ${holder} has been silent for ${humanSeconds(silent / 1000)}: look at its log, or start another`);
  return ok(`controller ${holder} works`);
}

function nodeFindings(node: Stored<StorageNode>): Finding[] {
  const { name } = node.metadata;
  const answers: boolean = isReady(node);
  if (!answers) {
    const ready = node.status?.conditions?.find((condition) => condition.type === 'Ready');
    const why = ready === undefined ? 'its agent has not reported yet' : `${ready.reason}: ${ready.message}`;
    return [wrong(`node ${name} is not ready: ${why}; start its agent, or look at its log`)];
  }
  const pools = Object.entries(node.status?.pools ?? {});
  const sick = pools.filter(([, pool]) => !pool.healthy);
  if (pools.length === 0) return [wrong(`node ${name} has no pool: name one in its pools file`)];
  if (sick.length === 0) return [ok(`node ${name} is ready, its pools are healthy: ${pools.map(([pool]) => pool).join(', ')}`)];
  return sick.map(([pool, { obstacle }]) => wrong(`pool ${pool} of node ${name}: ${obstacle?.message ?? 'it is not healthy'}`));
}

async function volumeFindings(client: Client): Promise<Finding[]> {
  const { items } = await listAll(client, Volumes);
  const blocked = items.filter((volume) => volume.status?.phase === 'Blocked');
  return [
    ok(`${items.length} volumes, ${blocked.length} of them blocked`),
    ...blocked.map((volume) =>
      wrong(`volume ${volume.metadata.name} is blocked: ${volume.status?.obstacle?.reason}: ${volume.status?.obstacle?.message}`),
    ),
  ];
}
