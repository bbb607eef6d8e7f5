// Which server flockctl asks: options before the environment before the cluster that came up last.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { writeKubeconfig } from '../api/kubeconfig.ts';
import { chosenServer, connectionFor } from './connection.ts';
import { rememberChild } from './local/child.ts';
import { layoutOf, SERVER } from './local/layout.ts';
import { currentCluster, defaultDirectory, pointAt, pointAway } from './local/pointer.ts';
import { afterwards } from '../testing/afterwards.ts';

function state(t: TestContext): { folder: string; env: { [name: string]: string } } {
  const folder = mkdtempSync(join(tmpdir(), 'flock-connection-'));
  afterwards(t, () => rmSync(folder, { recursive: true }));
  return { folder, env: { XDG_STATE_HOME: join(folder, 'state') } };
}

const credentials = (certificate: string): { key: string; certificate: string; authority: string } => ({
  key: 'key',
  certificate,
  authority: 'authority',
});

const write = (file: string, server: string, certificate = 'certificate'): Promise<void> =>
  writeKubeconfig(file, { name: 'test', server, credentials: credentials(certificate) });

/** A cluster that came up, as its folder tells; its server is this very process. */
async function running(cluster: string, env: { [name: string]: string }): Promise<void> {
  mkdirSync(cluster);
  await write(join(cluster, 'kubeconfig'), 'https://127.0.0.1:1');
  rememberChild(layoutOf(cluster).running, { name: SERVER, pid: process.pid });
  pointAt(cluster, env);
}

test('the cluster that came up last is asked when nobody says otherwise', async (t) => {
  const { folder, env } = state(t);
  await running(join(folder, 'cluster'), env);
  const connection = connectionFor({}, env);
  assert.equal(connection.server, 'https://127.0.0.1:1');
  assert.deepEqual(connection.identity?.(), { certificate: 'certificate', key: 'key' });
});

test('FLOCK_KUBECONFIG goes before it, and --kubeconfig before that', async (t) => {
  const { folder, env } = state(t);
  await write(join(folder, 'a'), 'https://127.0.0.1:2');
  await write(join(folder, 'b'), 'https://127.0.0.1:3');
  const named = { ...env, FLOCK_KUBECONFIG: join(folder, 'a') };
  assert.equal(connectionFor({}, named).server, 'https://127.0.0.1:2');
  assert.equal(connectionFor({ kubeconfig: join(folder, 'b') }, named).server, 'https://127.0.0.1:3');
});

test('--server changes where, not who we are; it goes before FLOCK_SERVER', async (t) => {
  const { folder, env } = state(t);
  await write(join(folder, 'a'), 'https://127.0.0.1:2');
  const named = { ...env, FLOCK_KUBECONFIG: join(folder, 'a'), FLOCK_SERVER: 'https://127.0.0.1:4' };
  assert.equal(connectionFor({}, named).server, 'https://127.0.0.1:4');
  const connection = connectionFor({ server: 'https://127.0.0.1:5' }, named);
  assert.equal(connection.server, 'https://127.0.0.1:5');
  assert.equal(connection.identity?.()?.certificate, 'certificate');
});

test('--server alone is asked without an identity', (t) => {
  assert.deepEqual(connectionFor({ server: 'unix:/run/x' }, state(t).env), { server: 'unix:/run/x' });
});

test('a kubeconfig that its server rewrote is used without a restart', async (t) => {
  const { folder, env } = state(t);
  const file = join(folder, 'a');
  await write(file, 'https://127.0.0.1:2', 'old');
  const connection = connectionFor({ kubeconfig: file }, env);
  assert.equal(connection.identity?.()?.certificate, 'old');
  await write(file, 'https://127.0.0.1:2', 'new');
  assert.equal(connection.identity?.()?.certificate, 'new');
});

for (const empty of [{}, { FLOCK_SERVER: '' }, { FLOCK_KUBECONFIG: '' }])
  test(`without a server the error says how to get one: ${JSON.stringify(empty)}`, (t) => {
    assert.throws(() => connectionFor({}, { ...state(t).env, ...empty }), { reason: 'Unavailable', message: /flockctl up/u });
  });

test('a kubeconfig that is not there is an error, not another cluster', (t) => {
  const { folder, env } = state(t);
  assert.throws(() => connectionFor({ kubeconfig: join(folder, 'none') }, env), { reason: 'NotFound' });
});

const RUNS = (...running: string[]) => ({ gone: false, runs: (directory: string) => running.includes(directory) });
const GONE = (...running: string[]) => ({ ...RUNS(...running), gone: true });

test('of two clusters the last one is meant, and gives the pointer back when it ends', (t) => {
  const { env } = state(t);
  assert.equal(currentCluster(env), null);
  assert.equal(pointAt('/srv/a', env), null);
  assert.equal(pointAt('/srv/a', env), null);
  assert.equal(pointAt('/srv/b', env), '/srv/a');
  assert.equal(pointAway('/srv/b', env, RUNS('/srv/a')), '/srv/a');
  assert.equal(currentCluster(env), '/srv/a');
  assert.equal(pointAway('/srv/a', env, RUNS()), '/srv/a', 'it may come up again');
  assert.equal(pointAway('/srv/a', env, GONE()), '/srv/b');
  assert.equal(pointAway('/srv/b', env, GONE()), null);
  assert.equal(currentCluster(env), null);
});

test('a cluster that is not meant leaves the pointer alone when it ends', (t) => {
  const { env } = state(t);
  for (const each of ['/srv/a', '/srv/b', '/srv/c']) pointAt(each, env);
  assert.equal(pointAway('/srv/a', env, GONE('/srv/b', '/srv/c')), '/srv/c');
  assert.equal(pointAway('/srv/c', env, GONE('/srv/b')), '/srv/b');
});

test('a pointer to a cluster that is gone, or that does not run, says so and names the way out', async (t) => {
  const { folder, env } = state(t);
  const cluster = join(folder, 'cluster');
  pointAt(cluster, env);
  assert.throws(() => connectionFor({}, env), {
    reason: 'Unavailable',
    message: /cluster, which came up last, is not there any more: make one with flockctl up, or/u,
  });
  mkdirSync(cluster);
  await write(join(cluster, 'kubeconfig'), 'https://127.0.0.1:1');
  assert.throws(() => connectionFor({}, env), {
    reason: 'Unavailable',
    message: /does not run: start it with flockctl up, or name a server/u,
  });
});

for (const { by, where = {}, env: named = {} } of [
  { by: /^--server$/u, where: { server: 'https://127.0.0.1:5' } },
  { by: /^FLOCK_SERVER$/u, env: { FLOCK_SERVER: 'https://127.0.0.1:5' } },
  { by: /^--kubeconfig .*\/named$/u, where: { kubeconfig: 'named' } },
  { by: /^FLOCK_KUBECONFIG .*\/named$/u, env: { FLOCK_KUBECONFIG: 'named' } },
  { by: /^--server$/u, where: { server: 'https://127.0.0.1:5', kubeconfig: 'named' }, env: { FLOCK_SERVER: 'https://127.0.0.1:6' } },
  { by: /flock\/current: the cluster in .*\/cluster came up last$/u },
] as { by: RegExp; where?: { server?: string; kubeconfig?: string }; env?: { [name: string]: string } }[])
  test(`it is known what named the server: ${by}`, async (t) => {
    const { folder, env } = state(t);
    await running(join(folder, 'cluster'), env);
    await write(join(folder, 'named'), 'https://127.0.0.1:2');
    const real = (given: { [name: string]: string }): { [name: string]: string } =>
      Object.fromEntries(Object.entries(given).map(([name, text]) => [name, text === 'named' ? join(folder, text) : text]));
    assert.match(chosenServer(real(where), { ...env, ...real(named) }).by, by);
  });

test('a state folder that is not absolute is ignored, as XDG says', () => {
  assert.equal(defaultDirectory({ XDG_STATE_HOME: 'relative', HOME: '/home/me' }), '/home/me/.local/state/flock/cluster');
});

test('an empty pointer points nowhere', (t) => {
  const { env } = state(t);
  pointAt('', env);
  writeFileSync(join(env['XDG_STATE_HOME'] ?? '', 'flock', 'current'), '\n');
  assert.equal(currentCluster(env), null);
});
