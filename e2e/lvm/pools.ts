// All that a pool promises, held by both kinds on real LVM. Runs on a node of the rig (e2e/lvm.test.ts sends it there), on disks that are
// its own: FLOCK_TEST_DISK names one of 16 GiB.
import { after, before } from 'node:test';
import type { TestContext } from 'node:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../../src/host/run.ts';
import { poolContract } from '../../src/pools/contract.ts';
import type { PoolWorld } from '../../src/pools/contract-world.ts';
import { openLvmPool } from '../../src/pools/lvm-open.ts';

const DISK = process.env['FLOCK_TEST_DISK'] ?? '/dev/ubdb';
const GROUP = 'contract';
const KINDS = (process.env['FLOCK_TEST_POOLS'] ?? 'thick,thin').split(',');
/** So small that sizes are as exact as in files. */
const EXTENT = '4k';
const MiB = 1n << 20n;

const lvm = async (...words: string[]): Promise<string> => (await run(words[0] ?? '', words.slice(1))).stdout.trim();
const names = async (): Promise<string[]> =>
  (await lvm('lvs', '--noheadings', '-o', 'lv_name', GROUP))
    .split('\n')
    .map((name) => name.trim())
    .filter(Boolean);

const emptied = async (): Promise<void> => {
  for (const name of (await names()).toReversed()) await lvm('lvremove', '-q', '-f', '-y', `${GROUP}/${name}`).catch(() => '');
};

before(() => lvm('vgcreate', '-q', '-y', '-s', EXTENT, GROUP, DISK));
after(() => lvm('vgremove', '-q', '-ff', '-y', GROUP));

const FOREIGN = 'photos';

async function world(t: TestContext, options: { capacity: bigint; thinPool: string | null }): Promise<PoolWorld> {
  const { capacity, thinPool } = options;
  const journals = await mkdtemp(join(tmpdir(), 'flock-journals-'));
  t.after(() => rm(journals, { recursive: true }));
  // Before and not after a test, whose own clean-up closes what it has open.
  await emptied();
  const size =
    thinPool === null
      ? BigInt(await lvm('vgs', '--noheadings', '--units', 'b', '--nosuffix', '-o', 'vg_size', GROUP))
      : capacity + 64n * MiB;
  if (thinPool !== null) await lvm('lvcreate', '-q', '-y', '-L', `${size}b`, '-c', '64k', '-T', `${GROUP}/${thinPool}`);
  const policy = {
    reserve: String(size - capacity),
    overcommit: null,
    snapshotReserve: '20%',
    autoextend: null,
    layout: { options: [], stripes: 1n, mirrors: 1n },
  };
  const common = { name: 'local', volumeGroup: GROUP, thinPool, policy, tools: 'image', journals, uuid: null } as const;
  const kind = thinPool === null ? ['-L', '4m'] : ['-V', '4m', '--thinpool', thinPool];
  return {
    open: (crash) => openLvmPool({ ...common, ...(crash ? { crash } : {}) }),
    plantForeign: async () => {
      await lvm('lvcreate', '-q', '-y', ...kind, '-n', FOREIGN, GROUP);
      return FOREIGN;
    },
    isForeignIntact: async () => (await names()).includes(FOREIGN),
    leftovers: async () => (await names()).filter((name) => /^[0-9a-f]{8}-/u.test(name)),
  };
}

if (KINDS.includes('thick'))
  poolContract('a pool of thick volumes', { points: true, attachable: true, block: 65_536, zeros: false, histories: 2 }, (t, capacity) =>
    world(t, { capacity, thinPool: null }),
  );
if (KINDS.includes('thin'))
  poolContract('a pool of thin volumes', { points: true, attachable: true, block: 65_536, histories: 2 }, (t, capacity) =>
    world(t, { capacity, thinPool: 'thin' }),
  );
