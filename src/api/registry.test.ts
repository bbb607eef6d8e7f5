// What the registry promises beyond the contract: its window, dry runs, unknown fields, restarts, and that a watch never lies.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { isReason } from '../model/errors.ts';
import { GROUP_VERSION, type ApiObject, type Stored } from '../model/meta.ts';
import { Events, type Event } from '../model/system.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import { fakeClock, type FakeClock } from '../testing/fake-clock.ts';
import { LocalClient } from './local-client.ts';
import { Registry } from './registry.ts';
import { MemoryTable, type Table } from './table.ts';

function made({ table = new MemoryTable(), window = 2000 }: { table?: Table; window?: number } = {}): {
  registry: Registry;
  clock: FakeClock;
} {
  const clock = fakeClock();
  return { registry: new Registry({ table, clock, uid: randomUUID, window }), clock };
}

const volume = (name: string, labels: Record<string, string> = {}): Volume => ({
  apiVersion: GROUP_VERSION,
  kind: 'Volume',
  metadata: { name, labels },
  spec: { size: '1Gi' },
});

const event = (name: string): Event => ({
  apiVersion: 'v1',
  kind: 'Event',
  metadata: { name, namespace: 'default' },
  involvedObject: { kind: 'Volume', name: 'db' },
  type: 'Normal',
  reason: 'Told',
  message: 'it happened',
});

const names = (objects: Stored<ApiObject>[]): string[] => objects.map(({ metadata }) => metadata.name);

describe('the window of changes', () => {
  it('ends: who asks for what is forgotten must list again', () => {
    const { registry } = made({ window: 2 });
    registry.create(Volumes, volume('db'));
    const { resourceVersion } = registry.list(Volumes);
    for (const name of ['a', 'b', 'c', 'd']) registry.create(Volumes, volume(name));
    assert.throws(
      () => registry.watch(Volumes, { resourceVersion }, () => {}),
      (error) => isReason(error, 'Expired') && /too old resource version: 1 \(\d+\)/u.test(error.message),
    );
  });

  it('ends for a list that is read page by page too', () => {
    const { registry } = made({ window: 2 });
    for (const name of ['a', 'b']) registry.create(Volumes, volume(name));
    const page = registry.list(Volumes, { limit: 1 });
    for (const name of ['c', 'd', 'e', 'f']) registry.create(Volumes, volume(name));
    assert.throws(() => registry.list(Volumes, { limit: 1, continue: page.continue ?? '' }), { reason: 'Expired' });
  });

  it('of one kind is not used up by another', () => {
    const { registry } = made({ window: 2 });
    const { resourceVersion } = registry.create(Volumes, volume('db')).metadata;
    for (let count = 0; count < 10; count += 1) registry.create(Events, event(`e${count}`));
    assert.doesNotThrow(() => registry.watch(Volumes, { resourceVersion }, () => {})());
  });

  it('begins with a restart: only who saw the newest version may go on', () => {
    const table = new MemoryTable();
    const { registry } = made({ table });
    const old = registry.create(Volumes, volume('a')).metadata.resourceVersion;
    const { resourceVersion } = registry.create(Volumes, volume('b')).metadata;
    const again = made({ table }).registry;
    assert.deepEqual(names(again.list(Volumes).items), ['a', 'b']);
    assert.throws(() => again.watch(Volumes, { resourceVersion: old }, () => {}), { reason: 'Expired' });
    const seen: string[] = [];
    again.watch(Volumes, { resourceVersion }, ({ object }) => seen.push(object.metadata.name));
    again.create(Volumes, volume('c'));
    assert.deepEqual(seen, ['c']);
  });

  it('does not reach into the future', () => {
    const { registry } = made();
    assert.throws(() => registry.watch(Volumes, { resourceVersion: '7' }, () => {}), { reason: 'Expired' });
  });

  for (const version of ['soon', '-1', '1.5', '9'.repeat(30)]) {
    it(`knows no version ${version}`, () => {
      assert.throws(() => made().registry.watch(Volumes, { resourceVersion: version }, () => {}), { reason: 'Invalid' });
    });
  }
});

describe('a dry run', () => {
  it('answers like the write, and writes nothing', () => {
    const { registry } = made();
    const dry = { dryRun: true };
    assert.equal(registry.create(Volumes, volume('new'), dry).spec.filesystem, 'ext4');
    assert.deepEqual(registry.list(Volumes).items, []);
    const { metadata } = registry.create(Volumes, volume('db'));
    const { version } = registry;
    assert.equal(registry.patch(Volumes, 'db', { spec: { size: '2Gi' } }, dry).spec.size, '2Gi');
    assert.throws(() => registry.patch(Volumes, 'db', { spec: { size: '0' } }, dry), { reason: 'Invalid' });
    assert.equal(registry.delete(Volumes, 'db', dry).metadata.uid, metadata.uid);
    assert.equal(registry.get(Volumes, 'db').metadata.resourceVersion, metadata.resourceVersion);
    assert.equal(registry.version, version);
  });
});

describe('a write', () => {
  it('tells which fields were dropped', () => {
    const { registry } = made();
    const told: string[] = [];
    const odd = {
      ...volume('db'),
      spec: { size: '1Gi', colour: 'red' },
      extra: {},
      metadata: { name: 'db', managedFields: [], clusterName: 'x' },
    };
    registry.create(Volumes, odd, { unknownFields: (paths) => told.push(...paths) });
    assert.deepEqual(told.toSorted(), ['extra', 'metadata.clusterName', 'spec.colour']);
  });

  it('can be refused with what is there and what would be', () => {
    const { registry } = made();
    registry.create(Volumes, volume('db'));
    const asked: unknown[] = [];
    const admit = (verb: string, old: ApiObject | null, next: ApiObject | null): void => {
      asked.push([verb, (old as Volume | null)?.spec.size, (next as Volume | null)?.spec.size]);
      throw new Error('no');
    };
    assert.throws(() => registry.create(Volumes, volume('other'), { admit }), /no/u);
    assert.throws(() => registry.patch(Volumes, 'db', { spec: { size: '2Gi' } }, { admit }), /no/u);
    assert.throws(() => registry.delete(Volumes, 'db', { admit }), /no/u);
    assert.deepEqual(asked, [
      ['create', undefined, '1Gi'],
      ['update', '1Gi', '2Gi'],
      ['delete', '1Gi', undefined],
    ]);
    assert.deepEqual(names(registry.list(Volumes).items), ['db']);
  });

  it('of a status to a kind that has none of its own is refused', () => {
    const { registry } = made();
    registry.create(Events, event('e'));
    const options = { namespace: 'default', subresource: 'status' as const };
    assert.throws(() => registry.patch(Events, 'e', { message: 'x' }, options), { reason: 'NotFound' });
  });

  it('of a patch that is no object is refused', () => {
    const { registry } = made();
    registry.create(Volumes, volume('db'));
    assert.throws(() => registry.patch(Volumes, 'db', [] as never), { reason: 'Invalid' });
  });
});

describe('Events', () => {
  it('go after an hour in which nobody wrote them', async () => {
    const { registry, clock } = made();
    registry.create(Events, event('old'));
    registry.create(Events, event('counted'));
    await clock.advance(1_800_000);
    registry.patch(Events, 'counted', { count: 2 }, { namespace: 'default' });
    const gone: string[] = [];
    registry.watch(Events, { resourceVersion: registry.version }, ({ type, object }) => gone.push(`${type} ${object.metadata.name}`));
    await clock.advance(1_800_000);
    registry.create(Events, event('new'));
    assert.deepEqual(names(registry.list(Events).items), ['counted', 'new']);
    assert.deepEqual(gone, ['ADDED new', 'DELETED old']);
  });
});

describe('a local client', () => {
  it('shares no object with the registry', async () => {
    const { registry, clock } = made();
    const client = new LocalClient({ registry, clock });
    const given = volume('db', { a: 'b' });
    const first = await client.create(Volumes, given);
    given.spec.size = '9Gi';
    first.spec.size = '8Gi';
    (await client.get(Volumes, 'db')).metadata.labels = {};
    (await client.list(Volumes)).items.pop();
    const now = await client.get(Volumes, 'db');
    assert.equal(now.spec.size, '1Gi');
    assert.deepEqual(now.metadata.labels, { a: 'b' });
  });

  it('tells the version now and then while nothing happens, and never ahead of an event', async () => {
    const { registry, clock } = made();
    const client = new LocalClient({ registry, clock, bookmarkEvery: 1_000 });
    const end = new AbortController();
    const seen: string[] = [];
    const watching = (async (): Promise<void> => {
      for await (const told of client.watch(Volumes, { resourceVersion: '0', signal: end.signal })) {
        seen.push(told.type === 'BOOKMARK' ? `BOOKMARK ${told.resourceVersion}` : `${told.type} ${told.object.metadata.name}`);
      }
    })();
    await clock.advance(1_000);
    registry.create(Volumes, volume('a'));
    registry.create(Events, event('e'));
    await clock.advance(1_500);
    end.abort();
    await watching;
    assert.deepEqual(seen, ['BOOKMARK 0', 'ADDED a', 'BOOKMARK 2']);
    assert.equal(clock.sleepers(), 0);
  });
});

const write = fc.oneof(
  fc.record({ act: fc.constant('create' as const), name: fc.constantFrom('a', 'b', 'c'), tier: fc.constantFrom('gold', 'silver') }),
  fc.record({ act: fc.constant('label' as const), name: fc.constantFrom('a', 'b', 'c'), tier: fc.constantFrom('gold', 'silver', null) }),
  fc.record({ act: fc.constant('hold' as const), name: fc.constantFrom('a', 'b', 'c'), by: fc.constantFrom('flock.dev/x', null) }),
  fc.record({ act: fc.constant('delete' as const), name: fc.constantFrom('a', 'b', 'c') }),
);

type Wanted = typeof write extends fc.Arbitrary<infer W> ? W : never;

function attempt(registry: Registry, wanted: Wanted): void {
  try {
    switch (wanted.act) {
      case 'create':
        registry.create(Volumes, volume(wanted.name, { tier: wanted.tier }));
        break;
      case 'label':
        registry.patch(Volumes, wanted.name, { metadata: { labels: { tier: wanted.tier } } });
        break;
      case 'hold':
        registry.patch(Volumes, wanted.name, { metadata: { finalizers: wanted.by === null ? null : [wanted.by] } });
        break;
      case 'delete':
        registry.delete(Volumes, wanted.name);
        break;
    }
  } catch (error) {
    assert.ok(isReason(error, 'NotFound', 'AlreadyExists', 'Invalid'), String(error));
  }
}

describe('a watch', () => {
  it('from any list on ends in what a new list says, through any selector and any restart of the watch', () => {
    fc.assert(
      fc.property(
        fc.array(write, { maxLength: 12 }),
        fc.array(write, { maxLength: 25 }),
        fc.constantFrom('', 'tier=gold', '!tier'),
        (before, later, labelSelector) => {
          const { registry } = made();
          for (const wanted of before) attempt(registry, wanted);
          const { items, resourceVersion } = registry.list(Volumes, { labelSelector });
          const live = new Map(items.map((item) => [item.metadata.name, item]));
          const replayed = new Map(live);
          const into =
            (state: Map<string, Stored<Volume>>) =>
            ({ type, object }: { type: string; object: Stored<Volume> }): void => {
              assert.equal(state.has(object.metadata.name), type !== 'ADDED', `${type} ${object.metadata.name}`);
              if (type === 'DELETED') state.delete(object.metadata.name);
              else state.set(object.metadata.name, object);
            };
          registry.watch(Volumes, { resourceVersion, labelSelector }, into(live));
          for (const wanted of later) attempt(registry, wanted);
          registry.watch(Volumes, { resourceVersion, labelSelector }, into(replayed));
          const now = registry.list(Volumes, { labelSelector }).items;
          for (const state of [live, replayed]) {
            assert.deepEqual(
              [...state.values()].toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1)),
              now,
            );
          }
        },
      ),
    );
  });

  it('has a list for every moment that is still in the window', () => {
    fc.assert(
      fc.property(fc.array(write, { maxLength: 20 }), fc.array(write, { maxLength: 20 }), (before, later) => {
        const { registry } = made();
        for (const name of ['a', 'b', 'c']) registry.create(Volumes, volume(name));
        for (const wanted of before) attempt(registry, wanted);
        const whole = registry.list(Volumes);
        const first = registry.list(Volumes, { limit: 1 });
        for (const wanted of later) attempt(registry, wanted);
        const rest = first.continue ? registry.list(Volumes, { continue: first.continue }).items : [];
        assert.deepEqual([...first.items, ...rest], whole.items);
      }),
    );
  });
});
