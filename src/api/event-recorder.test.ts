import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlockError } from '../model/errors.ts';
import { Events, type Event } from '../model/system.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import { keptLog } from '../testing/kept-log.ts';
import type { Client } from './client.ts';
import { eventRecorder, type EventSubject } from './event-recorder.ts';
import { LocalClient } from './local-client.ts';
import { Registry } from './registry.ts';
import { MemoryTable } from './table.ts';

const volume: EventSubject = {
  apiVersion: 'flock.dev/v1alpha1',
  kind: 'Volume',
  metadata: { name: 'db', uid: '00000000-0000-4000-8000-0000000000db', resourceVersion: '7' },
};

function recording() {
  const clock = fakeClock();
  const log = keptLog();
  let uids = 0;
  const uid = (): string => `00000000-0000-4000-8000-${String((uids += 1)).padStart(12, '0')}`;
  const records: Client = new LocalClient({ registry: new Registry({ table: new MemoryTable(), clock, uid }), clock });
  let away = false;
  const client = new Proxy(records, {
    get: (target, name) => {
      if (away) return () => Promise.reject(new FlockError('Unavailable', 'away'));
      const method = Reflect.get(target, name) as (...given: unknown[]) => Promise<unknown>;
      return (...given: unknown[]) => method.apply(target, given);
    },
  });
  const recorder = eventRecorder({ client, component: 'flock-agent', instance: 'node-1', clock, log });
  const events = async (): Promise<Event[]> => (await records.list(Events)).items;
  return { clock, log, records, recorder, events, setAway: (value: boolean) => (away = value) };
}

test('an event about a cluster-scoped object is in namespace default, complete as kubectl describe looks for it', async () => {
  const { recorder, events, records } = recording();
  recorder.record(volume, 'Warning', 'NoSpace', '40 of 100 GiB are free');
  await recorder.flush();
  const [event] = await events();
  assert.equal(event?.metadata.namespace, 'default');
  assert.match(event.metadata.name, /^db\.[0-9a-f]{16}$/u);
  const { apiVersion, kind, metadata } = volume;
  assert.deepEqual(event.involvedObject, { apiVersion, kind, ...metadata });
  assert.equal(event.count, 1);
  assert.equal(event.type, 'Warning');
  assert.deepEqual(event.source, { component: 'flock-agent', host: 'node-1' });
  const fieldSelector =
    'involvedObject.name=db,involvedObject.namespace=,involvedObject.kind=Volume,involvedObject.uid=00000000-0000-4000-8000-0000000000db';
  assert.equal((await records.list(Events, { fieldSelector })).items.length, 1);
});

test("an event about a namespaced object is in the object's namespace", async () => {
  const { recorder, events } = recording();
  recorder.record({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', namespace: 'shop' } }, 'Normal', 'Moved', 'here');
  await recorder.flush();
  const [event] = await events();
  assert.equal(event?.metadata.namespace, 'shop');
  assert.equal(event.involvedObject.namespace, 'shop');
});

test('the same thing said again within ten minutes counts up, later it is a new event', async () => {
  const { recorder, events, clock } = recording();
  const say = async (): Promise<void> => {
    recorder.record(volume, 'Normal', 'Waiting', 'for room');
    await recorder.flush();
  };
  await say();
  recorder.record(volume, 'Normal', 'Waiting', 'for room');
  await say();
  await clock.advance(60_000);
  await say();
  assert.deepEqual(
    (await events()).map(({ count, firstTimestamp, lastTimestamp }) => ({ count, firstTimestamp, lastTimestamp })),
    [{ count: 4, firstTimestamp: '2026-01-01T00:00:00.000Z', lastTimestamp: '2026-01-01T00:01:00.000Z' }],
  );
  await clock.advance(600_000);
  await say();
  assert.equal((await events()).length, 2);
});

test('an event that the server forgot is made again with its count', async () => {
  const { recorder, events, records } = recording();
  recorder.record(volume, 'Normal', 'Waiting', 'for room');
  await recorder.flush();
  const [event] = await events();
  await records.delete(Events, event?.metadata.name ?? '', { namespace: 'default' });
  recorder.record(volume, 'Normal', 'Waiting', 'for room');
  await recorder.flush();
  assert.equal((await events())[0]?.count, 2);
});

test('percent signs are written out, long messages and names are cut', async () => {
  const cases: [string, string][] = [
    ['80% full', '80 percent full'],
    ['5 % of 100%', '5 percent of 100 percent'],
  ];
  for (const [message, expected] of cases) {
    const { recorder, events } = recording();
    recorder.record(volume, 'Normal', 'R', message);
    await recorder.flush();
    assert.equal((await events())[0]?.message, expected);
  }
  const { recorder, events } = recording();
  const name = `${'a'.repeat(235)}.${'b'.repeat(17)}`;
  recorder.record({ ...volume, metadata: { name } }, 'Normal', 'R', 'x'.repeat(5_000));
  await recorder.flush();
  const [event] = await events();
  assert.equal(event?.message.length, 1_024);
  assert.equal(event.metadata.name, `${'a'.repeat(235)}.${event.metadata.name.slice(-16)}`);
  assert.equal(event.involvedObject.name, name);
});

test('a server that is away for a moment gets the events later, with their counts', async () => {
  const { recorder, events, clock, setAway, log } = recording();
  setAway(true);
  recorder.record(volume, 'Normal', 'Waiting', 'for room');
  await clock.advance(500);
  recorder.record(volume, 'Normal', 'Waiting', 'for room');
  recorder.record(volume, 'Normal', 'Moved', 'to node-2');
  await clock.advance(2_500);
  setAway(false);
  await clock.advance(60_000);
  await recorder.flush();
  assert.deepEqual(
    (await events()).map(({ reason, count }) => [reason, count]).toSorted((one, other) => String(one[0]).localeCompare(String(other[0]))),
    [
      ['Moved', 1],
      ['Waiting', 2],
    ],
  );
  assert.deepEqual(log.lines, []);
});

test('a server that stays away costs the events, the log says which, and the caller never hears of it', async () => {
  const { recorder, events, clock, setAway, log } = recording();
  setAway(true);
  for (let n = 0; n < 400; n += 1) recorder.record(volume, 'Normal', `Reason${n}`, 'again');
  await clock.advance(600_000);
  await recorder.flush();
  assert.deepEqual(await events(), []);
  assert.equal(log.lines.filter(({ message }) => message.includes('too many wait')).length, 400 - 256);
  assert.equal(log.lines.filter(({ message }) => message.includes('was lost')).length, 256);
});

test('more than fifty at once are written at five a second', async () => {
  const { recorder, events, clock } = recording();
  for (let n = 0; n < 100; n += 1) recorder.record(volume, 'Normal', `Reason${n}`, 'x');
  await clock.settle();
  assert.equal((await events()).length, 50);
  await clock.advance(4_000);
  assert.equal((await events()).length, 70);
  await clock.advance(6_000);
  await recorder.flush();
  assert.equal((await events()).length, 100);
});

test('who stops in the middle of a pause after a failure does not wait for its end', async () => {
  const { recorder, clock, setAway, log } = recording();
  setAway(true);
  recorder.record(volume, 'Normal', 'Waiting', 'x');
  await clock.advance(500);
  await recorder.flush();
  assert.match(log.lines.at(-1)?.message ?? '', /an event was lost/u);
});

test('who stops does not wait for the rate, nor for a server that is away', async () => {
  const { recorder, events, setAway, log } = recording();
  for (let n = 0; n < 100; n += 1) recorder.record(volume, 'Normal', `Reason${n}`, 'x');
  await recorder.flush();
  assert.equal((await events()).length, 100);
  setAway(true);
  recorder.record(volume, 'Normal', 'Stopped', 'x');
  await recorder.flush();
  assert.match(log.lines.at(-1)?.message ?? '', /an event was lost/u);
});
