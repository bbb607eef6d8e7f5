// What a volume is to be used as: filesystem or block, and by how many. A Flock volume is on one node, whoever asks.
import { FILESYSTEMS, USUAL_FILESYSTEM, type Filesystem, type Volume, type VolumeSpec } from '../model/volume.ts';
import { invalid } from './errors.ts';
import { VolumeCapability_AccessMode_Mode as Mode, type VolumeCapability } from './generated/csi.ts';

export interface Access {
  volumeMode: NonNullable<VolumeSpec['volumeMode']>;
  /** Undefined: whatever the volume has. */
  filesystem: Filesystem | undefined;
  /** It is never written. */
  readOnly: boolean;
  /** By one path of the node at a time. */
  exclusive: boolean;
  /** Options of the mount that each user of the volume gets. */
  flags: string[];
}

/** They hold for one path of a filesystem, so that two users of a volume may have different ones. */
const FLAGS = ['ro', 'rw', 'noexec', 'nosuid', 'nodev', 'noatime', 'nodiratime', 'relatime', 'strictatime'];

/** Throws INVALID_ARGUMENT, saying what is not possible and what is. */
export function accessOf(capability: VolumeCapability | undefined): Access {
  if (!capability?.accessType) throw invalid('volume_capability is missing, or says neither mount nor block');
  const mode = capability.accessMode?.mode ?? Mode.UNKNOWN;
  if (!POSSIBLE.has(mode))
    throw invalid(
      `access mode ${nameOf(mode)} is not possible: a volume is on one node, so that its pods are too. Use ReadWriteOnce or ReadWriteOncePod`,
    );
  const common = { readOnly: mode === Mode.SINGLE_NODE_READER_ONLY, exclusive: mode === Mode.SINGLE_NODE_SINGLE_WRITER };
  if (capability.accessType.$case === 'block') return { ...common, volumeMode: 'Block', filesystem: undefined, flags: [] };
  const { fsType, mountFlags } = capability.accessType.value;
  const flags = mountFlags.flatMap((flag) => flag.split(','));
  const unknown = flags.find((flag) => !FLAGS.includes(flag));
  if (unknown !== undefined) throw invalid(`mount option "${unknown}" is not possible; these are: ${FLAGS.join(', ')}`);
  return { ...common, volumeMode: 'Filesystem', filesystem: fsType === '' ? undefined : filesystemNamed(fsType), flags };
}

const POSSIBLE: ReadonlySet<Mode> = new Set([
  Mode.SINGLE_NODE_WRITER,
  Mode.SINGLE_NODE_READER_ONLY,
  Mode.SINGLE_NODE_SINGLE_WRITER,
  Mode.SINGLE_NODE_MULTI_WRITER,
]);

const nameOf = (mode: Mode): string => Object.entries(Mode).find(([, value]) => value === mode)?.[0] ?? String(mode);

/** Throws INVALID_ARGUMENT. */
export function filesystemNamed(fsType: string): Filesystem {
  const known = FILESYSTEMS.find((one) => one === fsType);
  if (!known) throw invalid(`filesystem "${fsType}" is not possible; these are: ${FILESYSTEMS.join(', ')}`);
  return known;
}

/** All of a new volume's capabilities are to hold for it: one mode, one filesystem. */
export function commonAccess(capabilities: readonly VolumeCapability[]): Access {
  const [first, ...rest] = capabilities.map(accessOf);
  if (!first) throw invalid('volume_capabilities are missing');
  if (rest.some(({ volumeMode }) => volumeMode !== first.volumeMode))
    throw invalid('a volume is either mounted or a block device, not both');
  const filesystems = new Set([first, ...rest].map(({ filesystem }) => filesystem).filter((one) => one !== undefined));
  if (filesystems.size > 1) throw invalid(`a volume has one filesystem, not ${[...filesystems].join(' and ')}`);
  return { ...first, filesystem: [...filesystems][0] };
}

/** Why a volume that is there cannot be used so, or null when it can. */
export function whyNotUsed({ metadata, spec }: Volume, access: Access): string | null {
  const mode = spec.volumeMode ?? 'Filesystem';
  if (mode !== access.volumeMode) return `volume ${metadata.name} is of mode ${mode}, not ${access.volumeMode}`;
  const filesystem = spec.filesystem ?? USUAL_FILESYSTEM;
  if (access.filesystem !== undefined && access.filesystem !== filesystem)
    return `volume ${metadata.name} has ${filesystem}, not ${access.filesystem}`;
  return null;
}
