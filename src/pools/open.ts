// From a pool's configuration to the pool: the one place that knows all backends.
import type { CrashPoint } from '../model/crash.ts';
import type { PoolConfiguration } from './configuration.ts';
import { openDirectoryPool } from './directory.ts';
import { beInitialised } from './image-marker.ts';
import { openImagePool } from './image.ts';
import { openLvmPool } from './lvm-open.ts';
import { thickLayout, type LvmPolicy } from './lvm-room.ts';
import type { Pool } from './pool.ts';

const DEFAULT_RESERVE = '5%';
/** Where nothing can be: who opens a pool to fill copies gives a folder. */
const NO_JOURNALS = '/nonexistent';
const DEFAULT_SNAPSHOT_RESERVE = '20%';

export interface OpenPoolOptions {
  /** UUID that the pool is known by; null: not known yet, then its folder is marked as this pool if it is no pool so far. */
  uuid: string | null;
  /** Folder for the journals of a pool that has no folder of its own: a volume group. */
  journals?: string;
  /** Folders of the node's other pools. */
  beside?: readonly string[];
  crash?: CrashPoint;
}

/** Throws NotPermitted when what is there is not that pool any more, NotFound when nothing is. */
export async function openPool(configuration: PoolConfiguration, options: OpenPoolOptions): Promise<Pool> {
  switch (configuration.type) {
    case 'image':
    case 'directory':
      return openFolder(configuration, options);
    case 'lvm':
    case 'lvm-thin':
      return openLvm(configuration, options);
  }
}

type Configuration<T extends PoolConfiguration['type']> = Extract<PoolConfiguration, { type: T }>;

async function openFolder(
  configuration: Configuration<'image' | 'directory'>,
  { uuid, beside = [], crash }: OpenPoolOptions,
): Promise<Pool> {
  const { name, type, path, reserve = DEFAULT_RESERVE, overcommit = null } = configuration;
  const order = { name, path, uuid: await beInitialised(path, uuid), policy: { reserve, overcommit, beside }, ...(crash ? { crash } : {}) };
  return type === 'directory' ? openDirectoryPool(order) : openImagePool(order);
}

async function openLvm(configuration: Configuration<'lvm' | 'lvm-thin'>, options: OpenPoolOptions): Promise<Pool> {
  const { name, volumeGroup, reserve = DEFAULT_RESERVE, tools = 'image' } = configuration;
  const { uuid, crash, journals = NO_JOURNALS } = options;
  const thinPool = configuration.type === 'lvm' ? null : configuration.thinPool;
  const policy = { ...lvmPolicy(configuration), reserve };
  return openLvmPool({ name, volumeGroup, thinPool, policy, tools, journals, uuid, ...(crash ? { crash } : {}) });
}

function lvmPolicy(configuration: Configuration<'lvm' | 'lvm-thin'>): Omit<LvmPolicy, 'reserve'> {
  const none = { overcommit: null, autoextend: null, snapshotReserve: DEFAULT_SNAPSHOT_RESERVE, layout: thickLayout([]) };
  if (configuration.type === 'lvm-thin') {
    const { overcommit = null, autoextend = null } = configuration;
    return { ...none, overcommit, autoextend };
  }
  const { snapshotReserve = DEFAULT_SNAPSHOT_RESERVE, lvcreateOptions = [] } = configuration;
  return { ...none, snapshotReserve, layout: thickLayout(lvcreateOptions) };
}
