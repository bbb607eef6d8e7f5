// Volumes that follow their pods, ordered by the scheduler alone: a pod on another node is the order to move. Needs a cluster as csi.test.ts.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { application, claim, items, pod, until, type Space } from './flock/objects.ts';
import { scenario } from './flock/scenario.ts';

const flock = scenario();

interface Move {
  metadata: { name: string };
  spec: { volume: string; target: string };
  status?: { phase?: string };
}

const movesOf = async (volume: string): Promise<string[]> =>
  (await items<Move>(flock.cluster.kubectl, 'moves.flock.dev'))
    .filter(({ spec }) => spec.volume === volume)
    .map(({ spec, status }) => `to ${spec.target}: ${status?.phase ?? 'Pending'}`);

describe('a volume that follows its application', () => {
  let own: Space;
  before(async () => {
    own = await flock.space('moving');
    await own.apply(claim('app', { size: '200Mi', storageClass: 'flock-moving' }), application('app', 'node-1'));
    await own.available('app');
  });

  it('may be on any node with its pool', async () => {
    const volume = await own.volumeOf('app');
    const keys = await flock.cluster.kubectl.ok([
      'get',
      'pv',
      volume,
      '-o',
      'jsonpath={.spec.nodeAffinity.required.nodeSelectorTerms[*].matchExpressions[*].key}',
    ]);
    assert.equal(keys, 'pool.csi.flock.dev/local');
  });

  it('is where its next pod is, with every byte', async () => {
    await own.apply(application('app', 'node-2'));
    await own.available('app');
    assert.equal(await own.get('pods', '.items[*].spec.nodeName'), 'node-2');
    assert.match(await own.inApplication('app', 'cd / && md5sum -c /data/sum'), /OK/u);
    assert.equal((await own.inApplication('app', 'wc -l < /data/starts')).trim(), '2');
    assert.match((await movesOf(await own.volumeOf('app'))).join(), /to node-2: (Retaining|Done)/u);
  });

  it('stays where it is when the pod that it was to follow goes away', async () => {
    await own.apply(claim('slow', { size: '200Mi', storageClass: 'flock-slow' }), application('slow', 'node-2'));
    await own.available('slow');
    const volume = await own.volumeOf('slow');
    await own.ok('delete', 'deployment', 'slow');
    await own.apply(pod('elsewhere', { claims: ['slow'], node: 'node-3' }));
    await until(true, async () => /to node-3: (Reserving|Syncing|Fencing|FinalDelta)/u.test((await movesOf(volume)).join()));
    await own.ok('delete', 'pod', 'elsewhere', '--wait=false');
    await until(['to node-3: Cancelled'], () => movesOf(volume));
    assert.equal(await flock.cluster.kubectl.ok(['get', 'volumes.flock.dev', volume, '-o', 'jsonpath={.spec.node}']), 'node-2');
    await own.apply(application('slow', 'node-2'));
    await own.available('slow');
    assert.match(await own.inApplication('slow', 'cd / && md5sum -c /data/sum'), /OK/u);
  });
});

describe('a volume that does not follow', () => {
  it('keeps its pod on its node', async () => {
    const own = await flock.space('pinned');
    await own.apply(claim('pinned'), pod('pinned', { node: 'node-1' }));
    await own.ready('pinned');
    await own.gone('pod/pinned');
    await own.apply(pod('elsewhere', { claims: ['pinned'], node: 'node-2' }));
    const why = (): Promise<string> => own.get('pod/elsewhere', '.status.conditions[?(@.type=="PodScheduled")].message');
    await until(true, async () =>
      /node\(s\) (had volume node affinity conflict|didn't match PersistentVolume's node affinity)/u.test(await why()),
    );
  });
});
