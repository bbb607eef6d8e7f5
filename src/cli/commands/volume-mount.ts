// `flockctl volume mount` and `unmount`: where the volume is, by that node's agent.
import { isLink, realPlace } from '../../host/files.ts';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { FlockError, Invalid } from '../../model/errors.ts';
import { localAgent, type LocalAgent } from '../agent-socket.ts';
import { volumeArgument } from '../arguments.ts';
import { line, type Context } from '../context.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { nodeNamed, volumeNamed } from '../records.ts';
import { mountsOf } from '../tables.ts';

/** The shell's folder is this command's, and not the agent's. */
function pathArgument(text: string): string {
  if (text.trim() === '') throw new Invalid('the mount point is empty: give a path');
  return resolve(text);
}

interface MountOptions extends Common {
  readOnly?: true;
}

export function volumeMount(context: Context): Command {
  return asking('mount', {
    what: 'mount a volume into a folder of this machine, which must be the node it is on',
    examples: ['flockctl volume mount db /srv/db', 'flockctl volume mount db /srv/db --read-only'],
  })
    .argument('<name>', 'name of the volume', volumeArgument)
    .argument('<dir>', 'empty folder, made when it is not there; for a block volume the file that becomes the device', pathArgument)
    .option('--read-only', 'mount it read-only')
    .action((name: string, directory: string, options: MountOptions) => mount(context, { name, target: directory, options }));
}

export function volumeUnmount(context: Context): Command {
  return asking('unmount', {
    what: 'unmount a volume, from one folder or from all',
    examples: ['flockctl volume unmount db', 'flockctl volume unmount db /srv/db'],
  })
    .argument('<name>', 'name of the volume', volumeArgument)
    .argument('[dir]', 'folder (all)', pathArgument)
    .action((name: string, directory: string | undefined, options: Common) =>
      unmount(context, { name, ...(directory === undefined ? {} : { target: directory }), options }),
    );
}

async function mount(context: Context, order: { name: string; target: string; options: MountOptions }): Promise<void> {
  const { name, target, options } = order;
  const { agent } = await where(context, name, options);
  const published = await agent.publish({ volume: name, target, ...(options.readOnly ? { readOnly: true } : {}) });
  const how = (await isLink(published.target)) ? 'is handed out as a link at' : 'is mounted at';
  line(context.out, `volume ${name} (${published.device}) ${how} ${published.target}`);
}

async function unmount(context: Context, order: { name: string; target?: string; options: Common }): Promise<void> {
  const { name, target, options } = order;
  const { agent, mounted } = await where(context, name, options);
  if (target !== undefined && !mounted.includes(target) && !mounted.includes(await realPlace(target)))
    throw notMountedAt(name, target, mounted);
  // Or the folder in which it was called would keep the volume busy by this very command.
  context.leaveFolder();
  await agent.unpublish({ volume: name, ...(target === undefined ? {} : { target }) });
  const was = mounted.length === 0 ? 'was not mounted' : 'is unmounted';
  line(context.out, `volume ${name} ${was}${target === undefined ? '' : ` from ${target}`}`);
}

function notMountedAt(name: string, target: string, mounted: readonly string[]): FlockError {
  const where = mounted.length === 0 ? '' : `; it is mounted at ${mounted.join(', ')}`;
  return new FlockError('NotFound', `volume ${name} is not mounted at ${target}${where}`);
}

async function where(context: Context, name: string, options: Common): Promise<{ agent: LocalAgent; mounted: string[] }> {
  const client = await clientFor(context, options);
  const volume = await volumeNamed(client, name);
  if (volume.spec.node === undefined)
    throw new FlockError('Conflict', `volume ${name} is on no node yet; flockctl volume show ${name} tells what it waits for`);
  const node = await nodeNamed(client, volume.spec.node);
  return { agent: await localAgent(volume.spec.node, node.status?.socket), mounted: mountsOf(volume) };
}
