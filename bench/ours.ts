// Our transfer, as the agents run it: pullRound and serveTransfers between two processes, over TLS with certificates, between image pools,
// with journal, syncs, and everything read back and compared. What is not in it: the records of a move (a controller's steps).
import { rm } from 'node:fs/promises';
import { copyName, type CopyLabel } from '../src/model/label.ts';
import { roundPoint } from '../src/model/points.ts';
import { openPool } from '../src/pools/open.ts';
import { aCluster } from '../src/testing/identities.ts';
import type { Hello } from '../src/transfer/transfer.ts';
import { dropJournal } from '../src/transfer/journal.ts';
import type { Ground } from './ground.ts';
import type { Load } from './loads.ts';
import type { Pulled, Usage } from './node.ts';
import { Peer } from './peer.ts';

const VOLUME_UID = '01234567-89ab-4cde-8f01-23456789abcd';
const cluster = aCluster();

/** Where the two ends are. */
export interface Ways {
  host: string;
  namespaces: [source: string, target: string] | null;
}

export const LOOPBACK: Ways = { host: '127.0.0.1', namespaces: null };

export const labelOf = (copy: string, size: number, more: Partial<CopyLabel>): CopyLabel => ({
  version: 1,
  volumeUid: VOLUME_UID,
  copy,
  epoch: 1,
  role: 'active',
  volume: 'bench',
  size: String(size),
  volumeMode: 'Block',
  filesystem: 'ext4',
  formatted: false,
  sectorSize: 4096,
  ...more,
});

/** A volume with that content at the source, and where its image lies. */
export async function makeVolume(ground: Ground, load: Load): Promise<{ copy: string; image: string }> {
  const pool = await openPool({ name: 'bench', type: 'image', path: ground.source }, { uuid: null });
  const label = labelOf(load.name, load.size, {});
  const copy = copyName(label);
  await pool.create(copy, BigInt(load.size), label);
  const handle = await pool.open(copy, 'live', 'write');
  try {
    await load.fill(handle);
  } finally {
    await handle.close();
  }
  return { copy, image: `${ground.source}/${copy}.img` };
}

export async function removeVolume(image: string): Promise<void> {
  await rm(image);
  await rm(image.replace(/img$/u, 'json'));
}

export interface Cost {
  source: Usage;
  target: Usage;
}

export interface Peers {
  source: Peer;
  target: Peer;
}

/** Two nodes with a pool each, running. */
export async function startPeers(ground: Ground, ways: Ways = LOOPBACK, restrained = false): Promise<Peers> {
  const peers = { source: new Peer(ways.namespaces?.[0] ?? null), target: new Peer(ways.namespaces?.[1] ?? null) };
  try {
    await peers.source.ask('open', { path: ground.source, identity: await (await cluster)('node-a'), restrained });
    await peers.target.ask('open', { path: ground.target, identity: await (await cluster)('node-b'), restrained });
    return peers;
  } catch (error) {
    await endPeers(peers);
    throw error;
  }
}

export const endPeers = async ({ source, target }: Peers): Promise<unknown> => Promise.all([source.end(), target.end()]);

/** One move between two nodes. */
export class Mover {
  readonly peers: Peers;
  readonly copy: string;
  readonly targetCopy: string;
  readonly #ground: Ground;
  readonly #ways: Ways;
  readonly #load: Load;
  readonly #moveUid = crypto.randomUUID();
  readonly #port: number;

  private constructor(peers: Peers, parts: { ground: Ground; load: Load; ways: Ways; port: number }) {
    this.peers = peers;
    this.#ground = parts.ground;
    this.#load = parts.load;
    this.#ways = parts.ways;
    this.#port = parts.port;
    this.copy = copyNameOf(parts.load.name);
    this.targetCopy = copyNameOf(`to${parts.load.name}`);
  }

  static async start(peers: Peers, parts: { ground: Ground; load: Load; ways?: Ways }): Promise<Mover> {
    const { ways = LOOPBACK, load, ground } = parts;
    const { port } = await peers.source.ask('serve', { host: ways.host, copy: copyNameOf(load.name) });
    const mover = new Mover(peers, { ground, load, ways, port });
    const pool = await openPool({ name: 'bench', type: 'image', path: ground.target }, { uuid: null });
    await pool.create(
      mover.targetCopy,
      BigInt(load.size),
      labelOf(`to${load.name}`, load.size, { role: 'incoming', moveUid: mover.#moveUid }),
    );
    return mover;
  }

  pull(round: number, final = false): Promise<Pulled> {
    const hello: Hello = {
      protocol: 1,
      purpose: 'round',
      move: 'bench',
      moveUid: this.#moveUid,
      volumeUid: VOLUME_UID,
      copy: this.#load.name,
      epoch: 1,
    };
    const source = { host: this.#ways.host, port: this.#port, node: 'node-a' };
    return this.peers.target.ask('pull', { source, hello, copy: this.targetCopy, order: { round, final } });
  }

  /** The source's point of a round, by name. */
  point(round: number): string {
    return roundPoint(this.#moveUid, round);
  }

  async cost(): Promise<Cost> {
    return { source: await this.peers.source.ask('usage', {}), target: await this.peers.target.ask('usage', {}) };
  }

  /** The target dies as by a power cut, and comes back. */
  async restartTarget(): Promise<void> {
    await this.peers.target.kill();
    this.peers.target = new Peer(this.#ways.namespaces?.[1] ?? null);
    await this.peers.target.ask('open', { path: this.#ground.target, identity: await (await cluster)('node-b'), restrained: false });
  }

  /** The target's copy and the source's points are gone. Both processes have ended. */
  async clean(): Promise<void> {
    const pool = await openPool({ name: 'bench', type: 'image', path: this.#ground.target }, { uuid: null });
    await pool.remove(this.targetCopy, 'none');
    await dropJournal(pool, this.targetCopy);
    const source = await openPool({ name: 'bench', type: 'image', path: this.#ground.source }, { uuid: null });
    const { copies } = await source.scan();
    const points = copies.find(({ name }) => name === this.copy)?.points ?? [];
    for (const point of points) await source.release(this.copy, point);
  }
}

const copyNameOf = (copy: string): string => copyName({ volumeUid: VOLUME_UID, copy });

/** One move of that load between two nodes of its own, cleaned up afterwards whatever happened. */
export async function withMover<T>(
  parts: { ground: Ground; load: Load; ways?: Ways; restrained?: boolean },
  act: (mover: Mover) => Promise<T>,
): Promise<T> {
  const peers = await startPeers(parts.ground, parts.ways, parts.restrained);
  let mover: Mover | null = null;
  try {
    mover = await Mover.start(peers, parts);
    return await act(mover);
  } finally {
    await endPeers(peers);
    await mover?.clean();
  }
}
