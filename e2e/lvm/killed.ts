// An agent's container is killed while it makes a point in time of a volume that an application writes: as often as it is, nothing half-made
// stays, no device stays suspended, and the application loses nothing. Runs on a node of the rig; FLOCK_TEST_DISK is a disk of its own.
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { devicesOf, halfChanged } from '../../src/host/lvm-device.ts';
import { LvmCommands } from '../../src/host/lvm-command.ts';
import { run } from '../../src/host/run.ts';
import { openLvmPool, type LvmPoolOptions } from '../../src/pools/lvm-open.ts';
import { thickLayout } from '../../src/pools/lvm-room.ts';
import { aCopy } from '../../src/testing/labels.ts';

const DISK = process.env['FLOCK_TEST_DISK'] ?? '/dev/ubdb';
const GROUP = 'killed';
const TIMES = Number(process.env['FLOCK_TEST_TIMES'] ?? '20');
const MiB = 1n << 20n;
/** Stands for the container's: its end is what a container runtime does to all in it. */
const CONTAINER = '/sys/fs/cgroup/flock-test-container';

const lvm = async (...words: string[]): Promise<string> => (await run(words[0] ?? '', words.slice(1))).stdout.trim();

before(async () => {
  await lvm('vgcreate', '-q', '-y', GROUP, DISK);
  await lvm('lvcreate', '-q', '-y', '-L', '1g', '-T', `${GROUP}/thin`);
  await mkdir(CONTAINER, { recursive: true });
});
after(async () => {
  await lvm('vgremove', '-q', '-ff', '-y', GROUP);
  await rmdir(CONTAINER);
});

const optionsOf = (thinPool: string | null): LvmPoolOptions => ({
  name: 'local',
  volumeGroup: GROUP,
  thinPool,
  policy: { reserve: '0', overcommit: null, snapshotReserve: '20%', autoextend: null, layout: thickLayout([]) },
  tools: 'image',
  journals: '/nonexistent',
  uuid: null,
});

/** Writes numbered blocks, each on the disk before the next; stops by SIGTERM. Its last line is the number that is there for certain. */
const WRITER = `
import { openSync, writeSync, fdatasyncSync, readSync } from 'node:fs';
const file = openSync(process.argv[1], 'r+');
let count = 0, ended = false;
process.on('SIGTERM', () => (ended = true));
const turn = () => {
  const block = Buffer.alloc(4096, 'block ' + count + ' ');
  writeSync(file, block, 0, 4096, (count % 2048) * 4096);
  fdatasyncSync(file);
  count += 1;
  if (!ended) return setImmediate(turn);
  const found = Buffer.alloc(4096);
  for (let each = Math.max(0, count - 2048); each < count; each += 1) {
    readSync(file, found, 0, 4096, (each % 2048) * 4096);
    if (!found.equals(Buffer.alloc(4096, 'block ' + each + ' '))) throw new Error('block ' + each + ' was acknowledged and is not there');
  }
  console.log(count);
};
turn();`;

const startWriter = (device: string): ChildProcess =>
  spawn(process.execPath, ['--input-type=module', '-e', WRITER, device], { stdio: ['ignore', 'pipe', 'inherit'] });

async function stopWriter(writer: ChildProcess): Promise<number> {
  let said = '';
  writer.stdout?.on('data', (part) => (said += String(part)));
  const exited = once(writer, 'exit') as Promise<[number | null]>;
  writer.kill('SIGTERM');
  const [code] = await exited;
  assert.equal(code, 0);
  return Number(said);
}

/** An agent in its container. */
async function startAgent(thinPool: string | null, copy: string): Promise<ChildProcess> {
  const words = [process.execPath, join(import.meta.dirname, 'freezing.ts'), GROUP, thinPool ?? '-', copy];
  const agent = spawn('sh', ['-c', 'echo $$ > "$0" && exec "$@"', join(CONTAINER, 'cgroup.procs'), ...words], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(agent.stdout, 'data');
  return agent;
}

/** Once a snapshot is being made. */
async function killWhileMaking(agent: ChildProcess, wait: number): Promise<void> {
  const exited = once(agent, 'exit');
  for (;;) {
    const pids = (await readFile(`/sys/fs/cgroup/flock-lvm/vg-${GROUP}/cgroup.procs`, 'utf8').catch(() => '')).split('\n').filter(Boolean);
    const words = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')));
    if (words.some((each) => each.startsWith('lvcreate'))) break;
    await pause(2);
  }
  await pause(wait);
  await writeFile(join(CONTAINER, 'cgroup.kill'), '1');
  await exited;
}

async function brokenDevices(groupUuid: string): Promise<string[]> {
  const half = await halfChanged(new LvmCommands('looking', 'image').run);
  const devices = await devicesOf(groupUuid);
  return devices.filter(({ suspended, name }) => suspended || half.has(name)).map(({ name }) => name);
}

for (const thinPool of [null, 'thin'])
  test(`of ${TIMES} kills while a point of a ${thinPool === null ? 'thick' : 'thin'} volume is made under load none leaves anything`, async () => {
    const { name, label } = aCopy('k1', { volumeMode: 'Block' });
    const first = await openLvmPool(optionsOf(thinPool));
    await first.create(name, 64n * MiB, label);
    const writer = startWriter(await first.attach(name));
    const groupUuid = await lvm('vgs', '--noheadings', '-o', 'vg_uuid', GROUP);
    for (let time = 0; time < TIMES; time += 1) {
      const agent = await startAgent(thinPool, name);
      await killWhileMaking(agent, (time * 37) % 400);
      const next = await openLvmPool(optionsOf(thinPool));
      assert.deepEqual(await brokenDevices(groupUuid), [], `after kill ${time + 1}`);
      const { copies, foreign, unlabelled } = await next.scan();
      assert.deepEqual([copies.map((copy) => copy.name), unlabelled, foreign], [[name], [], thinPool === null ? ['thin'] : []]);
      for (const point of copies[0]?.points ?? []) await next.release(name, point);
      const left = (await lvm('lvs', '--noheadings', '-o', 'lv_name', GROUP)).split('\n').map((each) => each.trim());
      assert.deepEqual(left.toSorted(), [name, 'thin'].toSorted(), `after kill ${time + 1}`);
      assert.equal(writer.exitCode, null, 'the application runs');
    }
    assert.ok((await stopWriter(writer)) > 0);
    const last = await openLvmPool(optionsOf(thinPool));
    await last.detach(name);
    await last.remove(name, 'none');
  });
