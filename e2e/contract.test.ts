// The contract of the API and the generated CRDs, held against a real kube-apiserver: the original. What this file finds wrong is
// wrong in src/model or src/api.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { clientContract } from '../src/api/contract.ts';
import { httpClient } from '../src/api/http-client.ts';
import { crdOf, type CustomResourceDefinition } from '../src/model/crd.ts';
import { FLOCK_KINDS } from '../src/model/kinds.ts';
import { SYSTEM_NAMESPACE } from '../src/model/meta.ts';
import { startCluster, type Cluster } from './kube/cluster.ts';
import { installDefinitions } from './kube/definitions.ts';

let cluster: Cluster;

const crds = FLOCK_KINDS.map((kind) => crdOf(kind));

before(async () => {
  cluster = await startCluster();
  await installDefinitions(cluster.kubectl);
});
after(async () => {
  await cluster?.stop();
});

interface StoredDefinition extends CustomResourceDefinition {
  status: { conditions: { type: string; status: string; message: string }[] };
}

describe('the custom resource definitions', () => {
  for (const crd of crds) {
    const { name } = crd.metadata;
    const stored = async (): Promise<StoredDefinition> =>
      JSON.parse(await cluster.kubectl.ok(['get', 'crd', name, '-o', 'json'])) as StoredDefinition;

    it(`of ${name} is accepted: names, structure and rules`, async () => {
      const { conditions } = (await stored()).status;
      assert.deepEqual(conditions.map(({ type, status }) => [type, status]).toSorted(), [
        ['Established', 'True'],
        ['NamesAccepted', 'True'],
      ]);
    });

    it(`of ${name} is stored as it was written: no word of its schema is unknown there`, async () => {
      const [sent, kept] = [crd.spec.versions[0], (await stored()).spec.versions[0]];
      assert.deepEqual(kept?.schema, JSON.parse(JSON.stringify(sent?.schema)));
      assert.deepEqual(kept?.additionalPrinterColumns, JSON.parse(JSON.stringify(sent?.additionalPrinterColumns)));
    });

    it(`of ${name} may be applied again without a change`, async () => {
      const before = await stored();
      await cluster.kubectl.ok(['replace', '-f', '-'], JSON.stringify({ ...crd, metadata: { name } }));
      const { generation } = (await stored()).metadata as { generation?: number };
      assert.equal(generation, (before.metadata as { generation?: number }).generation);
    });
  }
});

clientContract('kube-apiserver', async () => {
  const { url, ca, cert, key } = cluster;
  const client = httpClient({ server: url, authority: () => ca, identity: () => ({ certificate: cert, key }) });
  return { client, namespace: SYSTEM_NAMESPACE, close: () => client.close() };
});
