// Whether the disk of this machine can hold what the pools of a local cluster may still take: their disks are sparse files, together larger,
// it may be, than what is free. Looks only.
import { statfsSync, statSync } from 'node:fs';
import { humanBytes } from '../../model/quantity.ts';
import { note, ok, wrong, type Finding } from '../finding.ts';

/** Bytes that are not on the disk yet and may come to be. */
function stillToTake(disk: string): bigint {
  const found = statSync(disk, { bigint: true, throwIfNoEntry: false });
  if (!found) return 0n;
  const taken = found.blocks * 512n;
  return found.size > taken ? found.size - taken : 0n;
}

/** Less than this part of what may still be taken is free: it may be over any moment. */
const NEARLY_FULL = 10n;

/** `disks`: the files under the pools. Below them a full filesystem is a broken disk to the volumes: their writes fail. */
export function roomFindings(directory: string, disks: readonly string[]): Finding[] {
  if (disks.length === 0) return [];
  const wanted = disks.reduce((sum, disk) => sum + stillToTake(disk), 0n);
  const { bavail, bsize } = statfsSync(directory, { bigint: true });
  return [judged(directory, wanted, bavail * bsize)];
}

export function judged(directory: string, wanted: bigint, free: bigint): Finding {
  const text = `the pools in ${directory} may still take ${humanBytes(wanted)}, its filesystem has ${humanBytes(free)} free`;
  if (free >= wanted) return ok(text);
  const why = `${text}: when that is full, writes to the volumes fail. Free room there, or keep less in the pools`;
  return free * NEARLY_FULL < wanted ? wrong(why) : note(why);
}
