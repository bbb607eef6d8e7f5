// What a new volume begins with: a snapshot, or another volume as it is now. The engine makes it in the same pool of the same node, so that what
// is asked for is judged against that here.
import { status } from '@grpc/grpc-js';
import type { Snapshot } from '../model/snapshot.ts';
import { filesystemOf, type Volume, type VolumeSpec } from '../model/volume.ts';
import { invalid, Refused } from './errors.ts';
import type { VolumeContentSource } from './generated/csi.ts';
import { snapshotIdOf, volumeIdOf } from './ids.ts';
import { existing, sizeOf } from './records.ts';
import type { AllWaits } from './waiting.ts';

export interface Content {
  source: NonNullable<VolumeSpec['source']>;
  /** Bytes; the new volume has as many at least. */
  size: bigint;
  node: string;
  pool: string;
  kind: Pick<VolumeSpec, 'volumeMode' | 'filesystem'>;
}

/** Names as the caller says them; null: it begins empty. */
export function sourceOf(content: VolumeContentSource | undefined): Content['source'] | null {
  if (!content) return null;
  switch (content.type?.$case) {
    case 'snapshot':
      return { snapshot: snapshotIdOf(content.type.value) };
    case 'volume':
      return { volume: volumeIdOf(content.type.value) };
    case undefined:
      throw invalid('volume_content_source says neither snapshot nor volume');
  }
}

/** Throws NOT_FOUND when it is not there, UNAVAILABLE when it cannot be read yet. */
export async function contentOf({ snapshot, volume = '' }: NonNullable<VolumeSpec['source']>, waits: AllWaits): Promise<Content> {
  return snapshot === undefined
    ? ofVolume(await existing(waits.volumes, volume))
    : ofSnapshot(snapshot, await waits.snapshots.read(snapshot));
}

function ofSnapshot(name: string, snapshot: Snapshot | null): Content {
  if (!snapshot) throw new Refused(status.NOT_FOUND, `there is no snapshot ${name}`);
  const { phase, size, node = '', pool = '', obstacle, ...held } = snapshot.status ?? {};
  if (phase !== 'Ready' || size === undefined)
    throw new Refused(status.UNAVAILABLE, `snapshot ${name} is not ready: ${obstacle?.message ?? 'wait a moment'}`);
  return { source: { snapshot: name }, size: BigInt(size), node, pool, kind: kindOf(held) };
}

function ofVolume(volume: Volume): Content {
  const { name } = volume.metadata;
  const { node = '', pool = '' } = volume.spec;
  const size = sizeOf(volume);
  if (size === undefined) throw new Refused(status.UNAVAILABLE, `volume ${name} is not made yet; try again in a moment`);
  return { source: { volume: name }, size, node, pool, kind: kindOf(volume.spec) };
}

function kindOf(spec: Content['kind']): Content['kind'] {
  const filesystem = filesystemOf(spec);
  return filesystem === null ? { volumeMode: 'Block' } : { volumeMode: 'Filesystem', filesystem };
}

/** Throws INVALID_ARGUMENT when a volume of that kind, in that pool, cannot begin so. */
export function checkAlike({ source, pool, kind }: Content, asked: Partial<VolumeSpec>): void {
  const name = source.snapshot === undefined ? `volume ${source.volume}` : `snapshot ${source.snapshot}`;
  if (asked.pool !== undefined && asked.pool !== pool)
    throw invalid(`${name} is in pool ${pool}, and pool ${asked.pool} was asked for: use a class of pool ${pool}`);
  const [held, wanted] = [filesystemOf(kind), filesystemOf(asked)];
  if (held !== wanted) throw invalid(`${name} holds ${held ?? 'a raw block volume'}, and ${wanted ?? 'a raw block volume'} was asked for`);
}
