// csi-sanity with pools on real LVM. Runs on a node of the rig (e2e/csi-lvm.test.ts sends it there): FLOCK_TEST_DISK is a disk of its own,
// FLOCK_TEST_POOLS says of which kinds, FLOCK_CSI_SANITY is the suite's program.
import { after, before } from 'node:test';
import { run } from '../../src/host/run.ts';
import { csiSanity } from '../csi-sanity/suite.ts';

const DISK = process.env['FLOCK_TEST_DISK'] ?? '/dev/ubdb';
const GROUP = 'sanity';
const kinds = (process.env['FLOCK_TEST_POOLS'] ?? 'thick,thin').split(',');
const program = async (): Promise<string> => process.env['FLOCK_CSI_SANITY'] ?? 'csi-sanity';

before(async () => {
  await run('vgcreate', ['-q', '-y', GROUP, DISK]);
  await run('lvcreate', ['-q', '-y', '-L', '6g', '-T', `${GROUP}/thin`]);
});
after(() => run('vgremove', ['-q', '-ff', '-y', GROUP]));

const CONFIGURATIONS: { [kind: string]: object } = {
  thick: { type: 'lvm', volumeGroup: GROUP },
  thin: { type: 'lvm-thin', volumeGroup: GROUP, thinPool: 'thin' },
};

for (const kind of kinds)
  for (const accessType of ['mount', 'block'] as const)
    csiSanity({
      pool: `a pool of ${kind} volumes`,
      configuration: CONFIGURATIONS[kind] ?? {},
      accessType,
      filesystem: 'ext4',
      size: 32,
      program,
    });
