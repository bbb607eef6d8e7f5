// Agents that are killed in each call of a kubelet: the call is carried out by the next life, and nothing is left behind. The kubelet waits longer after
// each failure, so that this takes minutes. Needs a cluster as csi.test.ts.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AGENT_CRASH } from './flock/chart.ts';
import { claim, pod, until } from './flock/objects.ts';
import { scenario } from './flock/scenario.ts';

const flock = scenario();

describe('an agent that is killed', () => {
  // In the order of a volume's life; before the work of the call and after it, when nothing was answered yet.
  const CALLS = ['nodeStageVolume', 'nodePublishVolume', 'nodeExpandVolume', 'nodeUnpublishVolume', 'nodeUnstageVolume'];

  for (const moment of ['begun', 'done'])
    it(`in each call, when it is ${moment}, is back and the call is carried out`, async () => {
      const own = await flock.space(`killed-${moment}`);
      const node = flock.node('node-2');
      const before = await flock.booked();
      const dieAt = (call: string): Promise<string> => node.ok(`echo csi:${call}:${moment} > ${AGENT_CRASH}`);
      const died = (): Promise<void> => until('', async () => (await node.ok(`cat ${AGENT_CRASH} 2>/dev/null || true`)).trim());
      await dieAt(CALLS[0]!);
      await own.apply(claim('life', { size: '64Mi' }), pod('life', { node: 'node-2', script: 'echo written > /data/file' }));
      await died();
      await dieAt(CALLS[1]!);
      await own.ready('life');
      await died();
      await dieAt(CALLS[2]!);
      await own.ok('patch', 'pvc/life', '--type=merge', '-p', JSON.stringify({ spec: { resources: { requests: { storage: '128Mi' } } } }));
      await until('128Mi', () => own.get('pvc/life', '.status.capacity.storage'));
      await died();
      assert.equal(await own.inPod('life', 'cat /data/file'), 'written\n');
      await dieAt(CALLS[3]!);
      await own.ok('delete', 'pod', 'life', '--wait=false');
      await died();
      await dieAt(CALLS[4]!);
      await until('', async () => (await own.ok('get', 'pod', 'life', '--ignore-not-found', '-o', 'name')).trim());
      await died();
      await own.gone('pvc/life');
      await until(before, flock.booked);
      assert.equal((await node.ok("grep -c 'kubernetes.io~csi' /proc/self/mountinfo || true")).trim(), '0');
    });
});
