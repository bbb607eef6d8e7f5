// `flockctl node drain`: orders that every volume leaves a node, and waits until none depends on it any more; or takes that back.
import type { Command } from 'commander';
import type { Client } from '../../api/client.ts';
import { listAll } from '../../api/list-all.ts';
import { drainMove, drainParts } from '../../decide/drain.ts';
import { isCommitted, isUnfinished } from '../../decide/observed.ts';
import type { Stored } from '../../model/meta.ts';
import { Moves } from '../../model/move.ts';
import { StorageNodes, type Drain, type StorageNode } from '../../model/storage-node.ts';
import { Volumes } from '../../model/volume.ts';
import { nodeArgument } from '../arguments.ts';
import { line, type Context } from '../context.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { nodeNamed } from '../records.ts';
import { waitFor } from '../wait.ts';

interface Options extends Common {
  wait: boolean;
  cancel?: true;
}

export function nodeDrain(context: Context): Command {
  return asking('drain', {
    what: 'move all volumes of a node to others; it may be destroyed afterwards. Volumes in use wait until they are unmounted',
    examples: ['flockctl node drain node-1', 'flockctl node drain node-1 --no-wait', 'flockctl node drain node-1 --cancel'],
  })
    .argument('<name>', 'name of the node', nodeArgument)
    .option('--no-wait', 'only order it')
    .option('--cancel', 'take it back: moves that did not commit are cancelled, and the node takes volumes again')
    .action(async (name: string, options: Options) => {
      const client = await clientFor(context, options);
      const node = await nodeNamed(client, name);
      await (options.cancel ? cancel(context, client, node) : drain(context, client, { node, wait: options.wait }));
    });
}

async function drain(context: Context, client: Client, { node, wait }: { node: Stored<StorageNode>; wait: boolean }): Promise<void> {
  const { name, uid } = node.metadata;
  // What was said of an earlier drain says nothing of this one.
  if (!node.spec?.drain) await client.patch(StorageNodes, name, { metadata: { uid }, status: { drain: null } }, { subresource: 'status' });
  await client.patch(StorageNodes, name, { metadata: { uid }, spec: { drain: true } });
  if (!wait) return line(context.out, `node ${name} is being drained; flockctl node show ${name} tells how far it is`);
  const done = await followed(context, client, name);
  line(context.out, `node ${name} is drained: ${done.message}. It takes no volumes until: flockctl node drain ${name} --cancel`);
}

function followed(context: Context, client: Client, name: string): Promise<Drain> {
  const ways = `flockctl node show ${name} tells how far it is, flockctl node drain ${name} --cancel takes it back`;
  return waitFor(
    context,
    { client, kind: StorageNodes, name },
    {
      judge: ({ status }) => (status?.drain?.left === 0 ? status.drain : null),
      says: drainTeller(),
      interrupted: `node ${name} is still being drained; ${ways}`,
    },
  );
}

/** What is the same as before is not told again: of one volume that waits, beside others that go on. */
export function drainTeller(): (node: StorageNode) => string {
  let before: readonly string[] = [];
  return ({ status }) => {
    if (!status?.drain) return '';
    const { left, moving, message } = status.drain;
    const parts = drainParts(message);
    const fresh = parts.filter((part) => !before.includes(part));
    before = parts;
    return [`${left} left, ${moving} on ${left === 1 ? 'its' : 'their'} way`, ...(fresh.length > 0 ? [fresh.join('; ')] : [])].join(': ');
  };
}

async function cancel(context: Context, client: Client, { metadata }: Stored<StorageNode>): Promise<void> {
  await client.patch(StorageNodes, metadata.name, { metadata: { uid: metadata.uid }, spec: { drain: null } });
  const [volumes, moves] = await Promise.all([listAll(client, Volumes), listAll(client, Moves)]);
  const ordered = new Set(volumes.items.filter(({ spec }) => spec.node === metadata.name).map(drainMove));
  const ours = moves.items.filter((move) => ordered.has(move.metadata.name) && isUnfinished(move) && !isCommitted(move));
  for (const move of ours) await client.patch(Moves, move.metadata.name, { metadata: { uid: move.metadata.uid }, spec: { cancel: true } });
  const cancelled = ours.length === 0 ? '' : `; cancelled: ${ours.map((move) => move.metadata.name).join(', ')}`;
  line(context.out, `node ${metadata.name} is not drained any more${cancelled}`);
}
