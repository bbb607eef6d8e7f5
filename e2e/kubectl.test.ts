// A real kubectl on a real kube-apiserver, and the same on our own server.
import { startCluster } from './kube/cluster.ts';
import { installDefinitions } from './kube/definitions.ts';
import { kubectlContract } from './kubectl-contract.ts';
import { startOwnServer } from './own-server.ts';

kubectlContract('kubectl on kube-apiserver', async () => {
  const cluster = await startCluster();
  await installDefinitions(cluster.kubectl);
  return { kubectl: cluster.kubectl, close: () => cluster.stop() };
});

kubectlContract('kubectl on flockctl server', startOwnServer);
