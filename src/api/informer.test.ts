import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlockError } from '../model/errors.ts';
import { GROUP_VERSION, type Stored } from '../model/meta.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import { keptLog } from '../testing/kept-log.ts';
import type { Client, ListOptions, WatchEvent } from './client.ts';
import { informer } from './informer.ts';
import { LocalClient } from './local-client.ts';
import { Registry } from './registry.ts';
import { MemoryTable } from './table.ts';

type Change = string;
type Happening = WatchEvent<StorageNode> | { type: 'END' } | { type: 'FAIL'; error: Error };

const node = (name: string, version: number, uid = `uid-${name}`): Stored<StorageNode> => ({
  apiVersion: GROUP_VERSION,
  kind: 'StorageNode',
  metadata: { name, uid, resourceVersion: String(version), creationTimestamp: '2026-01-01T00:00:00Z' },
});

/** A server that says what the test tells it to: lists in order, and one stream of happenings for whoever watches. */
function script() {
  const lists: (Stored<StorageNode>[] | FlockError | { version: number; items: Stored<StorageNode>[] })[] = [];
  const asked: string[] = [];
  let waiting: Happening[] = [];
  let wake = (): void => {};
  const say = (...happenings: Happening[]): void => {
    waiting.push(...happenings);
    wake();
  };
  const list = async (_kind: unknown, _options?: ListOptions): Promise<unknown> => {
    asked.push('list');
    const next = lists.shift() ?? [];
    if (next instanceof FlockError) throw next;
    if (!Array.isArray(next)) return { items: next.items, resourceVersion: String(next.version) };
    const version = Math.max(1, ...next.map(({ metadata }) => Number(metadata.resourceVersion)));
    return { items: next, resourceVersion: String(version) };
  };
  async function* watch(_kind: unknown, options: { resourceVersion: string; signal?: AbortSignal }): AsyncGenerator<unknown> {
    asked.push(`watch ${options.resourceVersion}`);
    while (!options.signal?.aborted) {
      const next = waiting.shift();
      if (next === undefined) {
        await new Promise<void>((resolve) => {
          wake = resolve;
          options.signal?.addEventListener('abort', () => resolve(), { once: true });
        });
      } else if (next.type === 'END') return;
      else if (next.type === 'FAIL') throw next.error;
      else yield next;
    }
  }
  return { lists, asked, say, drop: () => (waiting = []), client: { list, watch } as unknown as Client };
}

function following(client: Client) {
  const clock = fakeClock();
  const log = keptLog();
  const changes: Change[] = [];
  const stop = new AbortController();
  const nodes = informer(client, StorageNodes, { clock, log, random: () => 1 });
  const version = (object: Stored<StorageNode> | null): string =>
    object === null ? '-' : `${object.metadata.uid}@${object.metadata.resourceVersion}`;
  nodes.onChange((key, object, previous) => void changes.push(`${key}: ${version(previous)} → ${version(object)}`));
  const ended = nodes.start(stop.signal);
  return { clock, log, changes, nodes, stop, ended, take: () => changes.splice(0) };
}

test('it lists once, then follows the changes, and tells each of them in order', async () => {
  const server = script();
  server.lists.push([node('a', 3), node('b', 5)]);
  const { nodes, clock, take, stop, ended } = following(server.client);
  await nodes.synced;
  assert.deepEqual(take(), ['a: - → uid-a@3', 'b: - → uid-b@5']);
  server.say(
    { type: 'MODIFIED', object: node('a', 6) },
    { type: 'ADDED', object: node('c', 7) },
    { type: 'DELETED', object: node('b', 8) },
  );
  await clock.settle();
  assert.deepEqual(take(), ['a: uid-a@3 → uid-a@6', 'c: - → uid-c@7', 'b: uid-b@5 → -']);
  assert.deepEqual(
    nodes.list().map(({ metadata }) => metadata.name),
    ['a', 'c'],
  );
  assert.equal(nodes.get('b'), null);
  assert.equal(nodes.get('a')?.metadata.resourceVersion, '6');
  assert.deepEqual(server.asked, ['list', 'watch 5']);
  stop.abort();
  await ended;
});

test('a listener that comes late is told what is there; one that left is told nothing more', async () => {
  const server = script();
  server.lists.push([node('a', 3)]);
  const { nodes, clock, stop, ended } = following(server.client);
  await nodes.synced;
  const late: string[] = [];
  const leave = nodes.onChange((key) => void late.push(key));
  assert.deepEqual(late, ['a']);
  leave();
  server.say({ type: 'MODIFIED', object: node('a', 6) });
  await clock.settle();
  assert.deepEqual(late, ['a']);
  stop.abort();
  await ended;
});

test('a watch that ends is resumed from the last change or bookmark, without a new list', async () => {
  const server = script();
  server.lists.push([node('a', 3)]);
  const { clock, stop, ended } = following(server.client);
  await clock.settle();
  server.say({ type: 'MODIFIED', object: node('a', 6) }, { type: 'END' });
  await clock.settle();
  server.say({ type: 'BOOKMARK', resourceVersion: '40' }, { type: 'END' });
  await clock.settle();
  assert.deepEqual(server.asked, ['list', 'watch 3', 'watch 6', 'watch 40']);
  stop.abort();
  await ended;
});

test('when its version is too old it lists again at once, and tells only what is different', async () => {
  const server = script();
  server.lists.push([node('a', 3), node('b', 4), node('c', 5)], [node('a', 3), node('c', 50), node('d', 51)]);
  const { clock, take, stop, ended } = following(server.client);
  await clock.advance(5_000);
  take();
  server.say({ type: 'FAIL', error: new FlockError('Expired', 'too old') });
  await clock.settle();
  assert.deepEqual(take(), ['b: uid-b@4 → -', 'c: uid-c@5 → uid-c@50', 'd: - → uid-d@51']);
  assert.deepEqual(server.asked, ['list', 'watch 5', 'list', 'watch 51']);
  stop.abort();
  await ended;
});

test('an object that was made again under its name is told as gone and then new, by a watch and by a list', async () => {
  const server = script();
  server.lists.push([node('a', 3, 'first')], [node('a', 9, 'third')]);
  const { clock, take, stop, ended } = following(server.client);
  await clock.settle();
  server.say({ type: 'ADDED', object: node('a', 6, 'second') }, { type: 'DELETED', object: node('a', 7, 'first') });
  server.say({ type: 'FAIL', error: new FlockError('Expired', 'too old') });
  await clock.settle();
  assert.deepEqual(take(), ['a: - → first@3', 'a: first@3 → -', 'a: - → second@6', 'a: second@6 → -', 'a: - → third@9']);
  stop.abort();
  await ended;
});

test('a server that is away is asked again for ever, after 1, 2, 4 ... at most 30 s', async () => {
  const server = script();
  for (let n = 0; n < 8; n += 1) server.lists.push(new FlockError('Unavailable', 'away'));
  server.lists.push([node('a', 3)]);
  const { clock, nodes, log, stop, ended } = following(server.client);
  const counts: number[] = [];
  for (const ms of [999, 1, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
    await clock.advance(ms);
    counts.push(server.asked.length);
  }
  assert.deepEqual(counts, [1, 2, 3, 4, 5, 6, 7, 8]);
  await clock.advance(30_000);
  await nodes.synced;
  assert.equal(log.lines.filter(({ level }) => level === 'warn').length, 8);
  stop.abort();
  await ended;
});

test('a server that ends every watch at once, or calls every fresh version too old, is not asked without pause', async () => {
  const cases: [string, Happening][] = [
    ['ends', { type: 'END' }],
    ['expires', { type: 'FAIL', error: new FlockError('Expired', 'too old') }],
  ];
  for (const [name, happening] of cases) {
    const server = script();
    for (let n = 0; n < 500; n += 1) server.say(happening);
    const { clock, stop, ended } = following(server.client);
    await clock.advance(60_000);
    const watches = server.asked.filter((what) => what.startsWith('watch')).length;
    assert.ok(watches >= 5 && watches <= 9, `${name}: ${watches} watches in a minute`);
    stop.abort();
    await ended;
  }
});

test('it never goes back: older events and an older list are not believed, unless the server keeps saying so', async () => {
  const server = script();
  server.lists.push([node('a', 30)]);
  const { clock, nodes, take, log, stop, ended } = following(server.client);
  await clock.settle();
  server.say({ type: 'MODIFIED', object: node('a', 20) });
  await clock.settle();
  assert.equal(nodes.get('a')?.metadata.resourceVersion, '30');
  take();
  for (let n = 0; n < 5; n += 1) server.lists.push([node('a', 10)]);
  server.say({ type: 'FAIL', error: new FlockError('Expired', 'too old') });
  await clock.advance(14_999);
  assert.deepEqual(take(), []);
  await clock.advance(1);
  assert.deepEqual(take(), ['a: uid-a@30 → uid-a@10']);
  assert.match(log.lines.at(-1)?.message ?? '', /restored/u);
  stop.abort();
  await ended;
});

test('stopped before the first list came, it is never synced', async () => {
  const server = script();
  server.lists.push(new FlockError('Unavailable', 'away'));
  const { clock, nodes, stop, ended } = following(server.client);
  await clock.settle();
  stop.abort();
  await ended;
  await assert.rejects(nodes.synced, { reason: 'Unavailable' });
  assert.equal(clock.sleepers(), 0);
});

test('a listener that fails harms neither the others nor the view', async () => {
  const server = script();
  server.lists.push([node('a', 3)]);
  const clock = fakeClock();
  const log = keptLog();
  const nodes = informer(server.client, StorageNodes, { clock, log, random: () => 1 });
  const told: string[] = [];
  nodes.onChange(() => {
    throw new Error('broken');
  });
  nodes.onChange((key) => void told.push(key));
  const stop = new AbortController();
  const ended = nodes.start(stop.signal);
  await nodes.synced;
  assert.deepEqual(told, ['a']);
  assert.equal(log.lines[0]?.level, 'error');
  stop.abort();
  await ended;
});

test('over the registry, however the changes fall, the view ends up as the records are', async () => {
  const clock = fakeClock();
  let uids = 0;
  const uid = (): string => `00000000-0000-4000-8000-${String((uids += 1)).padStart(12, '0')}`;
  const registry = new Registry({ table: new MemoryTable(), clock, uid, window: 3 });
  const client = new LocalClient({ registry, clock });
  const { nodes, stop, ended } = following(client);
  const names = ['a', 'b', 'c'];
  for (let n = 0; n < 60; n += 1) {
    const name = names[(n * 7) % 3] ?? 'a';
    const present = await client.get(StorageNodes, name).catch(() => null);
    if (present === null) await client.create(StorageNodes, { apiVersion: GROUP_VERSION, kind: 'StorageNode', metadata: { name } });
    else if (n % 4 === 0) await client.delete(StorageNodes, name);
    else await client.patch(StorageNodes, name, { spec: { unschedulable: n % 2 === 0 } });
    if (n % 5 === 0) await clock.settle();
  }
  await clock.settle();
  const { items } = await client.list(StorageNodes);
  assert.deepEqual(
    new Map(nodes.list().map((item) => [item.metadata.name, item])),
    new Map(items.map((item) => [item.metadata.name, item])),
  );
  stop.abort();
  await ended;
});
