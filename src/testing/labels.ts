// Labels and names of copies for tests.
import { copyName, type CopyLabel } from '../model/label.ts';

export const VOLUME_UID = '01234567-89ab-4cde-8f01-23456789abcd';

export const aLabel = (change: Partial<CopyLabel> = {}): CopyLabel => ({
  version: 1,
  volumeUid: VOLUME_UID,
  copy: 'a1',
  epoch: 1,
  role: 'active',
  volume: 'db',
  size: '0',
  volumeMode: 'Filesystem',
  filesystem: 'ext4',
  formatted: false,
  sectorSize: 4096,
  ...change,
});

/** A label and the name that belongs to it. */
export function aCopy(copy = 'a1', change: Partial<CopyLabel> = {}): { name: string; label: CopyLabel } {
  const label = aLabel({ copy, ...change });
  return { name: copyName(label), label };
}
