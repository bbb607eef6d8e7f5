// The driver replaced while pods write, taken away and installed again: no write fails, no volume is lost. Needs a cluster as csi.test.ts, whose
// Flock it replaces.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { FLOCK_IMAGE, loadFlock } from './flock/images.ts';
import { helm, install, NAMESPACE, rigValues } from './flock/chart.ts';
import { claim, pod, until, type Space } from './flock/objects.ts';
import { nothingLeft, scenario } from './flock/scenario.ts';

const flock = scenario();
const NEXT = `${FLOCK_IMAGE.tag}-next`;

/** Counts in the volume as fast as each write is on its disk, and ends when one fails. */
const COUNTS = '(n=0; while echo $((n += 1)) > /data/count && sync; do sleep 0.2; done; echo failed > /tmp/failed) &';

describe('the driver', () => {
  let own: Space;
  before(async () => {
    own = await flock.space('upgrade');
    await own.apply(
      ...['node-1', 'node-2'].flatMap((node) => [claim(`counter-${node}`), pod(`counter-${node}`, { node, script: COUNTS })]),
    );
    await own.ready('counter-node-1', 'counter-node-2');
  });

  async function writesGoOn(): Promise<void> {
    for (const name of ['counter-node-1', 'counter-node-2']) {
      const count = async (): Promise<number> => Number(await own.inPod(name, 'cat /data/count'));
      const now = await count();
      await until(true, async () => (await count()) > now);
      assert.equal(await own.inPod(name, 'cat /tmp/failed 2>/dev/null || true'), '');
      assert.equal(await own.get(`pod/${name}`, '.status.containerStatuses[0].restartCount'), '0');
    }
  }

  it('is upgraded while pods write and claims are made', async () => {
    await loadFlock(flock.cluster, NEXT);
    const upgraded = install(flock.cluster, rigValues({ image: { tag: NEXT } }));
    await own.apply(claim('meanwhile'), pod('meanwhile'));
    await upgraded;
    await own.ready('meanwhile');
    await writesGoOn();
    const images = await flock.cluster.kubectl.ok(['-n', NAMESPACE, 'get', 'pods', '-o', 'jsonpath={.items[*].spec.containers[0].image}']);
    assert.deepEqual(new Set(images.split(' ')), new Set([`${FLOCK_IMAGE.repository}:${NEXT}`]));
  });

  it('is uninstalled and keeps definitions and records, and pods write on', async () => {
    await helm(flock.cluster, 'uninstall', 'flock', '-n', NAMESPACE, '--wait');
    await writesGoOn();
    assert.match(await flock.cluster.kubectl.ok(['get', 'volumes.flock.dev', '-o', 'name']), /volume.flock.dev/u);
  });

  it('finds everything again when it is installed once more', async () => {
    await install(flock.cluster, rigValues({ image: { tag: NEXT } }));
    await writesGoOn();
    await own.end();
    await nothingLeft(flock);
  });
});
