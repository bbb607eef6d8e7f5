// What may be wrong, looked at from here: this machine, the way to the server, what the records say. Changes nothing. A check is a function
// from what was seen to findings, each with the way out; a new one is added to CHECKS.
import { isLoopback, isWildcard, whyNotDialled } from '../agent/transfer-network.ts';
import type { Client } from '../api/client.ts';
import { nodeOfLease } from '../api/election.ts';
import { copiesOf, hasEnded, isCommitted, isReady, phaseOf } from '../decide/observed.ts';
import type { HostAbilities } from '../host/probe.ts';
import type { Clock } from '../model/clock.ts';
import { SYSTEM_NAMESPACE, type Obstacle, type Stored } from '../model/meta.ts';
import { Moves, type Move } from '../model/move.ts';
import { counted } from '../model/quantity.ts';
import { OUTSIDE, StorageNodes, UNREACHED, type StorageNode } from '../model/storage-node.ts';
import { Leases, type Lease } from '../model/system.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import { listAll } from '../api/list-all.ts';
import { certificateOf } from '../api/peer.ts';
import type { Seen } from './doctor-seen.ts';
import { clocks, controller, controllerLease, NODE_RENEWS_MS, renewedAt, unclear } from './doctor-leases.ts';
import { note, ok, wrong, type Finding } from './finding.ts';
import { humanSeconds } from './format.ts';

export function machineFindings({ kernel, root, canMount, filesystems, missing }: HostAbilities): Finding[] {
  const can = canMount ? `mounts ${filesystems.join(', ') || 'nothing'}` : 'mounts nothing';
  return [
    { state: root && !canMount ? 'wrong' : 'ok', text: `this machine: Linux ${kernel}, ${root ? 'root' : 'not root'}, ${can}` },
    ...missing.map(note),
  ];
}

/** Before this the server should have written a new one, ms. */
const CERTIFICATE_DUE = 30 * 24 * 3_600_000;

export function certificateFinding(certificate: string, now: number, what = 'the certificate in the kubeconfig'): Finding {
  const left = certificateOf(certificate).validToDate.getTime() - now;
  const until = `until ${certificateOf(certificate).validTo}`;
  const wayOut = 'the server writes a new one when it starts: restart it, or copy its kubeconfig again';
  if (left <= 0) return wrong(`${what} has expired (${until}); ${wayOut}`);
  if (left < CERTIFICATE_DUE) return wrong(`${what} ends soon (${until}); ${wayOut}`);
  return ok(`${what} is good ${until}`);
}

/** Of several generations of the server's authority the last one to end. */
export function authorityFinding(authority: string, now: number): Finding {
  const each = authority.match(/-----BEGIN CERTIFICATE-----[^]*?-----END CERTIFICATE-----/gu) ?? [authority];
  const ends = (one: string): number => certificateOf(one).validToDate.getTime();
  const last = each.reduce((one, other) => (ends(other) > ends(one) ? other : one));
  return certificateFinding(last, now, "the server's authority in the kubeconfig");
}

// ---- the records -----------------------------------------------------------------------------------------------------------------

const CHECKS: readonly ((seen: Seen) => Finding[])[] = [
  clocks,
  controller,
  nodes,
  addresses,
  networks,
  sharedPools,
  strayFiles,
  orphans,
  volumes,
  moves,
];

export async function recordFindings(client: Client, clock: Clock): Promise<Finding[]> {
  const seen = await look(client, clock);
  return CHECKS.flatMap((check) => check(seen));
}

/** Longer than a controller leaves its Lease alone. */
const WATCHED_MS = 3_000;

/** A Lease that looks old is watched for a moment: it may be a clock that is wrong, and not somebody who is silent. */
async function look(client: Client, clock: Clock): Promise<Seen> {
  const leasesNow = async (): Promise<Stored<Lease>[]> => (await client.list(Leases, { namespace: SYSTEM_NAMESPACE })).items;
  const before = await leasesNow();
  const nodesNow = async (): Promise<Stored<StorageNode>[]> => (await listAll(client, StorageNodes)).items;
  const known = await nodesNow();
  const watched = watchedMs(before, known, clock.now());
  if (watched > 0) await clock.sleep(watched);
  const leases = watched > 0 ? await leasesNow() : before;
  return {
    now: clock.now(),
    nodes: watched > 0 ? await nodesNow() : known,
    volumes: (await listAll(client, Volumes)).items,
    moves: (await listAll(client, Moves)).items,
    leases,
    renewed: new Set(leases.filter((lease) => isRenewed(lease, before)).map(({ metadata }) => metadata.name)),
  };
}

function watchedMs(leases: readonly Stored<Lease>[], nodes: readonly Stored<StorageNode>[], now: number): number {
  if (unclear(leases, nodes).length > 0) return NODE_RENEWS_MS;
  const held = controllerLease(leases);
  return held !== undefined && Math.abs(now - renewedAt(held)) > WATCHED_MS ? WATCHED_MS : 0;
}

const isRenewed = ({ metadata, spec }: Stored<Lease>, before: readonly Stored<Lease>[]): boolean =>
  before.some((lease) => lease.metadata.name === metadata.name && lease.spec.renewTime !== spec.renewTime);

const since = (at: string | undefined, now: number): number => (at === undefined ? 0 : now - Date.parse(at));

function nodes({ nodes: known, leases, now }: Seen): Finding[] {
  if (known.length === 0) return [wrong('no node has enrolled; flockctl server invite lets one in, flockctl up makes a cluster here')];
  return known.flatMap((node) => {
    const lease = leases.find(({ metadata }) => nodeOfLease(metadata.name) === node.metadata.name);
    return nodeFindings(node, lease === undefined ? '' : `, last heard of ${humanSeconds((now - renewedAt(lease)) / 1000)} ago`);
  });
}

function nodeFindings(node: Stored<StorageNode>, heard: string): Finding[] {
  const { name } = node.metadata;
  const answers: boolean = isReady(node);
  if (!answers) {
    const ready = node.status?.conditions?.find((condition) => condition.type === 'Ready');
    const why = ready === undefined ? 'its agent has not reported yet' : `${ready.reason}: ${ready.message}`;
    return [
      wrong(
        `node ${name} is not ready${heard}: ${why}${/start it|look at its log/u.test(why) ? '' : '; start its agent, or look at its log'}`,
      ),
    ];
  }
  const pools = Object.entries(node.status?.pools ?? {});
  const sick = pools.filter(([, pool]) => !pool.healthy);
  if (pools.length === 0) return [wrong(`node ${name} has no pool: name one in its pools file`)];
  if (sick.length === 0) return [ok(`node ${name} is ready, its pools are healthy: ${pools.map(([pool]) => pool).join(', ')}`)];
  return sick.map(([pool, { obstacle }]) => wrong(`pool ${pool} of node ${name}: ${obstacle?.message ?? 'it is not healthy'}`));
}

/** Of a node from which no other can fetch volume data every move fails. */
function addresses({ nodes: known }: Seen): Finding[] {
  const each = known.flatMap(({ metadata: { name }, status }) => ({ name, status, address: status?.transfer?.address ?? '' }));
  return each.flatMap(({ name, status, address }) => {
    const said = status?.conditions?.find(({ type, status: is }) => type === UNREACHED && is === 'True')?.message;
    const from = each.find((other) => other.address !== '' && !isLoopback(other.address) && !isWildcard(other.address))?.address;
    const why = said ?? whyNotDialled(name, address, from);
    return why === null ? [] : [wrong(why)];
  });
}

/** What was preferred and is not there is gone by without a word otherwise. */
function networks({ nodes: known }: Seen): Finding[] {
  return known.flatMap(({ metadata, status }) => {
    const said = status?.conditions?.find(({ type, status: is }) => type === OUTSIDE && is === 'True')?.message;
    return said === undefined ? [] : [note(`node ${metadata.name}: ${said}`)];
  });
}

/** Two agents over one disk remove each other's copies. */
function sharedPools({ nodes: known }: Seen): Finding[] {
  const pools = known.flatMap(({ metadata: { name: node }, status }) =>
    Object.entries(status?.pools ?? {}).flatMap(([pool, { uuid }]) =>
      uuid === undefined ? [] : [{ uuid, what: `${pool} of node ${node}` }],
    ),
  );
  return [...Map.groupBy(pools, ({ uuid }) => uuid).values()]
    .filter((same) => same.length > 1)
    .map((same) =>
      wrong(
        `pools ${same.map(({ what }) => what).join(' and ')} are one: stop all agents of it but one, and give the others pools of their own`,
      ),
    );
}

/** What nobody will ever remove by itself. */
function strayFiles({ nodes: known }: Seen): Finding[] {
  return known.flatMap(({ metadata: { name }, status }) =>
    Object.entries(status?.pools ?? {}).flatMap(([pool, { foreign = [] }]) =>
      foreign.length === 0
        ? []
        : [
            note(
              `pool ${pool} of node ${name} holds ${counted(foreign.length, 'thing that is', 'things that are')} no copy of a known volume and never touched (flockctl node show ${name}): remove by hand what you know to be useless`,
            ),
          ],
    ),
  );
}

/** Nobody removes them: whether the record was lost or deleted is not known. */
function orphans({ nodes: known }: Seen): Finding[] {
  return known.flatMap(({ metadata: { name }, status }) =>
    Object.entries(status?.pools ?? {}).flatMap(([pool, { orphaned = {} }]) => {
      const { length } = Object.keys(orphaned);
      const text = `pool ${pool} of node ${name} holds ${counted(length, 'copy', 'copies')} without a volume (of ${[...new Set(Object.values(orphaned))].join(', ')}), ${length === 1 ? 'which is kept and takes' : 'which are kept and take'} room (flockctl node show ${name}): restore the records that were lost, or remove from the pool by hand what you know to be useless`;
      return length === 0 ? [] : [note(text)];
    }),
  );
}

const told = ({ reason, message, since: at }: Obstacle, now: number): string =>
  `${at === undefined ? '' : ` for ${humanSeconds(since(at, now) / 1000)}`}: ${reason}: ${message}`;

function volumes({ volumes: all, nodes: known, now }: Seen): Finding[] {
  const blocked = all.filter((volume) => volume.status?.phase === 'Blocked');
  const findings = all.flatMap((volume) => [...volumeFindings(volume, now), ...homeless(volume, known)]);
  return [ok(`${counted(all.length, 'volume')}, ${blocked.length} of them blocked`), ...findings];
}

/** The volume's own obstacle, and those of its copies that it does not tell itself. */
function volumeFindings(volume: Stored<Volume>, now: number): Finding[] {
  const { name } = volume.metadata;
  const own = volume.status?.obstacle;
  const what = volume.status?.phase === 'Blocked' ? 'is blocked' : 'waits';
  const copies = Object.entries(copiesOf(volume));
  return [
    ...(own === undefined ? [] : [wrong(`volume ${name} ${what}${told(own, now)}`)]),
    ...copies.flatMap(([id, { node, obstacle }]) =>
      obstacle === undefined || obstacle.message === own?.message
        ? []
        : [wrong(`copy ${id} of volume ${name} on node ${node} is blocked${told(obstacle, now)}`)],
    ),
  ];
}

function homeless({ metadata, spec }: Stored<Volume>, known: Seen['nodes']): Finding[] {
  const { node } = spec;
  if (node === undefined || known.some((each) => each.metadata.name === node)) return [];
  return [
    wrong(
      `volume ${metadata.name} is on node ${node}, which has no record: enrol it again (flockctl server invite --node ${node}; on this machine flockctl up does it), with the same disks`,
    ),
  ];
}

/** A move that stands still for longer than this does not go on by itself. */
const LONG_MS = 60_000;
/** A person knows of it, and nothing is wrong with it. */
const EXPECTED: readonly string[] = ['WaitingForUnpublish', 'Queued'];

function moves({ moves: all, now }: Seen): Finding[] {
  const under = all.filter((move) => !hasEnded(move));
  const findings = under.flatMap((move) => moveFindings(move, now));
  const kept = under.filter((move) => phaseOf(move) === 'Retaining').length;
  return [ok(`${counted(under.length - kept, 'move')} under way, ${counted(kept, 'old copy', 'old copies')} kept`), ...findings];
}

function moveFindings(move: Stored<Move>, now: number): Finding[] {
  const { name } = move.metadata;
  const obstacle = move.status?.obstacle;
  if (obstacle === undefined || since(obstacle.since, now) < LONG_MS) return [];
  const wayOut = isCommitted(move) ? `flockctl move show ${name} tells more` : `flockctl move cancel ${name} ends it`;
  const text = `move ${name} of volume ${move.spec.volume} to node ${move.spec.target} stands still${told(obstacle, now)}; ${wayOut}`;
  return [EXPECTED.includes(obstacle.reason) ? note(text) : wrong(text)];
}
