// Two agents with a man in the middle of their data connections, on real disks and real TLS. Only *.test.ts import it.
import assert from 'node:assert/strict';
import { Moves } from '../model/move.ts';
import type { StorageNode } from '../model/storage-node.ts';
import { BentClient, type Bend } from './bent-client.ts';
import { hashOf, write } from './content.ts';
import { startEngine, type Engine, type EngineOptions } from './engine.ts';
import type { Test } from './folders.ts';
import { aTcpProxy, type TcpProxy } from './tcp-proxy.ts';

export const ON_XFS = { type: 'xfs', size: 1n << 30n } as const;

/** Two nodes; what node-2 pulls from node-1 goes through a proxy. */
export async function behindProxy(t: Test, options: Partial<EngineOptions> = {}): Promise<{ engine: Engine; proxy: TcpProxy }> {
  let port = 0;
  const proxy = await aTcpProxy(t, () => port);
  const read: Bend['read'] = (kind, object) => {
    const { status } = object as StorageNode;
    if (kind.kind !== 'StorageNode' || object.metadata.name !== 'node-1' || !status?.transfer) return object;
    port = status.transfer.port;
    return { ...object, status: { ...status, transfer: { ...status.transfer, port: proxy.port } } } as typeof object;
  };
  const engine = await startEngine(t, {
    nodes: ['node-1', 'node-2'],
    filesystem: ON_XFS,
    agent: (node, client) => (node === 'node-2' ? { client: new BentClient(client, { read }) } : {}),
    ...options,
  });
  return { engine, proxy };
}

/** A block volume on node-1, full of bytes; its hash. */
export async function full(engine: Engine, name = 'db', size = 32 << 20): Promise<string> {
  await engine.volume(name, { size: String(size), pool: 'local', node: 'node-1', volumeMode: 'Block' });
  const device = await engine.mount(name);
  await write(device, { length: size, seed: 11 });
  const hash = await hashOf(device);
  await engine.unmount(name);
  return hash;
}

/** The scrub of move db-1 passes, and the bytes are those. */
export async function arrives(engine: Engine, hash: string): Promise<void> {
  const { status } = await engine.until(
    Moves,
    'db-1',
    (move) => move.status?.incoming?.scrub?.state !== undefined && move.status.incoming.scrub.state !== 'Running',
  );
  assert.equal(status?.incoming?.scrub?.state, 'Passed');
  assert.equal(await hashOf(await engine.mount('db')), hash);
  await engine.endsClean();
}
