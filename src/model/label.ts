// A copy's label: what the disk itself says of the copy, so that no record has to be believed alone.
import Type, { type Static } from 'typebox';
import { ID_PATTERN, NAME_PATTERN, UID_PATTERN } from './names.ts';
import { COPY_ROLES, FILESYSTEMS } from './volume.ts';

export const CopyLabel = Type.Object({
  version: Type.Literal(1),
  volumeUid: Type.String({ pattern: UID_PATTERN }),
  copy: Type.String({ pattern: ID_PATTERN }),
  epoch: Type.Integer({ minimum: 0 }),
  role: Type.Enum([...COPY_ROLES]),
  /** UID of the Move whose commit made it active here; none: it was made here. A disk put back to an older state does not have it. */
  arrivedBy: Type.Optional(Type.String({ pattern: UID_PATTERN })),
  /** UID of the Move that fills (incoming) or fenced (retired, stale) it. */
  moveUid: Type.Optional(Type.String({ pattern: UID_PATTERN })),
  // Enough to rebuild the record:
  volume: Type.String({ pattern: NAME_PATTERN, maxLength: 253 }),
  /** Real size, bytes. */
  size: Type.String({ pattern: '^[0-9]{1,19}$' }),
  volumeMode: Type.Enum(['Filesystem', 'Block']),
  filesystem: Type.Enum([...FILESYSTEMS]),
  /** The filesystem was made: from then on a blank probe is an error, never a reason to format. */
  formatted: Type.Boolean(),
  /** Begun from a snapshot: before its first mount the filesystem gets an identity of its own. */
  cloned: Type.Optional(Type.Boolean()),
  /** Logical sector size the copy was made for, bytes. */
  sectorSize: Type.Integer(),
});
export type CopyLabel = Static<typeof CopyLabel>;

/** A copy's name on the disk. */
export const copyName = (of: { volumeUid: string; copy: string }): string => `${of.volumeUid}-${of.copy}`;
