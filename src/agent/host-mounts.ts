// The agent's Mounts on a real machine: the verbs of src/host. Without root nothing is mounted, and raw volumes and directories are links.
import { beDistinct } from '../host/distinct.ts';
import { beFormatted } from '../host/format.ts';
import { beBound, beFlushed, beUnbound, isBound } from '../host/bound.ts';
import { beFolderBound } from '../host/bound-folder.ts';
import { isLink, realPlace } from '../host/files.ts';
import { beGrown, beGrownUnmounted } from '../host/grow-filesystem.ts';
import { checkMountTarget, type Reserved } from '../host/mount-target.ts';
import { beMounted } from '../host/mounts.ts';
import { FlockError } from '../model/errors.ts';
import type { Mounts } from './ports.ts';

/** `reserved`: folders that this node lives by. */
export function hostMounts(canMount: boolean, reserved: Reserved): Mounts {
  const refused = (): never => {
    throw new FlockError(
      'Unsupported',
      'this agent cannot mount: run it as root on a machine with loop devices, or use a volume that is handed out as a link here, a raw one (--block) or a directory (--pool directory)',
    );
  };
  return {
    beFormatted: async (device, filesystem, formatted, options) =>
      canMount ? beFormatted(device, filesystem, formatted, options) : refused(),
    beDistinct: async (device, filesystem) => (canMount ? beDistinct(device, filesystem) : refused()),
    beMounted: async (device, target, filesystem, readOnly) => (canMount ? beMounted(device, target, filesystem, readOnly) : refused()),
    beUnmounted: beUnbound,
    beBound: (device, target) => beBound(device, target, canMount ? 'mount' : 'link'),
    beFolderBound: (folder, target, readOnly) => beFolderBound(folder, target, { readOnly, how: canMount ? 'mount' : 'link' }),
    beGrown,
    beGrownUnmounted,
    isMounted: isBound,
    realPlace,
    isLink,
    checkTarget: (target, mode) => checkMountTarget(target, mode === 'Block' ? 'device' : 'folder', reserved),
    beFlushed,
  };
}
