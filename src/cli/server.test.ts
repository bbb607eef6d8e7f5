// flockctl server, controller and agent as they run on plain hosts: from the command line, over TLS, with an invitation.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { readKubeconfig } from '../api/kubeconfig.ts';
import { systemClock } from '../model/clock.ts';
import { flockctl, overHttp, start, whenWritten, type Invocation, type Ran } from '../testing/cli.ts';
import { temporaryFolder } from '../testing/folders.ts';
import { afterwards } from '../testing/afterwards.ts';

interface Host {
  folder: string;
  kubeconfig: string;
  url: string;
  server: Invocation;
  flock: (...words: string[]) => Promise<Ran>;
}

async function hosted(t: TestContext): Promise<Host> {
  const folder = await temporaryFolder(t);
  const directory = join(folder, 'server');
  const kubeconfig = join(directory, 'kubeconfig');
  const server = begin(t, ['server', '--dir', directory, '--listen', '127.0.0.1:0'], {});
  await whenWritten(server, 'server runs');
  const env = { FLOCK_KUBECONFIG: kubeconfig, XDG_STATE_HOME: join(folder, 'state') };
  const url = readKubeconfig(kubeconfig).connection.server;
  return { folder, kubeconfig, url, server, flock: (...words) => flockctl(words, overHttp(env)) };
}

/** Ended with the test, before its folder goes. */
function begin(t: TestContext, words: string[], env: { [name: string]: string }): Invocation {
  const running = start(words, overHttp(env));
  afterwards(t, async () => {
    running.interrupt();
    await running.done;
  });
  return running;
}

/** An agent's command line for a node of its own. */
function agentWords({ folder, url }: Host, name: string, ...more: string[]): string[] {
  const own = join(folder, name);
  mkdirSync(join(own, 'pool'), { recursive: true });
  writeFileSync(join(own, 'pools.yaml'), `pools: [{name: local, type: image, path: ${own}/pool}]`);
  return ['agent', '--name', name, '--dir', own, '--pools', join(own, 'pools.yaml'), '--server', url, '--listen', '127.0.0.1:0', ...more];
}

async function invitation(host: Host, ...words: string[]): Promise<string> {
  const { code, out, err } = await host.flock('server', 'invite', ...words);
  assert.equal(code, 0, err);
  return out.trim();
}

test('a host enrols with an invitation, is ready once a controller works, and takes a volume', async (t) => {
  const host = await hosted(t);
  begin(t, ['controller', '--kubeconfig', join(host.folder, 'server', 'controller.kubeconfig')], {});
  const agent = begin(t, agentWords(host, 'host-a'), { FLOCK_INVITE: await invitation(host) });
  await whenWritten(agent, 'agent runs');
  const signal = AbortSignal.timeout(20_000);
  while (!/host-a +Ready/u.test((await host.flock('node', 'list')).out)) await systemClock.sleep(50, signal);
  const created = await host.flock('volume', 'create', 'db', '--size', '16Mi', '--block');
  assert.equal(created.code, 0, created.err);
  assert.equal((await host.flock('doctor')).code, 0);
});

test('keys and kubeconfigs are readable by their owner only', async (t) => {
  const { folder, kubeconfig } = await hosted(t);
  for (const file of [kubeconfig, join(folder, 'server', 'controller.kubeconfig'), join(folder, 'server', 'flock.db')])
    assert.equal(statSync(file).mode & 0o077, 0, file);
});

test('an agent without an invitation says how to get one', async (t) => {
  const host = await hosted(t);
  const ran = await flockctl(agentWords(host, 'host-a'), overHttp({}));
  assert.equal(ran.code, 4);
  assert.match(ran.err, /node host-a is not enrolled.*flockctl server invite --node host-a/u);
});

test('an invitation lets one host in, and only the one it names', async (t) => {
  const host = await hosted(t);
  const token = await invitation(host, '--node', 'host-a');
  const other = await flockctl(agentWords(host, 'host-b', '--invite', token), overHttp({}));
  assert.equal(other.code, 4);
  assert.match(other.err, /this invitation is for node host-a/u);
  const agent = begin(t, agentWords(host, 'host-a', '--invite', token), {});
  await whenWritten(agent, 'agent runs');
  const again = await flockctl(agentWords(host, 'host-c', '--invite', token), overHttp({}));
  assert.equal(again.code, 4);
  assert.match(again.err, /was used already, by node host-a/u);
});

test('a second agent in the same folder is refused', async (t) => {
  const host = await hosted(t);
  const agent = begin(t, agentWords(host, 'host-a'), { FLOCK_INVITE: await invitation(host) });
  await whenWritten(agent, 'agent runs');
  const second = await flockctl(agentWords(host, 'host-a'), overHttp({}));
  assert.equal(second.code, 4);
  assert.match(second.err, /another agent runs in/u);
});

test('a second server on the same folder is refused', async (t) => {
  const { folder } = await hosted(t);
  const second = await flockctl(['server', '--dir', join(folder, 'server'), '--listen', '127.0.0.1:0'], overHttp({}));
  assert.equal(second.code, 4);
});

test('a backup taken while the server runs brings the records back', async (t) => {
  const host = await hosted(t);
  const file = join(host.folder, 'backup.db');
  const directory = join(host.folder, 'server');
  const create = (name: string): Promise<Ran> => host.flock('volume', 'create', name, '--size', '1Gi', '--no-wait');
  assert.equal((await create('before')).code, 0);
  assert.equal((await host.flock('server', 'backup', file, '--dir', directory)).code, 0);
  assert.equal((await host.flock('server', 'backup', file, '--dir', directory)).code, 4);
  assert.equal((await create('after')).code, 0);

  const running = await host.flock('server', 'restore', file, '--dir', directory);
  assert.equal(running.code, 4, running.err);
  host.server.interrupt();
  assert.equal((await host.server.done).code, 0);
  const restored = await host.flock('server', 'restore', file, '--dir', directory);
  assert.equal(restored.code, 0, restored.err);
  assert.ok(existsSync(/kept as (?<file>\S+)/u.exec(restored.out)?.groups?.['file'] ?? ''));

  const { port } = new URL(host.url);
  const again = begin(t, ['server', '--dir', directory, '--listen', `127.0.0.1:${port}`], {});
  await whenWritten(again, 'server runs');
  const { out } = await host.flock('volume', 'list', '-o', 'name');
  assert.equal(out, 'volume.flock.dev/before\n');
});

test('a backup that is not there is not found', async (t) => {
  const folder = await temporaryFolder(t);
  assert.equal((await flockctl(['server', 'restore', join(folder, 'none'), '--dir', folder], overHttp({}))).code, 3);
  assert.equal((await flockctl(['server', 'backup', join(folder, 'new'), '--dir', folder], overHttp({}))).code, 3);
});

test('a server that does not answer is exit code 5', async (t) => {
  const host = await hosted(t);
  host.server.interrupt();
  await host.server.done;
  const ran = await host.flock('volume', 'list');
  assert.equal(ran.code, 5);
  assert.match(ran.err, new RegExp(host.url, 'u'));
});

test('without a certificate nothing is shown', async (t) => {
  const { folder, url, kubeconfig } = await hosted(t);
  const text = readFileSync(kubeconfig, 'utf8');
  const anonymous = join(folder, 'anonymous');
  writeFileSync(
    anonymous,
    text.replaceAll(/^ +client-(?:certificate|key)-data: .*\n(?: {8,}.*\n)*/gmu, '').replace(/^ +user:$/mu, '    user: {}'),
  );
  const ran = await flockctl(['volume', 'list', '--kubeconfig', anonymous, '--server', url], overHttp({}));
  assert.equal(ran.code, 4, ran.err);
  assert.match(ran.err, /no client certificate was shown/u);
});

const WRONG = [
  { words: ['server', '--listen', 'nowhere'], says: /address "nowhere" is not valid/u },
  { words: ['server', '--listen', '127.0.0.1:70000'], says: /is not valid/u },
  { words: ['server', 'invite', '--node', '../x'], says: /node name "\.\.\/x" is not valid/u },
  { words: ['server', 'backup'], says: /missing required argument 'file'/u },
  { words: ['server', 'backup', 'x'], says: /name the folder of the server with --dir/u },
  { words: ['agent', '--name', 'a/b', '--dir', 'x', '--pools', 'x'], says: /node name "a\/b" is not valid/u },
  { words: ['agent', '--name', 'a', '--dir', 'x', '--pools', 'x'], says: /no server is named/u },
  { words: ['agent', '--name', 'a', '--dir', 'x', '--pools', 'x', '--network', '10.0.0.0'], says: /write it like 10\.1\.0\.0\/16/u },
];

for (const { words, says } of WRONG)
  test(`wrong usage: flockctl ${words.join(' ')}`, async (t) => {
    const ran = await flockctl(words, overHttp({ XDG_STATE_HOME: await temporaryFolder(t) }));
    assert.equal(ran.code, 2, ran.err);
    assert.match(ran.err, says);
  });
