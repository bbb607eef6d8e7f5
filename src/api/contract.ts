// What every server of the records must do, as tests: they run against the registry in memory, over SQLite and HTTP, and against a real
// kube-apiserver, so they only say what that one does too. Objects get names of this run alone, and are removed again.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { isReason, type Reason } from '../model/errors.ts';
import type { Kind } from '../model/kind.ts';
import { GROUP_VERSION, type ApiObject, type Stored } from '../model/meta.ts';
import { Moves, type Move } from '../model/move.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { Events, Leases, type Event, type Lease } from '../model/system.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import type { Client, WatchEvent, WatchOptions } from './client.ts';

export interface ContractHost {
  client: Client;
  /** A namespace that exists. */
  namespace: string;
  close(): Promise<void> | void;
}

const FINALIZER = 'flock.dev/contract';
const LABEL = 'flock.dev/contract';
const PATIENCE_MS = 20_000;

const refusedAs =
  (reason: Reason, message?: RegExp) =>
  (error: unknown): true => {
    assert.ok(isReason(error, reason), `expected ${reason}, got ${String(error)}`);
    if (message) assert.match(error.message, message);
    return true;
  };

/** The world of one suite: names, objects, and what has to be removed again. */
class Scene {
  readonly run = randomBytes(4).toString('hex');
  readonly #made: { kind: Kind; name: string; namespace: string | undefined }[] = [];
  readonly host: ContractHost;
  #count = 0;

  constructor(host: ContractHost) {
    this.host = host;
  }

  get client(): Client {
    return this.host.client;
  }

  /** A label value that only one test's objects carry. */
  mark(): string {
    return `${this.run}-${(this.#count += 1)}`;
  }

  name(stem = 'v'): string {
    return `${stem}-${this.mark()}`;
  }

  async make<T extends ApiObject>(kind: Kind<T>, object: T): Promise<Stored<T>> {
    const made = await this.client.create(kind, object);
    this.#made.push({ kind: kind as Kind, name: made.metadata.name, namespace: made.metadata.namespace });
    return made;
  }

  volume(labels: Record<string, string> = {}, more: Partial<Volume['spec']> = {}): Volume {
    return { apiVersion: GROUP_VERSION, kind: 'Volume', metadata: { name: this.name(), labels }, spec: { size: '1Gi', ...more } };
  }

  lease(): Lease {
    const { namespace } = this.host;
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: this.name('lease'), namespace },
      spec: { holderIdentity: 'a' },
    };
  }

  event(about: string, type: Event['type'], reason: string): Event {
    const { namespace } = this.host;
    const involvedObject = { apiVersion: GROUP_VERSION, kind: 'Volume', namespace, name: about, uid: `uid-of-${about}` };
    return {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: this.name('event'), namespace },
      involvedObject,
      type,
      reason,
      message: 'told',
    };
  }

  async clear(): Promise<void> {
    for (const { kind, name, namespace } of this.#made) {
      const place = namespace === undefined ? {} : { namespace };
      try {
        await this.client.patch(kind, name, { metadata: { finalizers: null } }, place);
        await this.client.delete(kind, name, place);
      } catch (error) {
        if (!isReason(error, 'NotFound')) throw error;
      }
    }
  }

  /** The first `count` events but bookmarks, then the watch is ended. */
  async watched<T extends ApiObject>(kind: Kind<T>, options: WatchOptions, count: number): Promise<[string, Stored<T>][]> {
    const found: [string, Stored<T>][] = [];
    const end = new AbortController();
    for await (const event of within(this.client.watch(kind, { ...options, signal: end.signal }), end)) {
      if (event.type === 'BOOKMARK') continue;
      found.push([event.type, event.object]);
      if (found.length === count) end.abort();
    }
    return found;
  }
}

/** The same events; a watch that stays silent for too long is ended, so that the test tells what is missing. */
async function* within<T extends ApiObject>(events: AsyncIterable<WatchEvent<T>>, end: AbortController): AsyncGenerator<WatchEvent<T>> {
  const timer = setTimeout(() => end.abort(), PATIENCE_MS);
  try {
    yield* events;
  } catch (error) {
    if (!end.signal.aborted) throw error;
  } finally {
    clearTimeout(timer);
  }
}

type Open = () => Promise<ContractHost>;

/** Declares the suite. `open` gives a client of a server that has our kinds, and a namespace there. */
export function clientContract(title: string, open: Open): void {
  describe(title, () => {
    let scene: Scene;
    before(async () => {
      scene = new Scene(await open());
    });
    after(async () => {
      await scene.clear();
      await scene.host.close();
    });
    const now = (): Scene => scene;
    creating(now);
    reading(now);
    replacing(now);
    patching(now);
    statusWrites(now);
    deleting(now);
    rules(now);
    badInput(now);
    watching(now);
    systemKinds(now);
  });
}

type Now = () => Scene;

function creating(now: Now): void {
  describe('create', () => {
    it('gives an object its identity, version, time and generation', async () => {
      const { metadata } = await now().make(Volumes, now().volume());
      assert.match(metadata.uid, /^[0-9a-f-]{36}$/u);
      assert.match(metadata.resourceVersion, /^[0-9]+$/u);
      assert.match(metadata.creationTimestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/u);
      assert.equal(metadata.generation, 1);
    });

    it('fills in defaults and drops fields that nobody knows', async () => {
      const volume = now().volume();
      const odd = { ...volume, spec: { ...volume.spec, colour: 'red' }, extra: 1 };
      const made = await now().make(Volumes, odd as Volume);
      assert.deepEqual(made.spec, { size: '1Gi', volumeMode: 'Filesystem', filesystem: 'ext4' });
      assert.equal('extra' in made, false);
    });

    it('takes a null for a field that is not said', async () => {
      const { metadata, ...volume } = now().volume();
      const spec = { size: '1Gi', pool: null, filesystem: null } as unknown as Volume['spec'];
      const made = await now().make(Volumes, { ...volume, metadata, spec });
      assert.deepEqual(made.spec, { size: '1Gi', volumeMode: 'Filesystem', filesystem: 'ext4' });
    });

    it('drops a status: that is the subresource’s', async () => {
      const made = await now().make(Volumes, { ...now().volume(), status: { phase: 'Available' } });
      assert.equal(made.status, undefined);
    });

    it('ignores an identity that the client made up', async () => {
      const volume = now().volume();
      const uid = '00000000-0000-4000-8000-000000000000';
      const made = await now().make(Volumes, { ...volume, metadata: { ...volume.metadata, uid, generation: 7 } });
      assert.notEqual(made.metadata.uid, uid);
      assert.equal(made.metadata.generation, 1);
    });

    it('makes up a name that begins with generateName', async () => {
      const { spec } = now().volume();
      const generateName = `${now().name('generated')}-`;
      const first = await now().make(Volumes, {
        apiVersion: GROUP_VERSION,
        kind: 'Volume',
        metadata: { generateName } as Volume['metadata'],
        spec,
      });
      const second = await now().make(Volumes, {
        apiVersion: GROUP_VERSION,
        kind: 'Volume',
        metadata: { generateName } as Volume['metadata'],
        spec,
      });
      assert.ok(first.metadata.name.startsWith(generateName) && first.metadata.name.length > generateName.length);
      assert.notEqual(first.metadata.name, second.metadata.name);
    });

    it('refuses a name that is taken', async () => {
      const volume = now().volume();
      await now().make(Volumes, volume);
      await assert.rejects(now().client.create(Volumes, volume), refusedAs('AlreadyExists', new RegExp(volume.metadata.name, 'u')));
    });

    it('refuses an object with a resourceVersion', async () => {
      const volume = now().volume();
      const stale = { ...volume, metadata: { ...volume.metadata, resourceVersion: '1' } };
      await assert.rejects(now().client.create(Volumes, stale), /resourceVersion should not be set/u);
    });

    it('refuses an object of another kind', async () => {
      const other = { ...now().volume(), kind: 'Move' };
      await assert.rejects(now().client.create(Volumes, other), refusedAs('Invalid'));
    });
  });
}

function reading(now: Now): void {
  const three = async (): Promise<string> => {
    const mark = now().mark();
    for (const tier of ['gold', 'silver', 'bronze']) await now().make(Volumes, now().volume({ [LABEL]: mark, tier }));
    return mark;
  };

  describe('get and list', () => {
    it('says NotFound with the name of what is missing', async () => {
      const name = now().name();
      await assert.rejects(now().client.get(Volumes, name), refusedAs('NotFound', new RegExp(name, 'u')));
    });

    it('lists by name, in order, with the version to watch from', async () => {
      const mark = await three();
      const { items, resourceVersion } = await now().client.list(Volumes, { labelSelector: `${LABEL}=${mark}` });
      const names = items.map(({ metadata }) => metadata.name);
      assert.equal(names.length, 3);
      assert.deepEqual(names, names.toSorted());
      assert.match(resourceVersion, /^[0-9]+$/u);
    });

    it('gives pages that are one list of one moment, whatever happens between them', async () => {
      const mark = await three();
      const labelSelector = `${LABEL}=${mark}`;
      const whole = await now().client.list(Volumes, { labelSelector });
      const first = await now().client.list(Volumes, { labelSelector, limit: 2 });
      assert.equal(first.items.length, 2);
      assert.ok(first.continue);
      const last = whole.items[2];
      assert.ok(last);
      await now().client.patch(Volumes, last.metadata.name, { spec: { size: '2Gi' } });
      await now().make(Volumes, now().volume({ [LABEL]: mark }));
      const second = await now().client.list(Volumes, { labelSelector, limit: 2, continue: first.continue });
      assert.deepEqual([...first.items, ...second.items], whole.items);
      assert.equal(second.continue, undefined);
      assert.equal(second.resourceVersion, first.resourceVersion);
    });

    it('refuses a continue token that is none', async () => {
      await assert.rejects(now().client.list(Volumes, { limit: 1, continue: 'no token' }), refusedAs('Invalid', /continue/u));
    });

    for (const [selector, expected] of [
      ['tier=gold', ['gold']],
      ['tier==gold', ['gold']],
      ['tier!=gold', ['bronze', 'silver']],
      ['tier in (gold, silver)', ['gold', 'silver']],
      ['tier notin (gold,silver)', ['bronze']],
      ['tier', ['bronze', 'gold', 'silver']],
      ['!tier', []],
      ['other!=x', ['bronze', 'gold', 'silver']],
      ['other notin (x)', ['bronze', 'gold', 'silver']],
    ] as const) {
      it(`selects by labels: ${selector}`, async () => {
        const mark = await three();
        const { items } = await now().client.list(Volumes, { labelSelector: `${LABEL}=${mark},${selector}` });
        assert.deepEqual(items.map(({ metadata }) => metadata.labels?.['tier'] ?? '').toSorted(), expected);
      });
    }

    it('refuses a label selector that makes no sense', async () => {
      await assert.rejects(now().client.list(Volumes, { labelSelector: 'a in b' }), refusedAs('Invalid'));
    });

    it('selects by metadata.name', async () => {
      const { metadata } = await now().make(Volumes, now().volume());
      const { items } = await now().client.list(Volumes, { fieldSelector: `metadata.name=${metadata.name}` });
      assert.deepEqual(
        items.map((item) => item.metadata.uid),
        [metadata.uid],
      );
    });

    it('refuses a field selector that the kind does not have', async () => {
      await assert.rejects(now().client.list(Volumes, { fieldSelector: 'spec.size=1Gi' }), refusedAs('Invalid', /spec\.size/u));
    });
  });
}

function replacing(now: Now): void {
  describe('replace', () => {
    it('is a compare-and-swap: of two writers of one version one wins', async () => {
      const made = await now().make(Volumes, now().volume());
      const next = (size: string): Stored<Volume> => ({ ...made, spec: { ...made.spec, size } });
      const outcomes = await Promise.allSettled([now().client.replace(Volumes, next('2Gi')), now().client.replace(Volumes, next('3Gi'))]);
      assert.deepEqual(outcomes.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
      const lost = outcomes.find((outcome) => outcome.status === 'rejected');
      refusedAs('Conflict', /the object has been modified; please apply your changes to the latest version and try again/u)(lost?.reason);
    });

    it('needs a resourceVersion', async () => {
      const made = await now().make(Volumes, now().volume());
      const { resourceVersion: _, ...metadata } = made.metadata;
      const blind = { ...made, metadata } as Stored<Volume>;
      await assert.rejects(now().client.replace(Volumes, blind), refusedAs('Invalid', /must be specified for an update/u));
    });

    it('counts a generation for a changed spec, not for changed labels', async () => {
      const made = await now().make(Volumes, now().volume());
      const labelled = await now().client.replace(Volumes, { ...made, metadata: { ...made.metadata, labels: { a: 'b' } } });
      assert.equal(labelled.metadata.generation, 1);
      assert.notEqual(labelled.metadata.resourceVersion, made.metadata.resourceVersion);
      const grown = await now().client.replace(Volumes, { ...labelled, spec: { ...labelled.spec, size: '2Gi' } });
      assert.equal(grown.metadata.generation, 2);
    });

    it('keeps the version when nothing changes', async () => {
      const made = await now().make(Volumes, now().volume());
      const again = await now().client.replace(Volumes, made);
      assert.equal(again.metadata.resourceVersion, made.metadata.resourceVersion);
    });

    it('refuses to take one object for another of the same name', async () => {
      const made = await now().make(Volumes, now().volume());
      const other = { ...made, metadata: { ...made.metadata, uid: '00000000-0000-4000-8000-000000000000' } };
      await assert.rejects(now().client.replace(Volumes, other), refusedAs('Conflict', /UID/u));
    });

    it('leaves creation time and generation as they are', async () => {
      const made = await now().make(Volumes, now().volume());
      const metadata = { ...made.metadata, creationTimestamp: '2001-01-01T00:00:00Z', generation: 9, labels: { a: 'b' } };
      const next = await now().client.replace(Volumes, { ...made, metadata });
      assert.equal(next.metadata.creationTimestamp, made.metadata.creationTimestamp);
      assert.equal(next.metadata.generation, 1);
    });

    it('says NotFound of what is not there', async () => {
      const made = await now().make(Volumes, now().volume());
      await now().client.delete(Volumes, made.metadata.name);
      await assert.rejects(now().client.replace(Volumes, made), refusedAs('NotFound'));
    });
  });
}

function patching(now: Now): void {
  describe('merge patch', () => {
    it('merges objects, removes by null and replaces lists', async () => {
      const made = await now().make(Volumes, now().volume({ a: '1', b: '2' }));
      const patch = { metadata: { labels: { a: null, c: '3' }, finalizers: [FINALIZER] }, spec: { pool: 'fast' } };
      const next = await now().client.patch(Volumes, made.metadata.name, patch);
      assert.deepEqual(next.metadata.labels, { b: '2', c: '3' });
      assert.deepEqual(next.metadata.finalizers, [FINALIZER]);
      assert.deepEqual(next.spec, { ...made.spec, pool: 'fast' });
    });

    it('is a compare-and-swap when it names a version', async () => {
      const { metadata } = await now().make(Volumes, now().volume());
      const { resourceVersion } = metadata;
      await now().client.patch(Volumes, metadata.name, { metadata: { resourceVersion }, spec: { size: '2Gi' } });
      const stale = now().client.patch(Volumes, metadata.name, { metadata: { resourceVersion }, spec: { size: '3Gi' } });
      await assert.rejects(stale, refusedAs('Conflict', /has been modified/u));
    });

    it('cannot take the resourceVersion away', async () => {
      const { metadata } = await now().make(Volumes, now().volume());
      const patch = { metadata: { resourceVersion: null }, spec: { size: '2Gi' } };
      await assert.rejects(now().client.patch(Volumes, metadata.name, patch), refusedAs('Invalid', /must be specified for an update/u));
    });

    it('keeps the version when nothing changes', async () => {
      const { metadata } = await now().make(Volumes, now().volume({ a: 'b' }));
      const next = await now().client.patch(Volumes, metadata.name, { metadata: { labels: { a: 'b', c: null } } });
      assert.equal(next.metadata.resourceVersion, metadata.resourceVersion);
    });

    it('fills a removed field with its default again', async () => {
      const made = await now().make(Volumes, now().volume());
      const next = await now().client.patch(Volumes, made.metadata.name, { spec: { filesystem: null } });
      assert.equal(next.spec.filesystem, 'ext4');
    });

    it('cannot rename', async () => {
      const { metadata } = await now().make(Volumes, now().volume());
      await assert.rejects(now().client.patch(Volumes, metadata.name, { metadata: { name: now().name() } }), refusedAs('Invalid', /name/u));
    });
  });
}

const move = (scene: Scene): Move => ({
  apiVersion: GROUP_VERSION,
  kind: 'Move',
  metadata: { name: scene.name('m') },
  spec: { volume: 'db', target: 'node-2' },
});

function statusWrites(now: Now): void {
  describe('the status subresource', () => {
    it('writes the status alone, and no generation is counted', async () => {
      const made = await now().make(Volumes, now().volume());
      const odd = {
        ...made,
        metadata: { ...made.metadata, labels: { a: 'b' } },
        spec: { size: '9Gi' },
        status: { phase: 'Available' as const },
      };
      const next = await now().client.replace(Volumes, odd, 'status');
      assert.deepEqual(next.status, { phase: 'Available' });
      assert.deepEqual(next.spec, made.spec);
      assert.deepEqual(next.metadata.labels ?? {}, {});
      assert.equal(next.metadata.generation, 1);
    });

    it('is not touched by other writes', async () => {
      const made = await now().make(Volumes, now().volume());
      const { name } = made.metadata;
      const status = { phase: 'Available' };
      await now().client.patch(Volumes, name, { status }, { subresource: 'status' });
      const next = await now().client.patch(Volumes, name, { spec: { size: '2Gi' }, status: { phase: 'Blocked' } });
      assert.deepEqual(next.status, status);
    });

    it('merges one copy’s entry beside another’s', async () => {
      const { metadata } = await now().make(Volumes, now().volume());
      const copy = (node: string): object => ({ node, pool: 'local', role: 'active' });
      await now().client.patch(Volumes, metadata.name, { status: { copies: { c1: copy('a') } } }, { subresource: 'status' });
      await now().client.patch(Volumes, metadata.name, { status: { copies: { c2: copy('b') } } }, { subresource: 'status' });
      const next = await now().client.patch(Volumes, metadata.name, { status: { copies: { c1: null } } }, { subresource: 'status' });
      assert.deepEqual(next.status, { copies: { c2: copy('b') } });
    });

    it('is judged by the schema', async () => {
      const { metadata } = await now().make(Volumes, now().volume());
      const odd = now().client.patch(Volumes, metadata.name, { status: { phase: 'Odd' } }, { subresource: 'status' });
      await assert.rejects(odd, refusedAs('Invalid', /status\.phase: Unsupported value: "Odd": supported values: .*"Available"/u));
    });
  });
}

function deleting(now: Now): void {
  const held = async (): Promise<Stored<Volume>> => {
    const volume = now().volume();
    return now().make(Volumes, { ...volume, metadata: { ...volume.metadata, finalizers: [FINALIZER] } });
  };

  describe('delete', () => {
    it('removes an object that nothing holds', async () => {
      const { metadata } = await now().make(Volumes, now().volume());
      const gone = await now().client.delete(Volumes, metadata.name);
      assert.equal(gone.metadata.uid, metadata.uid);
      await assert.rejects(now().client.get(Volumes, metadata.name), refusedAs('NotFound'));
      await assert.rejects(now().client.delete(Volumes, metadata.name), refusedAs('NotFound'));
    });

    it('marks an object with finalizers, and the last of them takes it away', async () => {
      const { metadata } = await held();
      const dying = await now().client.delete(Volumes, metadata.name);
      assert.ok(dying.metadata.deletionTimestamp);
      assert.deepEqual(dying.metadata.finalizers, [FINALIZER]);
      const again = await now().client.delete(Volumes, metadata.name);
      assert.equal(again.metadata.resourceVersion, dying.metadata.resourceVersion);
      await now().client.patch(Volumes, metadata.name, { metadata: { finalizers: null } });
      await assert.rejects(now().client.get(Volumes, metadata.name), refusedAs('NotFound'));
    });

    it('lets a dying object be written, but not be held by something new', async () => {
      const { metadata } = await held();
      await now().client.delete(Volumes, metadata.name);
      const written = await now().client.patch(Volumes, metadata.name, { status: { phase: 'Deleting' } }, { subresource: 'status' });
      assert.equal(written.status?.phase, 'Deleting');
      const more = now().client.patch(Volumes, metadata.name, { metadata: { finalizers: [FINALIZER, 'flock.dev/more'] } });
      await assert.rejects(more, refusedAs('Invalid', /no new finalizers can be added if the object is being deleted/u));
    });

    it('cannot be taken back', async () => {
      const { metadata } = await held();
      const dying = await now().client.delete(Volumes, metadata.name);
      const { deletionTimestamp, ...alive } = dying.metadata;
      const next = await now().client.replace(Volumes, { ...dying, metadata: { ...alive, labels: { a: 'b' } } });
      assert.equal(next.metadata.deletionTimestamp, deletionTimestamp);
    });

    it('holds to its preconditions', async () => {
      const { metadata } = await now().make(Volumes, now().volume());
      const { name, uid, resourceVersion } = metadata;
      await assert.rejects(
        now().client.delete(Volumes, name, { uid: '00000000-0000-4000-8000-000000000000' }),
        refusedAs('Conflict', /UID/u),
      );
      await now().client.patch(Volumes, name, { spec: { size: '2Gi' } });
      await assert.rejects(now().client.delete(Volumes, name, { resourceVersion }), refusedAs('Conflict', /ResourceVersion/u));
      await now().client.delete(Volumes, name, { uid });
      await assert.rejects(now().client.get(Volumes, name), refusedAs('NotFound'));
    });
  });
}

function rules(now: Now): void {
  const placed = { node: 'node-1', epoch: 3, copy: 'c1' };

  describe('the rules of our kinds', () => {
    for (const [what, spec, patch, message] of [
      ['a volume cannot shrink', { size: '2Gi' }, { size: '1Gi' }, /a volume cannot shrink/u],
      ['a pool cannot change', { pool: 'fast' }, { pool: 'slow' }, /pool cannot change/u],
      ['a pool cannot be taken away', { pool: 'fast' }, { pool: null }, /pool cannot change/u],
      ['a volume mode cannot change', {}, { volumeMode: 'Block' }, /volumeMode cannot change/u],
      ['a filesystem cannot change', {}, { filesystem: 'xfs' }, /filesystem cannot change/u],
      ['an epoch cannot go back', placed, { epoch: 2, node: 'node-2' }, /epoch cannot go back/u],
      ['an epoch cannot be taken away', placed, { epoch: null }, /epoch cannot go back/u],
      ['a node changes only with the epoch', placed, { node: 'node-2' }, /only together with epoch/u],
      ['a copy changes only with the epoch', placed, { copy: 'c2' }, /only together with epoch/u],
      ['a node cannot be taken away alone', placed, { node: null }, /only together with epoch/u],
    ] as [string, Partial<Volume['spec']>, object, RegExp][]) {
      it(what, async () => {
        const { metadata } = await now().make(Volumes, now().volume({}, spec));
        await assert.rejects(now().client.patch(Volumes, metadata.name, { spec: patch }), refusedAs('Invalid', message));
      });
    }

    for (const [what, spec, patch] of [
      ['a volume grows', { size: '1Gi' }, { size: '1.5Gi' }],
      ['a size may be written in another way', { size: '1Gi' }, { size: '1024Mi' }],
      ['a pool may be chosen later', {}, { pool: 'fast' }],
      ['a volume gets its first place', {}, placed],
      ['a volume moves with the next epoch', placed, { node: 'node-2', epoch: 4, copy: 'c2', move: 'm1' }],
      ['an abort counts an epoch in the same place', placed, { epoch: 4 }],
    ] as [string, Partial<Volume['spec']>, object][]) {
      it(what, async () => {
        const { metadata, spec: made } = await now().make(Volumes, now().volume({}, spec));
        const next = await now().client.patch(Volumes, metadata.name, { spec: patch });
        assert.deepEqual(next.spec, { ...made, ...patch });
      });
    }

    for (const [what, capacity, size, allowed] of [
      ['a size that could not be had is taken back', '1073741824', '1Gi', true],
      ['a size is taken back to more than there is', '1073741824', '2Gi', true],
      ['a size is not taken back below the real one', '1073741824', '1023Mi', false],
    ] as const) {
      it(what, async () => {
        const { metadata } = await now().make(Volumes, now().volume({}, { size: '100Gi' }));
        await now().client.patch(Volumes, metadata.name, { status: { capacity } }, { subresource: 'status' });
        const asked = now().client.patch(Volumes, metadata.name, { spec: { size } });
        if (!allowed) return assert.rejects(asked, refusedAs('Invalid', /a volume cannot shrink below its real size/u));
        assert.equal((await asked).spec.size, size);
      });
    }

    it('a move keeps its volume and its target, and a cancel stands', async () => {
      const { metadata } = await now().make(Moves, move(now()));
      const { name } = metadata;
      await assert.rejects(now().client.patch(Moves, name, { spec: { volume: 'x' } }), refusedAs('Invalid', /volume cannot change/u));
      await assert.rejects(now().client.patch(Moves, name, { spec: { target: 'x' } }), refusedAs('Invalid', /target cannot change/u));
      await now().client.patch(Moves, name, { spec: { cancel: true } });
      await assert.rejects(
        now().client.patch(Moves, name, { spec: { cancel: null } }),
        refusedAs('Invalid', /a cancel cannot be taken back/u),
      );
      await assert.rejects(
        now().client.patch(Moves, name, { spec: { cancel: false } }),
        refusedAs('Invalid', /a cancel cannot be taken back/u),
      );
    });
  });
}

function badInput(now: Now): void {
  describe('bad input', () => {
    for (const [what, name] of [
      ['..', '..'],
      ['a path upwards', '../volume'],
      ['a slash', 'a/b'],
      ['a newline', 'a\nb'],
      ['300 characters', 'a'.repeat(300)],
      ['letters beyond ASCII', 'größe'],
      ['capitals', 'Db'],
      ['a blank', 'a b'],
      ['nothing', ''],
    ] as const) {
      it(`refuses ${what} as a name, and says which field it is`, async () => {
        const volume = now().volume();
        const refused = now().client.create(Volumes, { ...volume, metadata: { name } });
        await assert.rejects(refused, refusedAs('Invalid', /metadata\.name/u));
      });
    }

    for (const [size, message] of [
      ['0', /spec\.size: Invalid value: "0": size must be more than 0/u],
      ['0Gi', /size must be more than 0/u],
      ['-1', /spec\.size: Invalid value: "-1": spec\.size in body should match/u],
      ['100m', /spec\.size: Invalid value: "100m": spec\.size in body should match/u],
      ['ten', /spec\.size: Invalid value: "ten"/u],
      ['', /spec\.size/u],
      ['16Ei', /size must be below 8Ei/u],
      ['9223372036854775807', /size must be below 8Ei/u],
      ['1e99', /size must be below 8Ei/u],
      [`1${'0'.repeat(60)}`, /spec\.size: Too long: may not be more than 40 bytes/u],
    ] as const) {
      it(`refuses a size of ${JSON.stringify(size.slice(0, 20))}`, async () => {
        await assert.rejects(now().client.create(Volumes, now().volume({}, { size })), refusedAs('Invalid', message));
      });
    }

    for (const size of ['1', '1.5Gi', '1e9', '10Pi', '7Ei']) {
      it(`takes a size of ${size}, whether or not there is a disk for it`, async () => {
        const made = await now().make(Volumes, now().volume({}, { size }));
        assert.equal(made.spec.size, size);
      });
    }

    for (const [what, spec, message] of [
      ['a spec that is missing', undefined, /spec: Required value/u],
      ['a size that is missing', {}, /spec\.size: Required value/u],
      ['a size that is a number', { size: 5 }, /spec\.size in body must be of type string: "integer"/u],
      [
        'a wipe that is none',
        { size: '1Gi', wipe: 'burn' },
        /spec\.wipe: Unsupported value: "burn": supported values: "none", "discard", "zero"/u,
      ],
      ['a pool with a slash', { size: '1Gi', pool: '../x' }, /spec\.pool: Invalid value: "\.\.\/x"/u],
      [
        'an epoch below 0',
        { size: '1Gi', epoch: -1 },
        /spec\.epoch: Invalid value: -1: spec\.epoch in body should be greater than or equal to 0/u,
      ],
      ['an epoch that is no integer', { size: '1Gi', epoch: 1.5 }, /spec\.epoch/u],
      ['an epoch beyond 64 bits', { size: '1Gi', epoch: 1e30 }, /spec\.epoch/u],
      ['a size of null', { size: null }, /spec\.size: Required value/u],
    ] as const) {
      it(`refuses ${what}`, async () => {
        const odd = { ...now().volume(), spec } as unknown as Volume;
        await assert.rejects(now().client.create(Volumes, odd), refusedAs('Invalid', message));
      });
    }

    for (const [what, metadata, message] of [
      ['a label key that is none', { labels: { 'a b': 'c' } }, /metadata\.labels: Invalid value: "a b"/u],
      ['a label value that is none', { labels: { a: 'b/c' } }, /metadata\.labels: Invalid value: "b\/c"/u],
      ['a finalizer that is none', { finalizers: ['a b'] }, /metadata\.finalizers/u],
    ] as const) {
      it(`refuses ${what}`, async () => {
        const volume = now().volume();
        const odd = { ...volume, metadata: { name: volume.metadata.name, ...metadata } } as unknown as Volume;
        await assert.rejects(now().client.create(Volumes, odd), refusedAs('Invalid', message));
      });
    }
  });
}

function watching(now: Now): void {
  describe('watch', () => {
    it('tells every change after a version, in order', async () => {
      const mark = now().mark();
      const labelSelector = `${LABEL}=${mark}`;
      const { resourceVersion } = await now().client.list(Volumes, { labelSelector });
      const { metadata } = await now().make(Volumes, now().volume({ [LABEL]: mark }));
      const grown = await now().client.patch(Volumes, metadata.name, { spec: { size: '2Gi' } });
      await now().client.delete(Volumes, metadata.name);
      const events = await now().watched(Volumes, { labelSelector, resourceVersion }, 3);
      assert.deepEqual(
        events.map(([type]) => type),
        ['ADDED', 'MODIFIED', 'DELETED'],
      );
      assert.equal(events[1]?.[1].metadata.resourceVersion, grown.metadata.resourceVersion);
      const versions = events.map(([, { metadata: seen }]) => Number(seen.resourceVersion));
      assert.deepEqual(
        versions,
        versions.toSorted((a, b) => a - b),
      );
      assert.equal(new Set(versions).size, 3);
    });

    it('goes on as things happen', async () => {
      const mark = now().mark();
      const labelSelector = `${LABEL}=${mark}`;
      const { resourceVersion } = await now().client.list(Volumes, { labelSelector });
      const events = now().watched(Volumes, { labelSelector, resourceVersion }, 2);
      const { metadata } = await now().make(Volumes, now().volume({ [LABEL]: mark }));
      await now().client.patch(Volumes, metadata.name, { spec: { size: '2Gi' } });
      assert.deepEqual(
        (await events).map(([type, { spec }]) => [type, spec.size]),
        [
          ['ADDED', '1Gi'],
          ['MODIFIED', '2Gi'],
        ],
      );
    });

    it('begins with what is there when it is asked from version 0', async () => {
      const mark = now().mark();
      const { metadata } = await now().make(Volumes, now().volume({ [LABEL]: mark }));
      const [first] = await now().watched(Volumes, { labelSelector: `${LABEL}=${mark}`, resourceVersion: '0' }, 1);
      assert.equal(first?.[0], 'ADDED');
      assert.equal(first?.[1].metadata.uid, metadata.uid);
    });

    it('shows what leaves a selector as deleted, as it last was, and what comes into it as added', async () => {
      const mark = now().mark();
      const labelSelector = `${LABEL}=${mark},tier=gold`;
      const made = await now().make(Volumes, now().volume({ [LABEL]: mark, tier: 'silver' }));
      const { name, resourceVersion } = made.metadata;
      await now().client.patch(Volumes, name, { metadata: { labels: { tier: 'gold' } } });
      const left = await now().client.patch(Volumes, name, { metadata: { labels: { tier: null } } });
      const events = await now().watched(Volumes, { labelSelector, resourceVersion }, 2);
      assert.deepEqual(
        events.map(([type, { metadata }]) => [type, metadata.labels?.['tier']]),
        [
          ['ADDED', 'gold'],
          ['DELETED', 'gold'],
        ],
      );
      assert.equal(events[1]?.[1].metadata.resourceVersion, left.metadata.resourceVersion);
    });

    it('watches one object by its name', async () => {
      const { metadata } = await now().make(Volumes, now().volume());
      await now().make(Volumes, now().volume());
      await now().client.patch(Volumes, metadata.name, { spec: { size: '2Gi' } });
      const { name, resourceVersion } = metadata;
      const [[type, seen] = []] = await now().watched(Volumes, { fieldSelector: `metadata.name=${name}`, resourceVersion }, 1);
      assert.deepEqual([type, seen?.metadata.name, seen?.spec.size], ['MODIFIED', name, '2Gi']);
    });

    it('shows a dying object as modified before it is deleted', async () => {
      const mark = now().mark();
      const volume = now().volume({ [LABEL]: mark });
      const made = await now().make(Volumes, { ...volume, metadata: { ...volume.metadata, finalizers: [FINALIZER] } });
      await now().client.delete(Volumes, made.metadata.name);
      await now().client.patch(Volumes, made.metadata.name, { metadata: { finalizers: [] } });
      const { resourceVersion } = made.metadata;
      const events = await now().watched(Volumes, { labelSelector: `${LABEL}=${mark}`, resourceVersion }, 2);
      assert.deepEqual(
        events.map(([type, { metadata }]) => [type, metadata.deletionTimestamp !== undefined]),
        [
          ['MODIFIED', true],
          ['DELETED', true],
        ],
      );
    });

    it('ends when it is told to', async () => {
      const { resourceVersion } = await now().client.list(Volumes);
      const end = new AbortController();
      const seen: string[] = [];
      const ended = (async (): Promise<void> => {
        for await (const { type } of now().client.watch(Volumes, { resourceVersion, labelSelector: `${LABEL}=none`, signal: end.signal }))
          seen.push(type);
      })().catch(() => {});
      end.abort();
      await ended;
      assert.deepEqual(
        seen.filter((type) => type !== 'BOOKMARK'),
        [],
      );
    });
  });
}

function systemKinds(now: Now): void {
  describe('Leases, Events and StorageNodes', () => {
    it('keeps namespaces apart', async () => {
      const { metadata } = await now().make(Leases, now().lease());
      const { items } = await now().client.list(Leases, { namespace: now().host.namespace });
      assert.ok(items.some(({ metadata: { uid } }) => uid === metadata.uid));
      const elsewhere = await now().client.list(Leases, { namespace: `${now().host.namespace}-other` });
      assert.deepEqual(elsewhere.items, []);
      const everywhere = await now().client.list(Leases);
      assert.ok(everywhere.items.some(({ metadata: { uid } }) => uid === metadata.uid));
      await assert.rejects(now().client.get(Leases, metadata.name, `${now().host.namespace}-other`), refusedAs('NotFound'));
    });

    it('lets one of two take a lease over', async () => {
      const lease = await now().make(Leases, now().lease());
      const taken = (holderIdentity: string): Stored<Lease> => ({ ...lease, spec: { ...lease.spec, holderIdentity } });
      const outcomes = await Promise.allSettled([now().client.replace(Leases, taken('b')), now().client.replace(Leases, taken('c'))]);
      assert.deepEqual(outcomes.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
    });

    it('finds the events of an object', async () => {
      const about = now().name();
      await now().make(Events, now().event(about, 'Normal', 'Moved'));
      await now().make(Events, now().event(about, 'Warning', 'Blocked'));
      await now().make(Events, now().event(now().name(), 'Warning', 'Blocked'));
      const reasons = async (fieldSelector: string): Promise<string[]> => {
        const { items } = await now().client.list(Events, { namespace: now().host.namespace, fieldSelector });
        return items.map(({ reason }) => reason).toSorted();
      };
      assert.deepEqual(await reasons(`involvedObject.name=${about},involvedObject.kind=Volume`), ['Blocked', 'Moved']);
      assert.deepEqual(await reasons(`involvedObject.uid=uid-of-${about},type=Warning`), ['Blocked']);
      assert.deepEqual(await reasons(`involvedObject.name=${about},reason!=Blocked`), ['Moved']);
    });

    it('takes a machine that reports itself', async () => {
      const node: StorageNode = { apiVersion: GROUP_VERSION, kind: 'StorageNode', metadata: { name: now().name('node') } };
      const { metadata } = await now().make(StorageNodes, node);
      const status = {
        transfer: { address: '192.0.2.1', port: 9807 },
        pools: { local: { type: 'image', healthy: true, capacity: '1000' } },
      };
      const next = await now().client.patch(StorageNodes, metadata.name, { status }, { subresource: 'status' });
      assert.deepEqual(next.status, status);
    });
  });
}
