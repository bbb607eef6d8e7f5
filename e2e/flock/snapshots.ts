// What Kubernetes needs for snapshots besides a driver, and does not bring along: the definitions and the snapshot controller. Must not know the chart.
import { join } from 'node:path';
import { launch, pidOf } from '../rig/background.ts';
import type { Cluster } from '../rig/cluster.ts';
import { until } from './objects.ts';

const CONTROLLER = 'snapshot-controller';

/** They stay for the cluster's life. */
export async function beSnapshotting({ kubectl, place, built }: Cluster): Promise<void> {
  const definitions = join(built.tools, 'snapshot-crds.yaml');
  await kubectl.ok(['apply', '--server-side', '-f', definitions]);
  await until(true, async () => (await kubectl.answer(['get', 'volumesnapshots', '-A'])).code === 0);
  if ((await pidOf(place, CONTROLLER)) === null)
    await launch(place, CONTROLLER, [join(built.tools, CONTROLLER), '--kubeconfig', kubectl.config, '--v=2']);
}
