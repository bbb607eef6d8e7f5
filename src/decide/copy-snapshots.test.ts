// Of which copy a snapshot is taken: of what is served, and of nothing else.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GROUP_VERSION, type Stored } from '../model/meta.ts';
import { SNAPSHOT_FINALIZER, type Snapshot } from '../model/snapshot.ts';
import { VOLUME_UID } from '../testing/labels.ts';
import { aVolume, copiesSeen, dying, onDisk, OTHER_UID, SOURCE_COPY } from '../testing/records.ts';
import type { CopiesSeen } from './copies-seen.ts';
import { nextCopySteps } from './copies.ts';

const ordered: Stored<Snapshot> = {
  apiVersion: GROUP_VERSION,
  kind: 'Snapshot',
  metadata: { name: 's1', uid: OTHER_UID, resourceVersion: '1', creationTimestamp: '', finalizers: [SNAPSHOT_FINALIZER] },
  spec: { volume: 'db' },
  status: { phase: 'Pending', node: 'node-1', pool: 'local', copy: SOURCE_COPY, volumeUid: VOLUME_UID },
};

const CASES: [string, Partial<CopiesSeen>, boolean][] = [
  ['what is served', {}, true],
  ['a copy that was superseded', { copies: [onDisk({ role: 'stale' })] }, false],
  ['a copy that is fenced', { copies: [onDisk({ role: 'retired' })] }, false],
  ['a copy of an earlier epoch', { copies: [onDisk()], volume: aVolume({ spec: { epoch: 2 } }) }, false],
  ['a copy that the record does not name', { volume: aVolume({ spec: { node: 'node-2', copy: 'b2' } }) }, false],
  ['a copy that is damaged', { copies: [onDisk({}, { damage: 'torn' })] }, false],
  ['a volume that is deleted', { volume: aVolume({ meta: dying }) }, false],
];
for (const [what, change, taken] of CASES)
  test(`a snapshot is ${taken ? '' : 'not '}taken of ${what}`, () => {
    const seen = copiesSeen('node-1', { copies: [onDisk()], snapshots: [ordered], ...change });
    assert.equal(
      nextCopySteps(seen).some(({ step }) => step === 'takeSnapshot'),
      taken,
    );
  });
