// `flockctl node show`: one node for people, with its pools.
import type { Command } from 'commander';
import type { Client } from '../../api/client.ts';
import { listAll } from '../../api/list-all.ts';
import type { Stored } from '../../model/meta.ts';
import { StorageNodes, type Budget, type PoolStatus, type StorageNode, type StorageNodeStatus } from '../../model/storage-node.ts';
import { counted } from '../../model/quantity.ts';
import { Volumes } from '../../model/volume.ts';
import { nodeArgument, outputOption, watchOption } from '../arguments.ts';
import type { Context } from '../context.ts';
import { ageOf, bytesOf, harmless } from '../format.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { aligned, described } from '../print.ts';
import { nodeNamed } from '../records.ts';
import { eventLines, show, type ShowOptions } from '../showing.ts';

export function nodeShow(context: Context): Command {
  return asking('show', {
    what: 'show one node: its pools, what it can mount, whether its agent answers',
    examples: ['flockctl node show node-1', 'flockctl node show node-1 -o yaml'],
  })
    .argument('<name>', 'name of the node', nodeArgument)
    .addOption(outputOption())
    .addOption(watchOption())
    .action(async (name: string, options: ShowOptions & Common) => {
      const client = await clientFor(context, options);
      const node = await nodeNamed(client, name);
      await show(context, client, { kind: StorageNodes, object: node, describe: (seen) => describe(context, client, seen) }, options);
    });
}

async function describe(context: Context, client: Client, node: Stored<StorageNode>): Promise<string[]> {
  const { status = {} } = node;
  const now = context.clock.now();
  return [
    ...described([
      ['Name', node.metadata.name],
      ['Ready', readiness(status)],
      ['Takes volumes', takes(node)],
      ['Drain', drainOf(node)],
      ['Agent', status.agentVersion],
      ['Kernel', status.kernel],
      ['Transfer', status.transfer ? `${status.transfer.address}:${status.transfer.port}` : 'closed: no move needs bytes of this node now'],
      ['Socket', status.socket],
      ['Filesystems', status.filesystems?.join(', ')],
      ['Can mount', ability(status)],
      ['Age', ageOf(node.metadata.creationTimestamp, now)],
    ]),
    ...poolLines(status.pools ?? {}),
    ...(await damageLines(client, status.pools ?? {})),
    ...(await eventLines(client, node, now)),
  ];
}

function takes({ spec }: StorageNode): string {
  if (spec?.drain) return 'no (spec.drain)';
  return spec?.unschedulable ? 'no (spec.unschedulable)' : 'yes';
}

function drainOf({ status }: StorageNode): string | undefined {
  const { left, moving, message } = status?.drain ?? {};
  if (left === undefined) return undefined;
  return left === 0 ? `done: ${message}` : `${counted(left, 'volume')} left, ${moving} on ${left === 1 ? 'its' : 'their'} way: ${message}`;
}

function readiness({ conditions }: StorageNodeStatus): string | undefined {
  const ready = conditions?.find((condition) => condition.type === 'Ready');
  return ready && (ready.status === 'True' ? 'yes' : `${ready.reason}: ${ready.message}`);
}

function ability({ canMount }: StorageNodeStatus): string | undefined {
  if (canMount === undefined) return undefined;
  return canMount ? 'yes' : 'no: it needs root and loop devices';
}

const BUDGET: { [B in Budget]: string } = {
  'project-quota': 'sizes are enforced by project quotas',
  qgroup: 'sizes are enforced by btrfs quotas',
  booked: 'sizes are booked and not enforced (mount xfs or ext4 with prjquota, or enable quotas on btrfs)',
};

const healthy = ({ budget }: PoolStatus): string => (budget === undefined ? 'healthy' : `healthy; ${BUDGET[budget]}`);

function poolLines(pools: { [name: string]: PoolStatus }): string[] {
  const rows = Object.entries(pools).map(([name, pool]) => [
    name,
    pool.type,
    bytesOf(pool.size),
    bytesOf(pool.used),
    bytesOf(pool.booked),
    bytesOf(pool.free),
    harmless(pool.healthy ? healthy(pool) : `${pool.obstacle?.reason ?? 'unhealthy'}: ${pool.obstacle?.message ?? ''}`),
  ]);
  const each = (of: (pool: PoolStatus) => string[]): string[] =>
    Object.entries(pools).flatMap(([name, pool]) => of(pool).map((text) => harmless(`  ${name}: ${text}`)));
  return [
    ...section('Pools:', rows.length === 0 ? [] : aligned([COLUMNS, ...rows]).map((row) => `  ${row}`)),
    ...section(
      'Not ours, never touched:',
      each(({ foreign = [] }) => foreign),
    ),
    ...section(
      'Copies without a volume (kept; restore their records, or remove them from the pool by hand):',
      each(({ orphaned = {} }) => Object.entries(orphaned).map(([copy, volume]) => `${copy} (of ${volume})`)),
    ),
  ];
}

const COLUMNS = ['NAME', 'TYPE', 'SIZE', 'USED', 'BOOKED', 'FREE', 'STATE'];

const section = (title: string, lines: readonly string[]): string[] => (lines.length === 0 ? [] : ['', title, ...lines]);

/** A copy's name begins with the uid of its volume, whose record says what is wrong. */
async function damageLines(client: Client, pools: { [name: string]: PoolStatus }): Promise<string[]> {
  const damaged = Object.entries(pools).flatMap(([pool, { damaged: names = [] }]) => names.map((name) => ({ pool, name })));
  if (damaged.length === 0) return [];
  const volumes = (await listAll(client, Volumes)).items;
  const lines = damaged.map(({ pool, name }) => {
    const of = volumes.find(({ metadata }) => name.startsWith(`${metadata.uid}-`));
    const said = of?.status?.copies?.[name.slice(of.metadata.uid.length + 1)]?.obstacle?.message;
    return harmless(`  ${pool}: ${name} (of ${of?.metadata.name ?? 'no known volume'})${said === undefined ? '' : `: ${said}`}`);
  });
  return section('Damaged copies, neither served nor changed:', lines);
}
