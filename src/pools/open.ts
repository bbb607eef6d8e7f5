// From a pool's configuration to the pool: the one place that knows all backends.
import type { CrashPoint } from '../model/crash.ts';
import { FlockError } from '../model/errors.ts';
import type { PoolConfiguration } from './configuration.ts';
import { beInitialised } from './image-marker.ts';
import { openImagePool } from './image.ts';
import type { Pool } from './pool.ts';

const DEFAULT_RESERVE = '5%';

export interface OpenPoolOptions {
  /** UUID that the pool is known by; null: not known yet, then its folder is marked as this pool if it is no pool so far. */
  uuid: string | null;
  crash?: CrashPoint;
}

/** Throws NotPermitted when the folder is not that pool any more, Unsupported for types to come. */
export async function openPool(configuration: PoolConfiguration, options: OpenPoolOptions): Promise<Pool> {
  const { name, type, path } = configuration;
  if (type !== 'image') throw new FlockError('Unsupported', `pool ${name}: type ${type} is not in this release; use image`);
  const uuid = await beInitialised(path, options.uuid);
  const policy = { reserve: configuration.reserve ?? DEFAULT_RESERVE, overcommit: configuration.overcommit ?? null };
  return openImagePool({ name, path, uuid, policy, ...(options.crash ? { crash: options.crash } : {}) });
}
