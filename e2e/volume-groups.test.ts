// From a volume group to claims in running pods: the lines of the README as they stand there, then thick and thin volumes with the life of
// any other. Needs a cluster as csi.test.ts; best one without Flock, for it is installed here as a person does it the first time.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { documentedValues, install, onRig, rigValues, THICK, THIN } from './flock/chart.ts';
import { application, claim, items, pod, until, type Space } from './flock/objects.ts';
import { nothingLeft, scenario } from './flock/scenario.ts';

const documented = await documentedValues('README.md');
const flock = scenario(onRig(documented));

/** Names of copies and their points in the volume group of every node. */
const onDisks = async (): Promise<string[]> => {
  const seen = await Promise.all(flock.cluster.nodes.map((node) => node.ok('lvs --noheadings -o lv_name data')));
  return seen.flatMap((text) => [...text.matchAll(/[0-9a-f]{8}-[0-9a-f]{4}-\S+/gu)].map(([name]) => name));
};

describe('the lines of the README', () => {
  before(() => install(flock.cluster, onRig(documented)));

  it('are the same in docs/kubernetes.md', async () => {
    assert.deepEqual(await documentedValues('docs/kubernetes.md'), documented);
  });

  it('make a default class of a volume group: a claim that names no class is bound, and its pod writes', async () => {
    const own = await flock.space('documented');
    await own.apply(claim('first'), pod('first', { script: 'echo written > /data/file' }));
    await own.ready('first');
    assert.equal(await own.inPod('first', 'cat /data/file'), 'written\n');
    assert.equal((await onDisks()).length, 1);
    await own.end();
    await until([], onDisks);
  });
});

for (const { pool, storageClass, tools } of [
  { pool: THICK, storageClass: 'flock-data', tools: "the node's LVM" },
  { pool: THIN, storageClass: 'flock-thin', tools: "the image's LVM" },
])
  describe(`a claim of class ${storageClass}, by ${tools}`, () => {
    let own: Space;
    let booked: { [node: string]: string };
    before(async () => {
      await install(flock.cluster, rigValues());
      // Until the agents that run now have told of their pools.
      await until(false, async () => Object.values(await flock.booked(pool)).includes('unknown'));
      booked = await flock.booked(pool);
      own = await flock.space(storageClass);
      await own.apply(claim('app', { size: '160Mi', storageClass }), application('app', 'node-1'));
    });

    it('becomes a logical volume in a pod that writes', async () => {
      await own.available('app');
      assert.equal((await own.inApplication('app', "grep ' /data ' /proc/mounts | cut -d' ' -f3")).trim(), 'ext4');
      assert.equal((await onDisks()).length, 1);
    });

    it('grows while its pod writes', async () => {
      await own.grow('app', '256Mi');
      await until(true, async () => Number(await own.inApplication('app', "df -kP /data | tail -n 1 | awk '{print $2}'")) > 200_000);
      assert.equal(await own.get('pods', '.items[*].status.containerStatuses[0].restartCount'), '0');
    });

    it('is where its next pod is, with every byte', async () => {
      await own.apply(application('app', 'node-2'));
      await own.available('app');
      assert.equal(await own.get('pods', '.items[*].spec.nodeName'), 'node-2');
      assert.match(await own.inApplication('app', 'cd / && md5sum -c /data/sum'), /OK/u);
      const moves = await items<{ status?: { phase?: string } }>(flock.cluster.kubectl, 'moves.flock.dev');
      assert.deepEqual(
        moves.map(({ status }) => /^(Published|Retaining|Done)$/u.test(status?.phase ?? '')),
        [true],
      );
    });

    it('goes with its data and gives all room back, on both nodes', async () => {
      await own.end();
      await nothingLeft(flock);
      await until([], onDisks);
      await until(booked, () => flock.booked(pool));
    });
  });
