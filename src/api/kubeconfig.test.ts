import assert from 'node:assert/strict';
import { mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { stringify } from 'yaml';
import { inCluster, readKubeconfig, writeKubeconfig } from './kubeconfig.ts';

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'flock-kubeconfig-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** A file with one context `here`, of these cluster and user. */
function fileWith(t: TestContext, cluster: object, user: object): string {
  const file = join(folderOf(t), 'config');
  const content = {
    'current-context': 'here',
    contexts: [
      { name: 'here', context: { cluster: 'c', user: 'u', namespace: 'shop' } },
      { name: 'there', context: { cluster: 'other' } },
    ],
    clusters: [
      { name: 'c', cluster },
      { name: 'other', cluster: { server: 'https://other:1' } },
    ],
    users: [{ name: 'u', user }],
  };
  writeFileSync(file, stringify(content));
  return file;
}

test('what was written is read again, and is for its owner only', async (t) => {
  const file = join(folderOf(t), 'deep', 'kubeconfig');
  const credentials = { key: 'KEY', certificate: 'CERTIFICATE', authority: 'AUTHORITY' };
  await writeKubeconfig(file, { name: 'flock', server: 'https://127.0.0.1:6443', credentials });
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const { connection, context, namespace } = readKubeconfig(file);
  assert.deepEqual([connection.server, context, namespace], ['https://127.0.0.1:6443', 'flock', 'default']);
  assert.equal(connection.authority?.(), 'AUTHORITY');
  assert.deepEqual(connection.identity?.(), { certificate: 'CERTIFICATE', key: 'KEY' });
});

test('the current context is used, or the one that is asked for', (t) => {
  const file = fileWith(t, { server: 'https://c:1', 'tls-server-name': 'api' }, { token: 'T' });
  const here = readKubeconfig(file);
  assert.deepEqual(
    [here.connection.server, here.connection.serverName, here.connection.token?.(), here.namespace],
    ['https://c:1', 'api', 'T', 'shop'],
  );
  const there = readKubeconfig(file, 'there');
  assert.deepEqual([there.connection.server, there.connection.token, there.namespace], ['https://other:1', undefined, 'default']);
});

test('files are found beside the kubeconfig and read again when they change; what is inline wins', (t) => {
  const user = { 'client-certificate': 'crt', 'client-key': 'key', tokenFile: 'token' };
  const file = fileWith(t, { server: 'https://c:1', 'certificate-authority': 'ca', 'certificate-authority-data': base64('INLINE') }, user);
  const folder = join(file, '..');
  for (const name of ['crt', 'key', 'token']) writeFileSync(join(folder, name), `${name} 1\n`);
  const { authority, identity, token } = readKubeconfig(file).connection;
  assert.equal(authority?.(), 'INLINE');
  assert.deepEqual(identity?.(), { certificate: 'crt 1\n', key: 'key 1\n' });
  assert.equal(token?.(), 'token 1');
  // As the kubelet changes a projected token: another file takes the name.
  writeFileSync(join(folder, 'token.new'), 'token 2\n');
  renameSync(join(folder, 'token.new'), join(folder, 'token'));
  assert.equal(token?.(), 'token 2');
  rmSync(join(folder, 'token'));
  assert.throws(() => token?.(), { reason: 'Unauthorized', message: /token cannot be read/u });
});

test('a kubeconfig that cannot be used says what is wrong with it', (t) => {
  const server = { server: 'https://c:1' };
  const cases: [object, object, RegExp][] = [
    [{}, {}, /cluster "c", which has no server/u],
    [{ ...server, 'insecure-skip-tls-verify': true }, {}, /insecure-skip-tls-verify is not supported/u],
    [server, { 'client-certificate-data': base64('x') }, /client-certificate and client-key must be given together/u],
    [server, { exec: { command: 'login' } }, /logs in by "exec"; only client certificates and tokens/u],
    [server, { username: 'a', password: 'b' }, /logs in by "username"/u],
  ];
  for (const [cluster, user, message] of cases) {
    const file = fileWith(t, cluster, user);
    assert.throws(() => readKubeconfig(file), { reason: 'Invalid', message }, message.source);
    assert.throws(() => readKubeconfig(file), { message: new RegExp(`kubeconfig ${file} `, 'u') });
  }
  const texts: [string, RegExp][] = [
    ['', /is empty/u],
    ['{}', /has no current-context/u],
    ['current-context: x', /no context "x"/u],
    ['contexts: [', /is not YAML/u],
    [
      'current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: https://c}}]',
      /user "u", which is not there/u,
    ],
  ];
  const file = join(folderOf(t), 'config');
  for (const [text, message] of texts) {
    writeFileSync(file, text);
    assert.throws(() => readKubeconfig(file), { reason: 'Invalid', message }, text);
  }
  assert.throws(() => readKubeconfig(`${file}-not`), { reason: 'NotFound', message: /flockctl up, or use --server/u });
});

test('a pod finds its server and token, and follows the token', (t) => {
  const folder = folderOf(t);
  writeFileSync(join(folder, 'token'), 'one\n');
  writeFileSync(join(folder, 'ca.crt'), 'CA');
  const found = inCluster({ KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '443' }, folder);
  assert.deepEqual([found?.server, found?.authority?.(), found?.token?.()], ['https://[fd00::1]:443', 'CA', 'one']);
  writeFileSync(join(folder, 'token'), 'another\n');
  assert.equal(found?.token?.(), 'another');
  assert.equal(inCluster({}, folder), null);
});
