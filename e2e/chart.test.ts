// The chart by itself: linted, rendered for three minors of Kubernetes, judged by the API server field by field, and what it refuses. Needs a
// cluster, and installs nothing.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { CHART, helm, NAMESPACE, rigValues, type Values } from './flock/chart.ts';
import { beSnapshotting } from './flock/snapshots.ts';
import { openCluster, type Cluster } from './rig/cluster.ts';

let cluster: Cluster;
before(async () => {
  cluster = await openCluster(process.env['FLOCK_RIG'] ?? 'e2e');
  // Classes of snapshots are judged by them.
  await beSnapshotting(cluster);
});

async function rendered(values: Values, ...words: string[]): Promise<string> {
  const file = join(cluster.place.folder, 'rendered-values.json');
  await writeFile(file, JSON.stringify(values));
  return helm(cluster, 'template', 'flock', CHART, '-n', NAMESPACE, '-f', file, ...words);
}

describe('the chart', () => {
  it('has nothing that helm lint complains of', async () => {
    const file = join(cluster.place.folder, 'lint-values.json');
    await writeFile(file, JSON.stringify(rigValues()));
    assert.match(await helm(cluster, 'lint', CHART, '--strict', '-n', NAMESPACE, '-f', file), /0 chart\(s\) failed/u);
  });

  for (const minor of ['1.33.0', '1.34.0', '1.35.4'])
    it(`has objects without an unknown or wrong field when it is rendered for Kubernetes ${minor}`, async () => {
      const text = await rendered(rigValues(), '--kube-version', minor);
      await cluster.kubectl.answer(['create', 'namespace', NAMESPACE]);
      await cluster.kubectl.ok(['apply', '--dry-run=server', '--validate=strict', '-f', '-'], text);
    });

  it('refuses a Kubernetes that is too old', async () => {
    await assert.rejects(rendered(rigValues(), '--kube-version', '1.32.0'), /incompatible with Kubernetes/u);
  });

  const REFUSED: [string, Values, RegExp][] = [
    ['no image', { image: { repository: '' } }, /image.repository|minLength/u],
    ['a value that it does not know', { pool: [] }, /additional properties 'pool' not allowed/u],
    ['a thin pool without its name', { pools: [{ name: 'thin', type: 'lvm-thin', volumeGroup: 'data' }] }, /missing property 'thinPool'/u],
    ['a folder on LVM', { pools: [{ name: 'data', type: 'lvm', volumeGroup: 'data', path: '/srv/a' }] }, /\/pools\/0\/path/u],
    ['a pool of no type', { pools: [{ name: 'local' }] }, /missing property 'type'/u],
    [
      'a pool at a path with dots',
      { pools: [{ name: 'local', type: 'image', path: '/srv/../etc' }] },
      /does not match pattern|incompatible/u,
    ],
    ['a parameter that is no text', { storageClasses: [{ name: 'a', parameters: { standbys: 1 } }] }, /got number, want string/u],
  ];
  for (const [what, values, why] of REFUSED)
    it(`refuses ${what}`, async () => {
      await assert.rejects(rendered({ ...rigValues(), ...values }, '--kube-version', '1.35.4'), why);
    });

  it('refuses another namespace, for the records are in one', async () => {
    await assert.rejects(
      helm(cluster, 'template', 'flock', CHART, '-n', 'default', '--kube-version', '1.35.4', '--set', 'image.repository=x'),
      /flock-system/u,
    );
  });
});
