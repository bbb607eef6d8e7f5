// A cluster on this machine comes up, keeps what is stored in it, and leaves nothing behind.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdirSync, readFileSync, readdirSync, realpathSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { httpClient } from '../api/http-client.ts';
import { readKubeconfig } from '../api/kubeconfig.ts';
import { loopDevices } from '../host/loop.ts';
import { beUnmounted, mounts } from '../host/mounts.ts';
import { systemClock } from '../model/clock.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { flockctl, overHttp, start, type Ran, type Surroundings } from '../testing/cli.ts';
import { needsRoot, temporaryFolder } from '../testing/folders.ts';
import { allFound } from './local/child.ts';
import { bringDown } from './local/cluster.ts';
import { readDescription, writeDescription } from './local/description.ts';
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

/** Process ids by name. */
const running = (cluster: string): { [name: string]: number } =>
  Object.fromEntries(allFound(layoutOf(cluster).running).map(({ name, pid }) => [name, pid]));

/** One agent is killed and one node more is wanted: `up` starts these two and leaves the others alone. */
async function loseAndAdd({ cluster, flock }: Machine): Promise<void> {
  const before = running(cluster);
  process.kill(before['node-2'] ?? 0, 'SIGKILL');
  while (running(cluster)['node-2'] !== undefined) await systemClock.sleep(5);
  assert.match((await flock('doctor')).out, /^wrong of the cluster in .* these do not run: node-2; flockctl up starts/mu);
  await done(flock('up', '--nodes', '3'));
  const { 'node-2': again, 'node-3': added, ...others } = running(cluster);
  const { 'node-2': killed, ...untouched } = before;
  assert.deepEqual(others, untouched);
  assert.notEqual(again, killed);
  assert.ok(added);
  await done(flock('doctor'));
}

/** Pools that somebody unmounted under a running agent: `up` is the way out that doctor names, and afterwards all is well. */
async function mountAgain({ cluster, flock }: Machine): Promise<void> {
  const before = running(cluster);
  const pools = ['pool', 'directory'].map((pool) => join(cluster, 'node-3', pool));
  for (const pool of pools) await beUnmounted(pool);
  const { out } = await flock('doctor');
  for (const pool of pools) assert.match(out, new RegExp(`^wrong the pool ${pool} is not mounted; flockctl up starts and mounts`, 'mu'));
  assert.match((await flock('up')).err, /what is not mounted of the pools of node-3 is mounted again/u);
  assert.deepEqual(running(cluster), before);
  await done(flock('doctor'));
}

/** A volume that is in use keeps the whole cluster up, be it a device or a directory. */
async function stayWhileUsed({ cluster, flock }: Machine, mount: string): Promise<void> {
  const held = await open(join(mount, 'file'));
  const refused = await flock('down');
  await held.close();
  assert.equal(refused.code, 4);
  assert.match(refused.err, new RegExp(`in use at ${mount} by process ${process.pid} `, 'u'));
  assert.deepEqual(Object.keys(running(cluster)).toSorted(), ['controller', 'node-1', 'node-2', 'node-3', 'server']);
}

async function stop({ folder, flock }: Machine): Promise<void> {
  await done(flock('down'));
  assert.deepEqual(await traces(folder), []);
  assert.equal((await flock('node', 'list')).code, 5);
  const ill = await flock('doctor');
  assert.equal(ill.code, 1);
  assert.match(ill.out, /do not run: server, controller, node-1, node-2, node-3; flockctl up starts/u);
  const fewer = await flock('up', '--nodes', '1');
  assert.equal(fewer.code, 4);
  assert.match(fewer.err, /has 3 nodes, with what is stored on them/u);
}

test('as root: up, lose an agent, add a node, down, up with everything there, down without a trace', { skip: needsRoot }, async (t) => {
  const there = await machine(t);
  const { folder, cluster, flock } = there;
  const mount = join(folder, 'mnt');
  assert.match(
    await done(flock('up', '--nodes', '2', '--dir', cluster)),
    /2 nodes.*xfs disks of their own\ncommands that name no server ask it\ntry:/u,
  );
  assert.match(await done(flock('node', 'list')), /node-1 +Ready[^]*node-2 +Ready/u);
  assert.equal((await flock('up')).code, 4);
  await done(flock('volume', 'create', 'db', '--size', '512Mi', '--node', 'node-1', '--filesystem', 'xfs'));
  await done(flock('volume', 'mount', 'db', mount));
  writeFileSync(join(mount, 'file'), 'content');

  const files = join(folder, 'files');
  await done(flock('volume', 'create', 'files', '--size', '1Mi', '--node', 'node-2', '--pool', 'directory'));
  await done(flock('volume', 'mount', 'files', files));
  writeFileSync(join(files, 'file'), 'content');

  await loseAndAdd(there);
  await mountAgain(there);
  await stayWhileUsed(there, mount);
  await stayWhileUsed(there, files);
  await stop(there);

  await done(flock('up'));
  for (const [name, path] of [
    ['db', mount],
    ['files', files],
  ] as const) {
    await done(flock('volume', 'mount', name, path));
    assert.equal(readFileSync(join(path, 'file'), 'utf8'), 'content');
  }
  assert.match(await done(flock('down', '--delete')), /is gone/u);
  assert.deepEqual(await traces(folder), []);
  assert.equal(existsSync(cluster), false);
  assert.match((await flock('node', 'list')).err, /no server is known/u);
});

test('an up that fails unmounts nothing that was mounted before: an application outlives its agent', { skip: needsRoot }, async (t) => {
  const { folder, cluster, flock } = await machine(t);
  const mount = join(folder, 'mnt');
  await done(flock('up', '--nodes', '1', '--dir', cluster));
  await done(flock('volume', 'create', 'db', '--size', '64Mi', '--node', 'node-1', '--filesystem', 'ext4'));
  await done(flock('volume', 'mount', 'db', mount));
  process.kill(running(cluster)['node-1'] ?? 0, 'SIGKILL');
  while (running(cluster)['node-1'] !== undefined) await systemClock.sleep(5);
  const pools = join(cluster, 'node-1', 'pools.json');
  const whole = readFileSync(pools, 'utf8');
  writeFileSync(pools, '{');
  const failed = await flock('up');
  assert.equal(failed.code, 1);
  assert.match(failed.err, /node-1 has ended/u);
  writeFileSync(join(mount, 'late'), 'acknowledged while no agent ran');
  writeFileSync(pools, whole);
  await done(flock('up'));
  await done(flock('volume', 'unmount', 'db'));
  await done(flock('volume', 'mount', 'db', mount));
  assert.equal(readFileSync(join(mount, 'late'), 'utf8'), 'acknowledged while no agent ran');
  await done(flock('volume', 'unmount', 'db'));
});

test(
  'up never formats a pool that was formatted: a blank superblock is an error, and the disk stays as it is',
  { skip: needsRoot },
  async (t) => {
    const { cluster, flock } = await machine(t);
    await done(flock('up', '--nodes', '1', '--dir', cluster));
    await done(flock('down'));
    const disk = await open(join(cluster, 'node-1', 'pool.xfs'), 'r+');
    t.after(() => disk.close());
    await disk.write(Buffer.alloc(4096), 0, 4096, 0);
    const before = await disk.read(Buffer.alloc(1 << 20), 0, 1 << 20, 0);
    const refused = await flock('up');
    assert.equal(refused.code, 1);
    assert.match(refused.err, /formatted/u);
    const after = await disk.read(Buffer.alloc(1 << 20), 0, 1 << 20, 0);
    assert.ok(after.buffer.equals(before.buffer));
  },
);

/** Two clusters beside each other; whatever the test leaves is brought down. */
async function another(t: TestContext, { folder }: Machine): Promise<string> {
  const cluster = join(folder, 'other');
  afterwards(t, async () => {
    if (readDescription(layoutOf(cluster)) !== null) await bringDown(cluster, true, systemClock);
  });
  return cluster;
}

test('of two clusters the one that came up last is asked: up warns, doctor names it, down gives the pointer back', async (t) => {
  const there = await machine(t);
  const { cluster, flock } = there;
  const other = await another(t, there);
  await done(flock('up', '--nodes', '1', '--dir', cluster));
  const taken = await flock('up', '--nodes', '2', '--dir', other);
  assert.match(taken.out, /^commands that name no server ask it$/mu);
  assert.match(
    taken.err,
    new RegExp(`warning: .* ask this cluster from now on, no more the one in ${cluster}\n.*${cluster}/kubeconfig asks that one`, 'u'),
  );
  assert.match(await done(flock('node', 'list')), /node-2/u);
  assert.match(
    (await flock('doctor')).out,
    new RegExp(`^ok +server https:.* named by .*: the cluster in ${other} came up last, answers$`, 'mu'),
  );
  assert.match(
    await done(flock('down')),
    new RegExp(`${other} is stopped; flockctl up --dir ${other} starts it again\n.*ask the cluster in ${cluster} again`, 'u'),
  );
  assert.doesNotMatch(await done(flock('node', 'list')), /node-2/u);
  assert.match(await done(flock('down', '--delete', '--dir', other)), /is gone$/mu);
  assert.deepEqual(
    readdirSync(cluster).filter((name) => name === 'lock'),
    [],
  );
  assert.match(await done(flock('down', '--delete')), new RegExp(`${cluster} is gone`, 'u'));
  assert.match((await flock('node', 'list')).err, /no server is known/u);
});

test('a node whose record was deleted is enrolled again by up, whether its agent runs or not, with what is stored on it', async (t) => {
  const { cluster, flock } = await machine(t);
  await done(flock('up', '--nodes', '1', '--dir', cluster));
  await done(flock('volume', 'create', 'raw', '--size', '16Mi', '--block'));
  const { kubeconfig } = layoutOf(cluster);
  const removed = async (): Promise<void> => {
    const client = httpClient(readKubeconfig(kubeconfig).connection);
    await client.delete(StorageNodes, 'node-1');
    client.close();
  };
  await removed();
  assert.match((await flock('doctor')).out, /^wrong volume raw is on node node-1, which has no record: enrol it again/mu);
  const again = await flock('up');
  assert.equal(again.code, 0, again.err);
  assert.match(again.err, /record of node-1 was deleted, .* it is enrolled again/u);
  await removed();
  await done(flock('down'));
  assert.equal((await flock('up')).code, 0);
  assert.match(await done(flock('volume', 'list')), /raw .*Available/u);
  await done(flock('doctor'));
});

test('up has a controller that works when it says that the cluster runs, also after the one before was killed', async (t) => {
  const { cluster, flock } = await machine(t);
  await done(flock('up', '--nodes', '1', '--dir', cluster));
  process.kill(running(cluster)['controller'] ?? 0, 'SIGKILL');
  while (running(cluster)['controller'] !== undefined) await systemClock.sleep(5);
  await done(flock('up'));
  assert.match(await done(flock('doctor')), /^ok +controller .* works$/mu);
});

test('up says when the environment sends commands to another server', async (t) => {
  const { cluster, around } = await machine(t);
  const ran = await flockctl(['up', '--nodes', '1', '--dir', cluster], {
    ...around,
    env: { ...around.env, FLOCK_SERVER: 'https://127.0.0.1:1' },
  });
  assert.equal(ran.code, 0, ran.err);
  assert.match(ran.err, /warning: FLOCK_SERVER is set, so commands ask that server and not this cluster: unset FLOCK_SERVER/u);
});

test('a cluster whose port is taken does not come up, says why, and leaves nothing running', async (t) => {
  const { cluster, folder, flock } = await machine(t);
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  t.after(() => taken.close());
  const { port } = taken.address() as AddressInfo;
  mkdirSync(cluster);
  await writeDescription(layoutOf(cluster), { nodes: 1, port, ground: 'folder', diskSize: '0' });
  const ran = await flock('up', '--dir', cluster);
  assert.equal(ran.code, 1);
  assert.match(ran.err, /server has ended; the end of .*server\.log:\n[^]*EADDRINUSE/u);
  assert.deepEqual(await traces(folder), []);
});

test('Ctrl-C while the cluster comes up takes back what was started', { skip: needsRoot }, async (t) => {
  const { cluster, folder, around } = await machine(t);
  const coming = start(['up', '--nodes', '2', '--dir', cluster], around);
  while (allFound(layoutOf(cluster).running).length < 2) await systemClock.sleep(5);
  coming.interrupt();
  const ran = await coming.done;
  assert.equal(ran.code, 130);
  assert.match(ran.err, /what was started has ended again/u);
  assert.deepEqual(await traces(folder), []);
});

test('a folder that holds something else becomes no cluster, for it would go with it', async (t) => {
  const { cluster, flock } = await machine(t);
  mkdirSync(cluster);
  writeFileSync(join(cluster, 'mine'), 'kept');
  const refused = await flock('up', '--dir', cluster);
  assert.equal(refused.code, 4);
  assert.match(refused.err, /is not empty \(mine\) and no cluster/u);
  assert.equal(readFileSync(join(cluster, 'mine'), 'utf8'), 'kept');
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

type AsNobody = (...words: string[]) => { status: number | null; out: string; err: string };

/** Without root a directory is handed out as a link; while something in it is open, nothing of the cluster ends. */
async function moveDirectory(folder: string, flock: AsNobody): Promise<void> {
  const at = join(folder, 'home', 'files');
  const done = (...words: string[]): string => {
    const { status, out, err } = flock(...words);
    assert.equal(status, 0, err);
    return out;
  };
  done('volume', 'create', 'files', '--size', '1Mi', '--node', 'node-1', '--pool', 'directory');
  done('volume', 'mount', 'files', at);
  writeFileSync(join(at, 'file'), 'content');
  chownSync(join(at, 'file'), NOBODY, NOBODY);
  const held = spawn(
    process.execPath,
    ['-e', `require('fs').openSync(${JSON.stringify(join(at, 'file'))}); process.send('open'); setInterval(() => {}, 1e6)`],
    {
      uid: NOBODY,
      gid: NOBODY,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    },
  );
  await once(held, 'message');
  const refused = flock('down');
  const over = once(held, 'exit');
  held.kill();
  await over;
  assert.equal(refused.status, 4, refused.err);
  assert.match(refused.err, new RegExp(`in use .* by process ${held.pid} `, 'u'));
  done('volume', 'unmount', 'files');
  assert.match(done('move', 'files', '--to', 'node-2', '--wait'), /volume files is on node node-2 now/u);
  assert.match(done('volume', 'mount', 'files', at), /is handed out as a link at /u);
  assert.equal(readFileSync(join(at, 'file'), 'utf8'), 'content');
}

test(
  'without root the pools are plain folders, and raw volumes and directories can be made and moved',
  { skip: needsRoot && 'needs root: to become another user' },
  async (t) => {
    const { folder, cluster } = await machine(t);
    const home = join(folder, 'home');
    mkdirSync(home);
    for (const path of [folder, home]) chownSync(path, NOBODY, NOBODY);
    const flock: AsNobody = (...words) => {
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
    await moveDirectory(folder, flock);
    const down = flock('down', '--delete');
    assert.equal(down.status, 0, down.err);
    assert.deepEqual(readdirSync(home), ['state'], 'a link to what is gone is left');
    assert.deepEqual(await traces(folder), []);
    assert.equal(existsSync(cluster), false);
  },
);
