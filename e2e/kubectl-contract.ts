// What a person sees who uses kubectl on Flock's objects, word by word: the same on a real kube-apiserver and on our own server.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { after, before, describe, it } from 'node:test';
import { GROUP_VERSION } from '../src/model/meta.ts';
import type { Kubectl } from './kube/programs.ts';

export interface KubectlHost {
  kubectl: Kubectl;
  close(): Promise<void>;
}

type Now = () => Kubectl;

/** Declares the suite. `open` gives a kubectl of a server that has our kinds and no objects of them. */
export function kubectlContract(title: string, open: () => Promise<KubectlHost>): void {
  describe(title, { timeout: 120_000 }, () => {
    let host: KubectlHost;
    before(async () => {
      host = await open();
    });
    after(async () => {
      await host?.close();
    });
    const now = (): Kubectl => host.kubectl;
    learning(now);
    applying(now);
    getting(now);
    watching(now);
    describing(now);
    patching(now);
    waiting(now);
    deleting(now);
    refusing(now);
  });
}

interface Manifest {
  labels?: Record<string, string>;
  finalizers?: string[];
  resourceVersion?: string;
  spec?: Record<string, unknown>;
}

/** A Volume as a person writes it. */
function volume(name: string, { spec = {}, ...metadata }: Manifest = {}): string {
  return JSON.stringify({ apiVersion: GROUP_VERSION, kind: 'Volume', metadata: { name, ...metadata }, spec: { size: '1Gi', ...spec } });
}

const create = (kubectl: Kubectl, name: string, manifest?: Manifest): Promise<string> =>
  kubectl.ok(['create', '-f', '-'], volume(name, manifest));

const merge = (kubectl: Kubectl, what: string, patch: unknown, ...more: string[]): Promise<string> =>
  kubectl.ok(['patch', ...what.split('/'), '--type=merge', '-p', JSON.stringify(patch), ...more]);

/** The rows of a table by their headings; what is an age (`12s`) becomes `AGE`, for it differs by when it is looked at. */
function table(text: string): Record<string, string>[] {
  const [head = '', ...lines] = text.trimEnd().split('\n');
  const columns = [...head.matchAll(/\S+(?: \S+)*/gu)].map(([name], at, all) => ({ name, from: all[at]?.index, to: all[at + 1]?.index }));
  return lines.map((line) =>
    Object.fromEntries(
      columns.map(({ name, from, to }) => [
        name,
        line
          .slice(from, to)
          .trim()
          .replace(/^\d+s$/u, 'AGE'),
      ]),
    ),
  );
}

function learning(now: Now): void {
  describe('discovery and explain', () => {
    it('lists our kinds with their short names', async () => {
      assert.deepEqual(table(await now().ok(['api-resources', '--api-group=flock.dev'])), [
        { NAME: 'moves', SHORTNAMES: 'fmove', APIVERSION: GROUP_VERSION, NAMESPACED: 'false', KIND: 'Move' },
        { NAME: 'snapshots', SHORTNAMES: 'fsnap', APIVERSION: GROUP_VERSION, NAMESPACED: 'false', KIND: 'Snapshot' },
        { NAME: 'storagenodes', SHORTNAMES: 'fnode', APIVERSION: GROUP_VERSION, NAMESPACED: 'false', KIND: 'StorageNode' },
        { NAME: 'volumes', SHORTNAMES: 'fvol', APIVERSION: GROUP_VERSION, NAMESPACED: 'false', KIND: 'Volume' },
      ]);
    });

    it('has Leases and Events beside them', async () => {
      const names = await now().ok(['api-resources', '-o', 'name']);
      for (const name of ['events', 'leases.coordination.k8s.io']) assert.ok(names.split('\n').includes(name), name);
    });

    it('explains the fields of a volume', async () => {
      const text = await now().ok(['explain', 'volumes.spec']);
      assert.match(text, /^GROUP: +flock\.dev\nKIND: +Volume\nVERSION: +v1alpha1\n\nFIELD: spec <Object>\n/u);
      assert.match(
        text,
        /\n {2}size\t<string> -required-\n {4}Size asked for, in bytes or with a suffix \(10Gi\)\. Grows only; the real size\n {4}is in status\.\n/u,
      );
      assert.match(text, /\n {2}filesystem\t<string>\n {2}enum: ext4, xfs, btrfs\n/u);
      assert.match(text, /\n {2}epoch\t<integer>\n/u);
    });

    it('explains one field, by the short name', async () => {
      const text = await now().ok(['explain', 'fvol.spec.pool']);
      assert.match(
        text,
        /FIELD: pool <string>\n\n\nDESCRIPTION:\n {4}Name of the pool\. Default: the only pool of the cluster, if there is one\.\n/u,
      );
    });

    it('explains a kind with all that is below it', async () => {
      const lines = (await now().ok(['explain', 'moves', '--recursive'])).split('\n').map((line) => line.trim());
      for (const line of ['metadata\t<ObjectMeta>', 'finalizers\t<[]string>', 'spec\t<Object> -required-', 'target\t<string> -required-'])
        assert.ok(lines.includes(line), `${line} is missing in ${lines.join('\n')}`);
    });

    it('says which field does not exist', async () => {
      assert.equal(await now().refused(['explain', 'volumes.spec.colour']), 'error: field "colour" does not exist\n');
    });
  });
}

function applying(now: Now): void {
  describe('apply and create', () => {
    it('creates, leaves alone and changes', async () => {
      const apply = (manifest: string): Promise<string> => now().ok(['apply', '-f', '-'], manifest);
      assert.equal(await apply(volume('applied')), 'volume.flock.dev/applied created\n');
      assert.equal(await apply(volume('applied')), 'volume.flock.dev/applied unchanged\n');
      const grown = volume('applied', { labels: { tier: 'gold' }, spec: { size: '2Gi' } });
      assert.equal(await apply(grown), 'volume.flock.dev/applied configured\n');
      const [size, tier] = (await now().ok(['get', 'fvol', 'applied', '-o', 'jsonpath={.spec.size} {.metadata.labels.tier}'])).split(' ');
      assert.deepEqual([size, tier], ['2Gi', 'gold']);
    });

    it('takes away what the manifest no longer says', async () => {
      await now().ok(['apply', '-f', '-'], volume('unlabelled', { labels: { tier: 'gold' } }));
      await now().ok(['apply', '-f', '-'], volume('unlabelled'));
      assert.equal(await now().ok(['get', 'fvol', 'unlabelled', '-o', 'jsonpath={.metadata.labels}']), '');
    });

    it('only tries with --dry-run=server', async () => {
      const answer = await now().ok(['apply', '--dry-run=server', '-f', '-'], volume('tried'));
      assert.equal(answer, 'volume.flock.dev/tried created (server dry run)\n');
      await now().refused(['get', 'fvol', 'tried']);
    });

    it('replaces', async () => {
      await create(now(), 'replaced');
      const answer = await now().ok(['replace', '-f', '-'], volume('replaced', { spec: { size: '3Gi' } }));
      assert.equal(answer, 'volume.flock.dev/replaced replaced\n');
    });

    it('labels and annotates', async () => {
      await create(now(), 'labelled');
      assert.equal(await now().ok(['label', 'fvol', 'labelled', 'a=b']), 'volume.flock.dev/labelled labeled\n');
      assert.equal(await now().ok(['annotate', 'fvol', 'labelled', 'c=d']), 'volume.flock.dev/labelled annotated\n');
      assert.equal(await now().ok(['get', 'fvol', '-l', 'a=b', '-o', 'name']), 'volume.flock.dev/labelled\n');
    });
  });
}

function getting(now: Now): void {
  describe('get', () => {
    it('shows our columns', async () => {
      await create(now(), 'shown', { spec: { pool: 'local', node: 'node-1', epoch: 3, copy: 'c1' } });
      const obstacle = { reason: 'NoSpace', message: 'full' };
      await merge(now(), 'fvol/shown', { status: { phase: 'Blocked', obstacle } }, '--subresource=status');
      const row = { NAME: 'shown', SIZE: '1Gi', POOL: 'local', NODE: 'node-1', PHASE: 'Blocked', OBSTACLE: 'NoSpace', AGE: 'AGE' };
      assert.deepEqual(table(await now().ok(['get', 'volumes', 'shown'])), [row]);
      assert.deepEqual(table(await now().ok(['get', 'volume', 'shown', '-o', 'wide'])), [{ ...row, EPOCH: '3', COPY: 'c1' }]);
    });

    it('shows conditions as columns', async () => {
      const node = { apiVersion: GROUP_VERSION, kind: 'StorageNode', metadata: { name: 'shown-node' } };
      await now().ok(['create', '-f', '-'], JSON.stringify(node));
      const condition = { type: 'Ready', status: 'False', reason: 'PoolLost', message: 'gone', lastTransitionTime: '2026-01-01T00:00:00Z' };
      const status = { conditions: [condition], transfer: { address: '192.0.2.1', port: 9807 } };
      await merge(now(), 'fnode/shown-node', { status }, '--subresource=status');
      assert.deepEqual(table(await now().ok(['get', 'fnode'])), [
        { NAME: 'shown-node', READY: 'False', REASON: 'PoolLost', ADDRESS: '192.0.2.1', AGE: 'AGE' },
      ]);
    });

    it('prints names, JSON, YAML and paths', async () => {
      await create(now(), 'printed');
      assert.equal(await now().ok(['get', 'fvol', 'printed', '-o', 'name']), 'volume.flock.dev/printed\n');
      const object = JSON.parse(await now().ok(['get', 'volumes.flock.dev/printed', '-o', 'json'])) as Record<string, unknown>;
      assert.deepEqual([object['apiVersion'], object['kind']], [GROUP_VERSION, 'Volume']);
      assert.deepEqual(object['spec'], { size: '1Gi', volumeMode: 'Filesystem', filesystem: 'ext4' });
      assert.match(await now().ok(['get', 'fvol', 'printed', '-o', 'yaml']), /\nspec:\n {2}filesystem: ext4\n {2}size: 1Gi\n/u);
      assert.equal(await now().ok(['get', 'fvol', 'printed', '-o', 'jsonpath={.spec.size}']), '1Gi');
    });

    it('selects by labels and by name, in pages too', async () => {
      for (const name of ['page-1', 'page-2', 'page-3']) await create(now(), name, { labels: { book: name < 'page-3' ? 'a' : 'b' } });
      const names = async (...words: string[]): Promise<string[]> =>
        (await now().ok(['get', 'fvol', '-o', 'name', ...words])).trim().split('\n');
      assert.deepEqual(
        await names('-l', 'book in (a, b)', '--chunk-size=1'),
        ['page-1', 'page-2', 'page-3'].map((name) => `volume.flock.dev/${name}`),
      );
      assert.deepEqual(await names('-l', 'book=a,book!=b', '--chunk-size=1'), ['volume.flock.dev/page-1', 'volume.flock.dev/page-2']);
      assert.deepEqual(await names('--field-selector', 'metadata.name=page-3'), ['volume.flock.dev/page-3']);
    });

    it('shows labels, sorts, and shows several kinds', async () => {
      for (const [name, size] of [
        ['sort-1', '20Gi'],
        ['sort-2', '3Gi'],
      ] as const)
        await create(now(), name, { labels: { sort: 'yes' }, spec: { size } });
      const rows = table(await now().ok(['get', 'fvol', '-l', 'sort=yes', '--show-labels', '--sort-by=.spec.size']));
      assert.deepEqual(
        rows.map(({ NAME, LABELS }) => [NAME, LABELS]),
        [
          ['sort-2', 'sort=yes'],
          ['sort-1', 'sort=yes'],
        ],
      );
      const both = table(await now().ok(['get', 'volumes,moves', '-l', 'sort=yes']));
      assert.deepEqual(
        both.map(({ NAME }) => NAME),
        ['volume.flock.dev/sort-1', 'volume.flock.dev/sort-2'],
      );
      assert.equal(await now().ok(['get', 'flock', '-l', 'sort=yes', '-o', 'name']), 'volume.flock.dev/sort-1\nvolume.flock.dev/sort-2\n');
    });

    it('says that there is nothing', async () => {
      const { code, stdout, stderr } = await now().answer(['get', 'snapshots']);
      assert.deepEqual([code, stdout, stderr], [0, '', 'No resources found\n']);
      const leases = await now().answer(['get', 'leases', '-n', 'nowhere']);
      assert.deepEqual([leases.code, leases.stderr], [0, 'No resources found in nowhere namespace.\n']);
    });

    it('shows Leases with their holder', async () => {
      const lease = {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: { name: 'held', namespace: 'flock-system' },
        spec: { holderIdentity: 'node-1', leaseDurationSeconds: 40, renewTime: '2026-01-01T00:00:00.000000Z' },
      };
      await now().ok(['create', '-f', '-'], JSON.stringify(lease));
      assert.deepEqual(table(await now().ok(['get', 'leases', 'held', '-n', 'flock-system'])), [
        { NAME: 'held', HOLDER: 'node-1', AGE: 'AGE' },
      ]);
    });
  });
}

/** The lines of a kubectl that goes on; `use` takes one after the other. It is ended after that. */
async function following(kubectl: Kubectl, words: readonly string[], use: (line: () => Promise<string>) => Promise<void>): Promise<void> {
  const child = kubectl.start(words);
  const closed = once(child, 'close');
  assert.ok(child.stdout);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  try {
    await use(async () => {
      const { value, done } = await lines.next();
      assert.ok(!done, `kubectl ${words.join(' ')} ended early`);
      return value;
    });
  } finally {
    child.kill();
    await closed;
  }
}

function watching(now: Now): void {
  describe('get --watch', () => {
    it('shows what is there, and every change as a row', async () => {
      await create(now(), 'watched');
      await following(now(), ['get', 'fvol', 'watched', '-w'], async (line) => {
        // Columns keep the widths of the first rows: only the cells are told apart, and the last one is the age.
        const cells = async (): Promise<string[]> => (await line()).split(/ {2,}/u).slice(0, -1);
        assert.deepEqual(await cells(), ['NAME', 'SIZE', 'POOL', 'NODE', 'PHASE', 'OBSTACLE']);
        assert.deepEqual(await cells(), ['watched', '1Gi']);
        await merge(now(), 'fvol/watched', { spec: { size: '2Gi', pool: 'local' } });
        assert.deepEqual(await cells(), ['watched', '2Gi', 'local']);
        await merge(now(), 'fvol/watched', { status: { phase: 'Available' } }, '--subresource=status');
        assert.deepEqual(await cells(), ['watched', '2Gi', 'local', 'Available']);
      });
    });

    it('shows only changes of what is selected with --watch-only, and what happened with --output-watch-events', async () => {
      await create(now(), 'watched-1', { labels: { watched: 'yes' } });
      const words = ['get', 'fvol', '-l', 'watched=yes', '--watch-only', '--output-watch-events', '--no-headers'];
      await following(now(), words, async (line) => {
        const cells = async (): Promise<string[]> => (await line()).split(/ {2,}/u).slice(0, 2);
        // Nothing shows when the watch has begun, so the volume changes until a change is seen.
        let seen = false;
        const first = cells().finally(() => (seen = true));
        for (let size = 2; !seen; size++) await merge(now(), 'fvol/watched-1', { spec: { size: `${size}Gi` } });
        assert.deepEqual(await first, ['MODIFIED', 'watched-1']);
        await create(now(), 'watched-2', { labels: { watched: 'no' } });
        await merge(now(), 'fvol/watched-2', { metadata: { labels: { watched: 'yes' } } });
        let [event, name] = await cells();
        while (name === 'watched-1') [event, name] = await cells();
        assert.deepEqual([event, name], ['ADDED', 'watched-2']);
        await now().ok(['delete', 'fvol', 'watched-2']);
        assert.deepEqual(await cells(), ['DELETED', 'watched-2']);
      });
    });
  });
}

function describing(now: Now): void {
  const eventOf = async (name: string): Promise<string> => {
    const uid = await now().ok(['get', 'fvol', name, '-o', 'jsonpath={.metadata.uid}']);
    const time = `${new Date().toISOString().slice(0, 19)}Z`;
    return JSON.stringify({
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: `${name}.1`, namespace: 'default' },
      involvedObject: { apiVersion: GROUP_VERSION, kind: 'Volume', name, uid },
      type: 'Warning',
      reason: 'Blocked',
      message: 'pool local is full',
      count: 1,
      firstTimestamp: time,
      lastTimestamp: time,
      source: { component: 'flock-agent' },
    });
  };

  describe('describe and events', () => {
    it('describes a volume with its events', async () => {
      await create(now(), 'described', { labels: { tier: 'gold' } });
      await now().ok(['create', '-f', '-'], await eventOf('described'));
      const text = await now().ok(['describe', 'fvol', 'described']);
      assert.match(
        text,
        /^Name: +described\nNamespace: +\nLabels: +tier=gold\nAnnotations: +<none>\nAPI Version: +flock\.dev\/v1alpha1\nKind: +Volume\n/u,
      );
      assert.match(text, /\nSpec:\n {2}Filesystem: +ext4\n {2}Size: +1Gi\n {2}Volume Mode: +Filesystem\n/u);
      const events = text
        .slice(text.indexOf('\nEvents:\n') + '\nEvents:\n'.length)
        .split('\n')
        .map((line) => line.trim().split(/ {2,}/u));
      assert.deepEqual(events.slice(0, 1), [['Type', 'Reason', 'Age', 'From', 'Message']]);
      const [type, reason, , from, message] = events[2] ?? [];
      assert.deepEqual([type, reason, from, message], ['Warning', 'Blocked', 'flock-agent', 'pool local is full']);
    });

    it('describes a volume without events', async () => {
      await create(now(), 'quiet');
      assert.match(await now().ok(['describe', 'volume', 'quiet']), /\nEvents: +<none>\n$/u);
    });

    it('lists the events of a volume', async () => {
      await create(now(), 'eventful');
      await now().ok(['create', '-f', '-'], await eventOf('eventful'));
      const row = { 'LAST SEEN': 'AGE', TYPE: 'Warning', REASON: 'Blocked', OBJECT: 'Volume/eventful', MESSAGE: 'pool local is full' };
      assert.deepEqual(table(await now().ok(['events', '--for', 'volume/eventful'])), [row]);
      const selected = table(await now().ok(['get', 'events', '--field-selector', 'involvedObject.name=eventful']));
      assert.deepEqual(selected, [{ ...row, OBJECT: 'volume/eventful' }]);
      const [wide] = table(await now().ok(['get', 'events', '-o', 'wide', '--field-selector', 'involvedObject.name=eventful']));
      assert.deepEqual([wide?.['SOURCE'], wide?.['COUNT'], wide?.['NAME']], ['flock-agent', '1', 'eventful.1']);
    });
  });
}

function patching(now: Now): void {
  describe('patch', () => {
    it('merges, and says when nothing changed', async () => {
      await create(now(), 'patched');
      assert.equal(await merge(now(), 'fvol/patched', { spec: { size: '2Gi' } }), 'volume.flock.dev/patched patched\n');
      assert.equal(await merge(now(), 'fvol/patched', { spec: { size: '2Gi' } }), 'volume.flock.dev/patched patched (no change)\n');
    });

    it('writes the status only through the subresource', async () => {
      await create(now(), 'status');
      await merge(now(), 'fvol/status', { status: { phase: 'Available' } });
      assert.equal(await now().ok(['get', 'fvol', 'status', '-o', 'jsonpath={.status}']), '');
      await merge(now(), 'fvol/status', { status: { phase: 'Available' }, spec: { size: '9Gi' } }, '--subresource=status');
      assert.equal(await now().ok(['get', 'fvol', 'status', '-o', 'jsonpath={.status.phase} {.spec.size}']), 'Available 1Gi');
    });

    it('refuses a strategic merge and names what is accepted', async () => {
      await create(now(), 'strategic');
      const refusal = await now().refused(['patch', 'fvol', 'strategic', '-p', '{"spec":{"size":"2Gi"}}']);
      assert.match(refusal, /^error: application\/strategic-merge-patch\+json is not supported by flock\.dev\/v1alpha1, Kind=Volume: /u);
      assert.match(refusal, /application\/merge-patch\+json/u);
    });
  });
}

function waiting(now: Now): void {
  describe('wait', () => {
    const READY = { type: 'Ready', status: 'True', reason: 'Fine', message: 'fine', lastTransitionTime: '2026-01-01T00:00:00Z' };

    it('ends when a field gets its value', async () => {
      await create(now(), 'phased');
      const waited = now().ok(['wait', 'fvol/phased', '--for=jsonpath={.status.phase}=Available', '--timeout=20s']);
      await merge(now(), 'fvol/phased', { status: { phase: 'Pending' } }, '--subresource=status');
      await merge(now(), 'fvol/phased', { status: { phase: 'Available' } }, '--subresource=status');
      assert.equal(await waited, 'volume.flock.dev/phased condition met\n');
    });

    it('ends when a condition is met', async () => {
      await create(now(), 'conditioned');
      const waited = now().ok(['wait', 'fvol/conditioned', '--for=condition=Ready', '--timeout=20s']);
      await merge(now(), 'fvol/conditioned', { status: { conditions: [READY] } }, '--subresource=status');
      assert.equal(await waited, 'volume.flock.dev/conditioned condition met\n');
    });

    it('ends when what it waits for appears, and when it disappears', async () => {
      const appears = now().ok(['wait', 'fvol/awaited', '--for=create', '--timeout=20s']);
      await create(now(), 'awaited');
      assert.equal(await appears, 'volume.flock.dev/awaited condition met\n');
      const disappears = now().ok(['wait', 'fvol/awaited', '--for=delete', '--timeout=20s']);
      await now().ok(['delete', 'fvol', 'awaited']);
      // Nothing is said when it was gone before the wait began.
      assert.match(await disappears, /^(volume\.flock\.dev\/awaited condition met\n)?$/u);
    });

    it('says what it waited for in vain', async () => {
      await create(now(), 'vain');
      const refusal = await now().refused(['wait', 'fvol/vain', '--for=condition=Ready', '--timeout=1s']);
      assert.equal(refusal, 'error: timed out waiting for the condition on volumes/vain\n');
    });
  });
}

function deleting(now: Now): void {
  describe('delete', () => {
    it('removes', async () => {
      await create(now(), 'removed');
      assert.equal(await now().ok(['delete', 'fvol', 'removed']), 'volume.flock.dev "removed" deleted\n');
      await now().refused(['get', 'fvol', 'removed']);
    });

    it('waits until the finalizers are gone', async () => {
      await create(now(), 'held', { finalizers: ['flock.dev/test'] });
      let over = false;
      const deleted = now()
        .ok(['delete', 'fvol', 'held', '--timeout=20s'])
        .finally(() => (over = true));
      await now().ok(['wait', 'fvol/held', '--for=jsonpath={.metadata.deletionTimestamp}', '--timeout=20s']);
      assert.equal(over, false);
      await merge(now(), 'fvol/held', { metadata: { finalizers: null } });
      assert.equal(await deleted, 'volume.flock.dev "held" deleted\n');
    });

    it('does not wait when it is told so', async () => {
      await create(now(), 'unwaited', { finalizers: ['flock.dev/test'] });
      assert.equal(await now().ok(['delete', 'fvol', 'unwaited', '--wait=false']), 'volume.flock.dev "unwaited" deleted\n');
      await merge(now(), 'fvol/unwaited', { metadata: { finalizers: null } });
      await now().ok(['wait', 'fvol/unwaited', '--for=delete', '--timeout=20s']);
    });

    it('removes what a selector matches, and says when it matches nothing', async () => {
      for (const name of ['many-1', 'many-2', 'few-1']) await create(now(), name, { labels: { many: String(name.startsWith('many')) } });
      const answer = await now().ok(['delete', 'fvol', '-l', 'many=true']);
      assert.equal(answer, 'volume.flock.dev "many-1" deleted\nvolume.flock.dev "many-2" deleted\n');
      assert.equal(await now().ok(['delete', 'fvol', '-l', 'many=true']), 'No resources found\n');
      assert.equal(await now().ok(['delete', 'fvol', 'many-1', '--ignore-not-found']), '');
    });
  });
}

function refusing(now: Now): void {
  const SOME: readonly { asked: string; words: string[]; input?: string; told: string }[] = [
    {
      asked: 'a missing volume',
      words: ['get', 'fvol', 'none'],
      told: 'Error from server (NotFound): volumes.flock.dev "none" not found\n',
    },
    {
      asked: 'the deletion of a missing volume',
      words: ['delete', 'fvol', 'none'],
      told: 'Error from server (NotFound): volumes.flock.dev "none" not found\n',
    },
    { asked: 'an unknown kind', words: ['get', 'nothings'], told: 'error: the server doesn\'t have a resource type "nothings"\n' },
    {
      asked: 'a name that is taken',
      words: ['create', '-f', '-'],
      input: volume('refused'),
      told: 'Error from server (AlreadyExists): error when creating "STDIN": volumes.flock.dev "refused" already exists\n',
    },
    {
      asked: 'a size of nothing',
      words: ['create', '-f', '-'],
      input: volume('zero', { spec: { size: '0' } }),
      told: 'The Volume "zero" is invalid: spec.size: Invalid value: "0": size must be more than 0\n',
    },
    {
      asked: 'another pool',
      words: ['patch', 'fvol', 'refused', '--type=merge', '-p', '{"spec":{"pool":"other"}}'],
      told: 'The Volume "refused" is invalid: spec: Invalid value: pool cannot change\n',
    },
    {
      asked: 'a smaller size',
      words: ['patch', 'fvol', 'refused', '--type=merge', '-p', '{"spec":{"size":"1Mi"}}'],
      told: 'The Volume "refused" is invalid: spec.size: Invalid value: a volume cannot shrink below its real size (status.capacity)\n',
    },
    {
      asked: 'an older version',
      words: ['replace', '-f', '-'],
      input: volume('refused', { resourceVersion: '1', spec: { pool: 'local', size: '2Gi' } }),
      told: 'Error from server (Conflict): error when replacing "STDIN": Operation cannot be fulfilled on volumes.flock.dev "refused": the object has been modified; please apply your changes to the latest version and try again\n',
    },
    {
      asked: 'the replacement of a missing volume',
      words: ['replace', '-f', '-'],
      input: volume('none'),
      told: 'Error from server (NotFound): error when replacing "STDIN": volumes.flock.dev "none" not found\n',
    },
    {
      asked: 'an unknown field',
      words: ['create', '-f', '-'],
      input: volume('odd', { spec: { colour: 'red' } }),
      told: 'Error from server (BadRequest): error when creating "STDIN": Volume in version "v1alpha1" cannot be handled as a Volume: strict decoding error: unknown field "spec.colour"\n',
    },
  ];

  const OTHERS: readonly { asked: string; words: string[]; input?: string; told: RegExp }[] = [
    {
      asked: 'a filesystem that nobody has, with all that are',
      words: ['create', '-f', '-'],
      input: volume('zfs', { spec: { filesystem: 'zfs' } }),
      told: /^The Volume "zfs" is invalid:\s[^]*spec\.filesystem: Unsupported value: "zfs": supported values: "ext4", "xfs", "btrfs"/u,
    },
    {
      asked: 'a size that is none',
      words: ['create', '-f', '-'],
      input: volume('huge', { spec: { size: 'huge' } }),
      told: /^The Volume "huge" is invalid:\s[^]*spec\.size: Invalid value: "huge": spec\.size in body should match /u,
    },
    {
      asked: 'a name that is none',
      words: ['create', '-f', '-'],
      input: volume('Bad_Name'),
      told: /^The Volume "Bad_Name" is invalid: metadata\.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain must consist of lower case/u,
    },
    {
      asked: 'a field selector that the kind does not have',
      words: ['get', 'fvol', '--field-selector', 'spec.size=1Gi'],
      told: /^Error from server \(BadRequest\): [^]*field label not supported: spec\.size/u,
    },
    {
      asked: 'a label selector that cannot be read',
      words: ['get', 'fvol', '-l', 'a in b'],
      told: /^Error from server \(BadRequest\): [^]*unable to parse/u,
    },
  ];

  describe('refusals', () => {
    before(async () => {
      await create(now(), 'refused', { spec: { pool: 'local', size: '2Gi' } });
    });
    for (const { asked, words, input, told } of SOME) {
      it(`names ${asked}`, async () => assert.equal(await now().refused(words, input), told));
    }
    for (const { asked, words, input, told } of OTHERS) {
      it(`names ${asked}`, async () => assert.match(await now().refused(words, input), told));
    }
  });
}
