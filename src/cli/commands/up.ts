// `flockctl up`: a whole cluster on this machine.
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { countArgument } from '../arguments.ts';
import { line, type Context } from '../context.ts';
import { Interrupted } from '../exit-codes.ts';
import { bringUp } from '../local/cluster.ts';
import type { Description } from '../local/description.ts';
import { layoutOf } from '../local/layout.ts';
import { currentCluster, defaultDirectory, pointAt } from '../local/pointer.ts';
import { command } from '../options.ts';

interface Options {
  nodes?: number;
  dir?: string;
  csi?: string;
}

const MOST_NODES = 16;

export function upCommand(context: Context): Command {
  return command('up', {
    what: 'run a cluster on this machine: a server, a controller and agents; what was stored in its folder is there again',
    examples: ['flockctl up', 'flockctl up --nodes 3 --dir /srv/flock', 'flockctl up --csi /run/flock'],
  })
    .option('--nodes <count>', 'how many nodes (3 at first, later as many as there are)', countArgument(MOST_NODES))
    .option('--dir <dir>', 'folder of the cluster')
    .option('--csi <dir>', 'folder in which the controller and each node serve CSI from now on: controller.sock, node-1.sock and so on')
    .action((options: Options) => up(context, options));
}

async function up(context: Context, { nodes, dir, csi }: Options): Promise<void> {
  const directory = dir === undefined ? (currentCluster(context.env) ?? defaultDirectory(context.env)) : resolve(dir);
  try {
    const around = { clock: context.clock, signal: context.interrupted, say: (text: string) => line(context.err, text) };
    const { layout, description } = await bringUp(
      directory,
      { ...(nodes === undefined ? {} : { nodes }), ...(csi === undefined ? {} : { csi: resolve(csi) }) },
      around,
    );
    const before = pointAt(layout.directory, context.env);
    context.out.write(next(layout.directory, description));
    for (const warning of meantNow(layout.kubeconfig, before, context.env)) line(context.err, warning);
  } catch (error) {
    if (context.interrupted.aborted) throw new Interrupted('stopped; what was started has ended again', { cause: error });
    throw error;
  }
}

/** Whom a command asks that names no server, where that may surprise. */
function meantNow(kubeconfig: string, before: string | null, env: Context['env']): string[] {
  const set = ['FLOCK_SERVER', 'FLOCK_KUBECONFIG'].filter((name) => (env[name] ?? '') !== '');
  if (set.length > 0)
    return [`warning: ${set.join(' and ')} is set, so commands ask that server and not this cluster: unset ${set.join(' ')}`];
  if (before === null) return [];
  return [
    `warning: commands that name no server ask this cluster from now on, no more the one in ${before}`,
    `  (export FLOCK_KUBECONFIG=${layoutOf(before).kubeconfig} asks that one; ${kubeconfig} is this one's)`,
  ];
}

function next(directory: string, { nodes, ground }: Description): string {
  const pools = ground === 'folder' ? 'plain folders' : `${ground} disks of their own`;
  const mounting = ground === 'folder' ? [] : ['  flockctl volume mount db /mnt/db'];
  const filesystem = ground === 'folder' ? '--block' : `--filesystem ${ground}`;
  return [
    `the cluster in ${directory} runs: ${nodes} nodes, their pools "local" and "directory" are ${pools}`,
    'commands that name no server ask it',
    'try:',
    '  flockctl node list',
    `  flockctl volume create db --size 512Mi --node node-1 ${filesystem}`,
    ...mounting,
    ...(nodes > 1 ? ['  flockctl move db --to node-2 --wait'] : []),
    `  kubectl --kubeconfig ${directory}/kubeconfig get volumes`,
    '  flockctl doctor',
    '  flockctl down',
    '',
  ].join('\n');
}
