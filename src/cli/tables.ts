// What people see of each kind in a list. Pure: a clock's reading is an argument.
import { isFencing, phaseOf, servedCopy } from '../decide/observed.ts';
import type { Stored } from '../model/meta.ts';
import { Moves, type Move } from '../model/move.ts';
import { Snapshots, type Snapshot } from '../model/snapshot.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import { ageOf, bytesOf, humanRate, humanSeconds } from './format.ts';
import type { View } from './print.ts';

const age = (object: { metadata: { creationTimestamp?: string } }, now: number): string => ageOf(object.metadata.creationTimestamp, now);

/** Where the copy that may be served is mounted. */
export const mountsOf = (volume: Volume): string[] => servedCopy(volume)?.published ?? [];

/** As it was asked for; a bare number of bytes as people read it. */
const sizeOf = ({ spec: { size } }: Volume): string => (/^[0-9]+$/u.test(size) ? bytesOf(size) : size);

export const VOLUMES: View<Volume> = {
  kind: Volumes,
  none: 'no volumes; flockctl volume create makes one',
  columns: [
    { title: 'NAME', text: (volume) => volume.metadata.name },
    { title: 'SIZE', text: sizeOf },
    { title: 'POOL', text: (volume) => volume.spec.pool ?? '-' },
    { title: 'NODE', text: (volume) => volume.spec.node ?? '-' },
    { title: 'PHASE', text: (volume) => volume.status?.phase ?? 'Pending' },
    { title: 'OBSTACLE', text: (volume) => volume.status?.obstacle?.reason ?? '-' },
    { title: 'MOUNTED AT', text: (volume) => mountsOf(volume).join(',') || '-' },
    { title: 'AGE', text: age },
  ],
};

const rateAndEta = (move: Move): { rate: string; eta: string } => {
  const { rate, etaSeconds } = move.status?.incoming ?? {};
  const copying = phaseOf(move) === 'Syncing' || isFencing(move);
  return {
    rate: copying && rate !== undefined ? humanRate(rate) : '-',
    eta: copying && etaSeconds !== undefined ? humanSeconds(etaSeconds) : '-',
  };
};

/** Nothing stood in its way. */
const endedAsAsked = (move: Move): boolean => phaseOf(move) === 'Cancelled' && move.status?.obstacle?.reason === 'CancelAsked';

export const MOVES: View<Move> = {
  kind: Moves,
  none: 'no moves; flockctl move VOLUME --to NODE starts one',
  columns: [
    { title: 'NAME', text: (move) => move.metadata.name },
    { title: 'VOLUME', text: (move) => move.spec.volume },
    { title: 'FROM', text: (move) => move.status?.source?.node ?? '-' },
    { title: 'TO', text: (move) => move.spec.target },
    { title: 'PHASE', text: phaseOf },
    { title: 'ROUND', text: (move) => String(move.status?.round ?? '-') },
    { title: 'DONE', text: (move) => bytesOf(move.status?.incoming?.bytesDone) },
    { title: 'LEFT', text: (move) => bytesOf(move.status?.incoming?.bytesLeft) },
    { title: 'RATE', text: (move) => rateAndEta(move).rate },
    { title: 'ETA', text: (move) => rateAndEta(move).eta },
    { title: 'OBSTACLE', text: (move) => (endedAsAsked(move) ? '-' : (move.status?.obstacle?.reason ?? '-')) },
    { title: 'AGE', text: age },
  ],
};

export const SNAPSHOTS: View<Snapshot> = {
  kind: Snapshots,
  none: 'no snapshots; flockctl snapshot create takes one',
  columns: [
    { title: 'NAME', text: (snapshot) => snapshot.metadata.name },
    { title: 'VOLUME', text: (snapshot) => snapshot.spec.volume },
    { title: 'SIZE', text: (snapshot) => bytesOf(snapshot.status?.size) },
    { title: 'NODE', text: (snapshot) => snapshot.status?.node ?? '-' },
    { title: 'PHASE', text: (snapshot) => snapshot.status?.phase ?? 'Pending' },
    { title: 'OBSTACLE', text: (snapshot) => snapshot.status?.obstacle?.reason ?? '-' },
    { title: 'AGE', text: age },
  ],
};

const readiness = (node: Stored<StorageNode>): string => {
  const ready = node.status?.conditions?.find((condition) => condition.type === 'Ready');
  if (!ready) return 'Unknown';
  return ready.status === 'True' ? 'Ready' : `NotReady (${ready.reason})`;
};

export const NODES: View<StorageNode> = {
  kind: StorageNodes,
  none: 'no nodes; flockctl server invite lets one in, flockctl up makes a cluster on this machine',
  columns: [
    { title: 'NAME', text: (node) => node.metadata.name },
    { title: 'STATUS', text: readiness },
    {
      title: 'POOLS',
      text: (node) =>
        Object.entries(node.status?.pools ?? {})
          .map(
            ([name, pool]) =>
              `${name} (${pool.type}, ${pool.healthy ? `${bytesOf(pool.free)} free` : (pool.obstacle?.reason ?? 'unhealthy')})`,
          )
          .join(', ') || '-',
    },
    {
      title: 'TRANSFER',
      text: (node) => (node.status?.transfer ? `${node.status.transfer.address}:${node.status.transfer.port}` : 'closed'),
    },
    { title: 'VERSION', text: (node) => node.status?.agentVersion ?? '-' },
    { title: 'AGE', text: age },
  ],
};
