// How much of a volume group or thin pool may still be promised. Booked is what all copies were promised, snapshots of thick ones too. No I/O.
import type { LogicalVolume, VolumeGroup } from '../host/lvm-report.ts';
import { FlockError } from '../model/errors.ts';
import { isSnapshotPoint } from '../model/points.ts';
import { humanBytes, LARGEST } from '../model/quantity.ts';
import { reserved } from './reserve.ts';
import { listVolumes, shownSize, type LvmCopy, type LvmListing } from './lvm-layout.ts';
import type { PoolRoom } from './pool.ts';

export interface LvmPolicy {
  /** Kept free: a quantity, or a percentage of the volume group or thin pool. */
  reserve: string;
  /** Thin only; null: nothing is promised twice. */
  overcommit: number | 'unlimited' | null;
  /** Room of a move's point on a thick copy: a quantity, or a percentage of the copy. */
  snapshotReserve: string;
  /** Thin only: the pool grows by so much of itself when it fills up; null: never. */
  autoextend: string | null;
  layout: ThickLayout;
}

/** How the extents of a thick copy lie. */
export interface ThickLayout {
  /** Arguments of lvcreate. */
  options: readonly string[];
  stripes: bigint;
  /** Whole sets of extents that each copy has. */
  mirrors: bigint;
}

/** Of the options that configurations allow. */
export function thickLayout(options: readonly string[]): ThickLayout {
  const stripes = options.flatMap((option) => /^--stripes=(\d+)$/u.exec(option)?.[1] ?? []).at(-1) ?? '1';
  return { options, stripes: BigInt(stripes), mirrors: options.includes('--type=raid1') ? 2n : 1n };
}

/** Metadata of a thin pool above this, in percent, ends new promises: a pool without metadata cannot even be repaired easily. */
const METADATA_STOP = 80;
/** The thin pool is extended above this, in percent. */
const EXTEND_AT = 80;

export const roomOf = (group: VolumeGroup, thinPool: string | null, policy: LvmPolicy): PoolRoom => {
  const listing = listVolumes(group, thinPool);
  return thinPool === null ? thickRoom(group, listing, policy) : thinRoom(group, thinPool, { listing, policy });
};

const sum = (sizes: bigint[]): bigint => sizes.reduce((total, size) => total + size, 0n);

/** A thick copy's snapshots are promised their whole room, for what a person keeps must not be lost to a full store. */
function bookedOf({ volume, points }: LvmCopy, thin: boolean): bigint {
  const snapshots = thin ? [] : [...points].filter(([point]) => isSnapshotPoint(point)).map(([, point]) => shownSize(point));
  return volume.size + sum(snapshots);
}

/** Extents that are ours, bytes. */
function rawOf({ volume, points, brokenPoints }: LvmCopy, extent: bigint): bigint {
  const legs = volume.layout.includes('raid1') ? 2n : 1n;
  const stores = sum([...points.values(), ...brokenPoints].map(({ size }) => size));
  return volume.size * legs + stores + (legs > 1n ? legs * extent : 0n);
}

function thickRoom(group: VolumeGroup, listing: LvmListing, { reserve, layout }: LvmPolicy): PoolRoom {
  const copies = [...listing.copies.values()];
  const used = group.size - group.free;
  const ours = sum(copies.map((copy) => rawOf(copy, group.extent)));
  const foreign = used > ours ? used - ours : 0n;
  const usable = atLeastNone(group.size - foreign - reserved(reserve, group.size));
  const legs = layout.mirrors;
  const capacity = usable / legs;
  const booked = sum(copies.map((copy) => bookedOf(copy, false)));
  // Each leg of a mirror has an extent of notes beside its data.
  const real = atLeastNone(group.free - (legs > 1n ? legs * group.extent : 0n)) / legs;
  const free = rounded(least(atLeastNone(capacity - booked), real), group.extent * layout.stripes);
  return { capacity, booked, free, size: group.size, used };
}

function thinRoom(group: VolumeGroup, name: string, of: { listing: LvmListing; policy: LvmPolicy }): PoolRoom {
  const { listing, policy } = of;
  const pool = thinPoolOf(group, name);
  const kept = reserved(policy.reserve, pool.size);
  const usable = atLeastNone(pool.size - kept);
  const promised = policy.overcommit === 'unlimited' ? null : (usable * BigInt(Math.round((policy.overcommit ?? 1) * 1000))) / 1000n;
  const foreign = sum(listing.foreign.map(({ size }) => size));
  const capacity = promised === null ? null : atLeastNone(promised - foreign);
  const booked = sum([...listing.copies.values()].map((copy) => bookedOf(copy, true)));
  const warning = thinWarning(group, pool, kept);
  const unbooked = capacity === null ? LARGEST : atLeastNone(capacity - booked);
  const free = warning === null ? rounded(unbooked, group.extent) : 0n;
  return { capacity, booked, free, size: pool.size, used: usedOf(pool), ...(warning === null ? {} : { warning }) };
}

const usedOf = ({ size, dataPercent }: LogicalVolume): bigint => (size * BigInt(Math.round((dataPercent ?? 0) * 100))) / 10_000n;

/** Why nothing new is put into a thin pool. */
function thinWarning({ name: group }: VolumeGroup, pool: LogicalVolume, kept: bigint): string | null {
  const { metadataPercent, size } = pool;
  const at = `thin pool ${group}/${pool.name}`;
  if ((metadataPercent ?? 0) >= METADATA_STOP)
    return `${at} has used ${metadataPercent} % of its metadata: nothing new is put there; enlarge it (lvextend --poolmetadatasize +1G ${group}/${pool.name})`;
  if (size - usedOf(pool) <= kept)
    return `${at} has used ${pool.dataPercent} % of its ${humanBytes(size)}, which is down to its reserve: nothing new is put there; enlarge it (lvextend) or remove volumes`;
  return null;
}

/** Throws NotFound. */
export function thinPoolOf(group: VolumeGroup, name: string): LogicalVolume {
  const found = group.volumes.find((volume) => volume.name === name);
  if (found?.layout.includes('thin') && found.layout.includes('pool')) return found;
  throw new FlockError(
    'NotFound',
    `volume group ${group.name} has no thin pool ${name}: make it (lvcreate --type thin-pool -L 100G -n ${name} ${group.name})`,
  );
}

/** Words for lvextend of the thin pool when it fills up and the volume group has room for it. */
export function extension(group: VolumeGroup, pool: LogicalVolume, autoextend: string | null): string[] | null {
  if (autoextend === null) return null;
  if ((pool.metadataPercent ?? 0) >= EXTEND_AT && group.free > pool.metadataSize)
    return ['--poolmetadatasize', `+${rounded(least(pool.metadataSize, group.free / 2n), group.extent) || group.extent}b`];
  const more = roundedUp(reserved(autoextend, pool.size), group.extent);
  const possible = rounded(least(more, group.free), group.extent);
  return (pool.dataPercent ?? 0) >= EXTEND_AT && possible > 0n ? ['-L', `+${possible}b`] : null;
}

/** Size of a point's exception store on a thick copy, bytes: whole for small copies and for what a person keeps. */
export function storeSize(copySize: bigint, point: string, { extent, policy }: { extent: bigint; policy: LvmPolicy }): bigint {
  // Besides the chunks themselves a record of 16 bytes each, an area's rounding, and the header.
  const whole = copySize + copySize / 256n + 1n * MiB;
  if (isSnapshotPoint(point) || whole <= SMALL) return roundedUp(whole, extent);
  const wanted = reserved(policy.snapshotReserve, copySize);
  return roundedUp(least(whole, wanted < SMALL ? SMALL : wanted), extent);
}

const MiB = 1n << 20n;
const SMALL = 256n * MiB;

/** Throws NoSpace when that much more cannot be booked. */
export function checkRoom(pool: string, { free, booked, capacity, size, used, warning }: PoolRoom, more: bigint): void {
  if (more <= free) return;
  const of = capacity === null ? 'no limit' : humanBytes(capacity);
  throw new FlockError(
    'NoSpace',
    `pool ${pool} has room for ${humanBytes(free)} and ${humanBytes(more)} are asked (${humanBytes(booked)} of ${of} booked; ` +
      `${humanBytes(used)} of ${humanBytes(size)} used): ${warning ?? 'remove volumes, enlarge its volume group or use another pool'}`,
  );
}

const least = (one: bigint, other: bigint): bigint => (one < other ? one : other);
const atLeastNone = (size: bigint): bigint => (size > 0n ? size : 0n);
const rounded = (size: bigint, unit: bigint): bigint => (size / unit) * unit;
const roundedUp = (size: bigint, unit: bigint): bigint => ((size + unit - 1n) / unit) * unit;

/** By how much an exception store is to grow, bytes; null: it has room, cannot overflow, or there is nothing to give. */
export function storeExtension(group: VolumeGroup, { snapPercent, size, originSize }: LogicalVolume): bigint | null {
  if ((snapPercent ?? 0) < STORE_EXTEND_AT || size >= originSize) return null;
  const more = rounded(least(size, group.free), group.extent);
  return more > 0n ? more : null;
}

const STORE_EXTEND_AT = 50;
