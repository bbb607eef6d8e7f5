import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlockError } from '../model/errors.ts';
import { SYSTEM_NAMESPACE } from '../model/meta.ts';
import { Leases, type Lease } from '../model/system.ts';
import { fakeClock, type FakeClock } from '../testing/fake-clock.ts';
import { keptLog } from '../testing/kept-log.ts';
import type { Client } from './client.ts';
import { heartbeat, leadWhenElected, nodeLease } from './election.ts';
import { LocalClient } from './local-client.ts';
import { Registry } from './registry.ts';
import { MemoryTable } from './table.ts';

function records(clock: FakeClock): Client {
  let uids = 0;
  const uid = (): string => `00000000-0000-4000-8000-${String((uids += 1)).padStart(12, '0')}`;
  return new LocalClient({ registry: new Registry({ table: new MemoryTable(), clock, uid }), clock });
}

type Fault = 'none' | 'away' | 'silent' | 'answersLost';

/** The same records over a line that can break: refuse, never answer, or do what was asked and lose the answer. */
function line(client: Client): { client: Client; set: (fault: Fault) => void } {
  let fault: Fault = 'none';
  const through = async (act: () => Promise<unknown>): Promise<unknown> => {
    if (fault === 'away') throw new FlockError('Unavailable', 'away');
    if (fault === 'silent') return new Promise(() => {});
    const answer = await act();
    if (fault === 'answersLost') throw new FlockError('Unavailable', 'the answer was lost');
    return answer;
  };
  const broken = new Proxy(client, {
    get: (target, name) => {
      const method = Reflect.get(target, name) as (...given: unknown[]) => Promise<unknown>;
      return (...given: unknown[]) => through(() => method.apply(target, given));
    },
  });
  return { client: broken, set: (next) => (fault = next) };
}

interface Candidate {
  leads: () => boolean;
  /** Monotonic ms of each begin and end of leading. */
  times: number[];
  stop: AbortController;
  done: Promise<void>;
  line: ReturnType<typeof line>;
}

/** All in whole numbers: no jitter. */
function candidate(client: Client, clock: FakeClock, identity: string, windDown = 0): Candidate {
  const own = line(client);
  const stop = new AbortController();
  let leading = false;
  const times: number[] = [];
  const lead = async (signal: AbortSignal): Promise<void> => {
    leading = true;
    times.push(clock.monotonic());
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
    if (windDown > 0) await clock.sleep(windDown);
    leading = false;
    times.push(clock.monotonic());
  };
  const done = leadWhenElected(
    { client: own.client, lease: 'controller', identity, clock, random: () => 0.5, log: keptLog() },
    stop.signal,
    lead,
  );
  return { leads: () => leading, times, stop, done, line: own };
}

const lease = (client: Client): Promise<Lease> => client.get(Leases, 'controller', SYSTEM_NAMESPACE);

test('of two candidates one leads, and the other follows as soon as it stops', async () => {
  const clock = fakeClock();
  const client = records(clock);
  const [a, b] = [candidate(client, clock, 'a'), candidate(client, clock, 'b')];
  await clock.advance(60_000);
  assert.deepEqual([a.leads(), b.leads()], [true, false]);
  assert.equal((await lease(client)).spec.holderIdentity, 'a');
  a.stop.abort();
  await a.done;
  assert.equal((await lease(client)).spec.holderIdentity, '');
  await clock.advance(2_000);
  assert.deepEqual([a.leads(), b.leads()], [false, true]);
  assert.equal((await lease(client)).spec.leaseTransitions, 1);
  b.stop.abort();
  await b.done;
  assert.equal(clock.sleepers(), 0);
});

for (const fault of ['away', 'silent'] as const) {
  test(`a leader whose server is ${fault} stops before another can take over, and comes back when it is free`, async () => {
    const clock = fakeClock();
    const client = records(clock);
    const [a, b] = [candidate(client, clock, 'a'), candidate(client, clock, 'b')];
    await clock.advance(20_000);
    a.line.set(fault);
    while (a.leads()) await clock.advance(500);
    assert.equal(b.leads(), false);
    const stopped = a.times.at(-1) ?? 0;
    assert.ok(stopped <= 30_000, `stopped at ${stopped}`);
    while (!b.leads()) await clock.advance(500);
    assert.ok((b.times[0] ?? 0) >= stopped + 5_000, `taken over at ${b.times[0]}`);
    a.line.set('none');
    await clock.advance(30_000);
    assert.deepEqual([a.leads(), b.leads()], [false, true]);
    b.stop.abort();
    await b.done;
    await clock.advance(2_000);
    assert.equal(a.leads(), true);
    a.stop.abort();
    await a.done;
  });
}

test('a record whose times are wrong is judged by how long it stood still here', async () => {
  for (const renewTime of ['1999-01-01T00:00:00.000000Z', '2099-01-01T00:00:00.000000Z']) {
    const clock = fakeClock();
    const client = records(clock);
    const metadata = { name: 'controller', namespace: SYSTEM_NAMESPACE };
    const spec = { holderIdentity: 'gone', leaseDurationSeconds: 15, renewTime, leaseTransitions: 6 };
    await client.create(Leases, { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec });
    const a = candidate(client, clock, 'a');
    await clock.advance(14_999);
    assert.equal(a.leads(), false);
    await clock.advance(1_001);
    assert.equal(a.leads(), true);
    assert.equal((await lease(client)).spec.leaseTransitions, 7);
    a.stop.abort();
    await a.done;
  }
});

test('renewals whose answers are lost for a moment do not end a reign', async () => {
  const clock = fakeClock();
  const client = records(clock);
  const a = candidate(client, clock, 'a');
  await clock.advance(10_000);
  a.line.set('answersLost');
  await clock.advance(6_000);
  a.line.set('none');
  await clock.advance(60_000);
  assert.deepEqual(a.times, [0]);
  a.stop.abort();
  await a.done;
});

test('a leader that sees another in its lease stops at once', async () => {
  const clock = fakeClock();
  const client = records(clock);
  const a = candidate(client, clock, 'a');
  await clock.advance(10_000);
  await client.patch(Leases, 'controller', { spec: { holderIdentity: 'thief' } }, { namespace: SYSTEM_NAMESPACE });
  await clock.advance(2_000);
  assert.equal(a.leads(), false);
  assert.equal((await lease(client)).spec.holderIdentity, 'thief');
  a.stop.abort();
  await a.done;
});

test('while a leader winds down its lease is renewed, and released only then', async () => {
  const clock = fakeClock();
  const client = records(clock);
  const [a, b] = [candidate(client, clock, 'a', 40_000), candidate(client, clock, 'b')];
  await clock.advance(10_000);
  a.stop.abort();
  await clock.advance(39_000);
  assert.deepEqual([a.leads(), b.leads()], [true, false]);
  await clock.advance(4_000);
  await a.done;
  assert.deepEqual([a.leads(), b.leads()], [false, true]);
  b.stop.abort();
  await b.done;
});

test('what the leader fails with is thrown on, and the lease is free', async () => {
  const clock = fakeClock();
  const client = records(clock);
  const lead = (): Promise<void> => Promise.reject(new Error('broken'));
  const options = { client, lease: 'controller', identity: 'a', clock, random: () => 0.5, log: keptLog() };
  await assert.rejects(leadWhenElected(options, new AbortController().signal, lead), /broken/u);
  assert.equal((await lease(client)).spec.holderIdentity, '');
});

test('at no time two lead, however their lines break', async () => {
  const clock = fakeClock();
  const client = records(clock);
  const all = ['a', 'b', 'c'].map((identity) => candidate(client, clock, identity));
  const faults: Fault[] = ['none', 'away', 'none', 'silent', 'answersLost'];
  let seed = 7;
  const next = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below;
  let led = 0;
  for (let n = 0; n < 400; n += 1) {
    all[next(3)]?.line.set(faults[next(faults.length)] ?? 'none');
    await clock.advance(500 + next(4_000));
    const leaders = all.filter((one) => one.leads()).length;
    assert.ok(leaders <= 1, `${leaders} lead after ${n} steps`);
    led += leaders;
  }
  assert.ok(led > 100, `somebody led in ${led} of 400 steps`);
  for (const one of all) one.stop.abort();
  await clock.advance(60_000);
  await Promise.all(all.map((one) => one.done));
});

test("a node's heartbeat makes and renews its lease, and is fresh only while that succeeded within its duration", async () => {
  const clock = fakeClock();
  const client = records(clock);
  const own = line(client);
  const beats = heartbeat({ client: own.client, node: 'node-1', clock, random: () => 0.5, log: keptLog() });
  const renewed = async (): Promise<string | undefined> => (await client.get(Leases, nodeLease('node-1'), SYSTEM_NAMESPACE)).spec.renewTime;
  const stop = new AbortController();
  assert.equal(beats.isFresh(), false);
  const done = beats.start(stop.signal);
  await clock.settle();
  assert.equal(beats.isFresh(), true);
  assert.equal(await renewed(), '2026-01-01T00:00:00.000000Z');
  await clock.advance(10_000);
  assert.equal(await renewed(), '2026-01-01T00:00:10.000000Z');
  for (const fault of ['away', 'silent'] as const) {
    own.set(fault);
    await clock.advance(29_000);
    assert.equal(beats.isFresh(), true, fault);
    await clock.advance(11_000);
    assert.equal(beats.isFresh(), false, fault);
    own.set('none');
    await clock.advance(10_000);
    assert.equal(beats.isFresh(), true, fault);
  }
  stop.abort();
  await done;
  assert.equal(clock.sleepers(), 0);
});
