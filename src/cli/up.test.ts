// A cluster on this machine comes up, keeps what is stored in it, and leaves nothing behind.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readFileSync, readdirSync, realpathSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { loopDevices } from '../host/loop.ts';
import { mounts } from '../host/mounts.ts';
import { systemClock } from '../model/clock.ts';
import { flockctl, overHttp, start, type Ran, type Surroundings } from '../testing/cli.ts';
import { needsRoot, temporaryFolder } from '../testing/folders.ts';
import { allFound } from './local/child.ts';
import { bringDown } from './local/cluster.ts';
import { readDescription } from './local/description.ts';
import { layoutOf } from './local/layout.ts';
import { PACKAGE_ROOT } from './version.ts';
import { afterwards } from '../testing/afterwards.ts';

interface Machine {
  folder: string;
  cluster: string;
  around: Surroundings;
  flock: (...words: string[]) => Promise<Ran>;
}

/** A state folder of its own; whatever the test leaves is brought down. */
async function machine(t: TestContext): Promise<Machine> {
  const folder = realpathSync(await temporaryFolder(t));
  const cluster = join(folder, 'cluster');
  afterwards(t, async () => {
    if (readDescription(layoutOf(cluster)) !== null) await bringDown(cluster, true, systemClock);
  });
  const around = overHttp({ XDG_STATE_HOME: join(folder, 'state'), PATH: process.env['PATH'] ?? '' });
  return { folder, cluster, around, flock: (...words) => flockctl(words, around) };
}

async function done(ran: Promise<Ran>): Promise<string> {
  const { code, out, err } = await ran;
  assert.equal(code, 0, err);
  return out;
}

/** Of the cluster's folder: processes, mounts and loop devices. */
async function traces(folder: string): Promise<string[]> {
  const commands = readdirSync('/proc').filter((name) => /^[0-9]+$/u.test(name) && commandOf(name).includes(folder));
  const mounted = (await mounts()).filter((mount) => mount.target.startsWith(folder)).map((mount) => mount.target);
  const loops = (await loopDevices()).filter((loop) => loop.file.startsWith(folder)).map((loop) => loop.file);
  return [...commands.map(commandOf), ...mounted, ...loops];
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}

test('as root: up, use, down, up again with everything there, and down without a trace', { skip: needsRoot }, async (t) => {
  const { folder, cluster, flock } = await machine(t);
  const mount = join(folder, 'mnt');

  assert.match(await done(flock('up', '--nodes', '2', '--dir', cluster)), /2 nodes.*xfs disks of their own\ntry:/u);
  assert.match(await done(flock('node', 'list')), /node-1 +Ready[^]*node-2 +Ready/u);
  assert.equal((await flock('up')).code, 4);
  await done(flock('volume', 'create', 'db', '--size', '512Mi', '--node', 'node-1', '--filesystem', 'xfs'));
  await done(flock('volume', 'mount', 'db', mount));
  writeFileSync(join(mount, 'file'), 'content');
  assert.match(await done(flock('doctor')), /^ok {4}node node-1 is ready/mu);

  const held = await open(join(mount, 'file'));
  const refused = await flock('down');
  await held.close();
  assert.equal(refused.code, 4);
  assert.match(refused.err, new RegExp(`in use at ${mount} by process ${process.pid} `, 'u'));
  assert.equal(allFound(layoutOf(cluster).running).length, 4);

  await done(flock('down'));
  assert.deepEqual(await traces(folder), []);
  assert.equal((await flock('node', 'list')).code, 5);
  const ill = await flock('doctor');
  assert.equal(ill.code, 1);
  assert.match(ill.out, /do not run: server, controller, node-1, node-2; flockctl up starts/u);

  await done(flock('up'));
  await done(flock('volume', 'mount', 'db', mount));
  assert.equal(readFileSync(join(mount, 'file'), 'utf8'), 'content');
  assert.match(await done(flock('down', '--delete')), /is gone/u);
  assert.deepEqual(await traces(folder), []);
  assert.equal(existsSync(cluster), false);
  assert.match((await flock('node', 'list')).err, /no server is known/u);
});

test('a killed agent is told by the doctor, and up starts only what is missing', { skip: needsRoot }, async (t) => {
  const { cluster, flock } = await machine(t);
  await done(flock('up', '--nodes', '2', '--dir', cluster));
  const before = allFound(layoutOf(cluster).running);
  const agent = before.find(({ name }) => name === 'node-2');
  assert.ok(agent);
  process.kill(agent.pid, 'SIGKILL');
  while (allFound(layoutOf(cluster).running).length === before.length) await systemClock.sleep(5);
  assert.match((await flock('doctor')).out, /^wrong of the cluster in .* these do not run: node-2; flockctl up starts/mu);
  await done(flock('up'));
  const others = (children: typeof before): typeof before => children.filter(({ name }) => name !== 'node-2');
  assert.deepEqual(others(allFound(layoutOf(cluster).running)), others(before));
  await done(flock('doctor'));
});

test('more nodes may be added, none taken away', { skip: needsRoot }, async (t) => {
  const { cluster, flock } = await machine(t);
  await done(flock('up', '--nodes', '1', '--dir', cluster));
  await done(flock('up', '--nodes', '2'));
  assert.match(await done(flock('node', 'list')), /node-2 +Ready/u);
  await done(flock('down'));
  const refused = await flock('up', '--nodes', '1');
  assert.equal(refused.code, 4);
  assert.match(refused.err, /has 2 nodes, with what is stored on them/u);
});

test('a cluster whose port is taken does not come up, says why, and leaves nothing running', { skip: needsRoot }, async (t) => {
  const { cluster, folder, flock } = await machine(t);
  await done(flock('up', '--nodes', '1', '--dir', cluster));
  await done(flock('down'));
  const port = readDescription(layoutOf(cluster))?.port;
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(port, '127.0.0.1', resolve));
  afterwards(t, () => taken.close());
  const ran = await flock('up');
  assert.equal(ran.code, 1);
  assert.match(ran.err, /server has ended; the end of .*server\.log:\n[^]*EADDRINUSE/u);
  assert.deepEqual(await traces(folder), []);
});

test('Ctrl-C while the cluster comes up takes back what was started', { skip: needsRoot }, async (t) => {
  const { cluster, folder, around } = await machine(t);
  const running = start(['up', '--nodes', '2', '--dir', cluster], around);
  while (allFound(layoutOf(cluster).running).length < 2) await systemClock.sleep(5);
  running.interrupt();
  const ran = await running.done;
  assert.equal(ran.code, 130);
  assert.match(ran.err, /what was started has ended again/u);
  assert.deepEqual(await traces(folder), []);
});

test('down without a cluster says so', async (t) => {
  const { cluster, flock } = await machine(t);
  assert.equal((await flock('down')).code, 3);
  assert.equal((await flock('down', '--dir', cluster)).code, 3);
});

for (const words of [
  ['--nodes', '0'],
  ['--nodes', '17'],
  ['--nodes', 'three'],
])
  test(`up ${words.join(' ')} is wrong usage`, async (t) => {
    const { cluster, flock } = await machine(t);
    assert.equal((await flock('up', '--dir', cluster, ...words)).code, 2);
    assert.equal(existsSync(cluster), false);
  });

const NOBODY = 65_534;

test(
  'without root the pools are plain folders, and raw volumes can be made',
  { skip: needsRoot && 'needs root: to become another user' },
  async (t) => {
    const { folder, cluster } = await machine(t);
    const home = join(folder, 'home');
    mkdirSync(home);
    for (const path of [folder, home]) chownSync(path, NOBODY, NOBODY);
    const flock = (...words: string[]): { status: number | null; out: string; err: string } => {
      const env = { HOME: home, XDG_STATE_HOME: join(home, 'state'), PATH: process.env['PATH'] ?? '' };
      const ran = spawnSync(process.execPath, [join(PACKAGE_ROOT, 'src', 'cli', 'main.ts'), ...words], {
        uid: NOBODY,
        gid: NOBODY,
        env,
        encoding: 'utf8',
      });
      return { status: ran.status, out: ran.stdout, err: ran.stderr };
    };
    const up = flock('up', '--nodes', '2', '--dir', cluster);
    assert.equal(up.status, 0, up.err);
    assert.match(up.err, /pools are plain folders: not root/u);
    const created = flock('volume', 'create', 'raw', '--size', '16Mi', '--node', 'node-1', '--block');
    assert.equal(created.status, 0, created.err);
    const moved = flock('move', 'raw', '--to', 'node-2', '--wait');
    assert.equal(moved.status, 0, moved.err);
    assert.match(moved.out, /volume raw is on node node-2 now/u);
    const down = flock('down', '--delete');
    assert.equal(down.status, 0, down.err);
    assert.deepEqual(await traces(folder), []);
    assert.equal(existsSync(cluster), false);
  },
);
