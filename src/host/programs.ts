// The programs that this machine needs, and where they come from. Runs none of them.
import type { Filesystem } from '../model/volume.ts';

interface Programs {
  programs: readonly string[];
  /** Debian's package. */
  debian: string;
}

export const PROGRAMS_OF: { [F in Filesystem]: Programs } = {
  ext4: { programs: ['mkfs.ext4', 'resize2fs'], debian: 'e2fsprogs' },
  xfs: { programs: ['mkfs.xfs', 'xfs_growfs'], debian: 'xfsprogs' },
  btrfs: { programs: ['mkfs.btrfs', 'btrfs'], debian: 'btrfs-progs' },
};

const OTHERS: readonly Programs[] = [
  { programs: ['blkid', 'wipefs'], debian: 'util-linux' },
  { programs: ['losetup', 'mount', 'umount'], debian: 'mount' },
  { programs: ['xfs_admin', 'xfs_repair'], debian: 'xfsprogs' },
  { programs: ['tune2fs', 'e2fsck'], debian: 'e2fsprogs' },
  { programs: ['btrfstune'], debian: 'btrfs-progs' },
];

/** How to get a program that is missing; '' when that is not known. */
export function wayToGet(program: string): string {
  const found = [...Object.values(PROGRAMS_OF), ...OTHERS].find(({ programs }) => programs.includes(program));
  return found ? `; on Debian: apt-get install ${found.debian}` : '';
}
