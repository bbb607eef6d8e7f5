// The contract of the API and the generated CRDs, held against a real kube-apiserver: the original. What this file finds wrong is
// wrong in src/model or src/api.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { clientContract } from '../src/api/contract.ts';
import { heartbeat, leadWhenElected, nodeLease } from '../src/api/election.ts';
import { eventRecorder } from '../src/api/event-recorder.ts';
import { httpClient, type HttpClient } from '../src/api/http-client.ts';
import { informer } from '../src/api/informer.ts';
import type { Log } from '../src/api/log.ts';
import { systemClock } from '../src/model/clock.ts';
import { crdOf, type CustomResourceDefinition } from '../src/model/crd.ts';
import { isReason } from '../src/model/errors.ts';
import { FLOCK_KINDS } from '../src/model/kinds.ts';
import { GROUP_VERSION, SYSTEM_NAMESPACE } from '../src/model/meta.ts';
import { Events, Leases } from '../src/model/system.ts';
import { Volumes, type Volume } from '../src/model/volume.ts';
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
      // NonStructuralSchema would be a third one.
      assert.deepEqual(conditions.map(({ type, status }) => `${type}=${status}`).toSorted(), ['Established=True', 'NamesAccepted=True']);
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

function connected(): HttpClient {
  const { url, ca, cert, key } = cluster;
  return httpClient({ server: url, authority: () => ca, identity: () => ({ certificate: cert, key }) });
}

clientContract('kube-apiserver', async () => {
  const client = connected();
  return { client, namespace: SYSTEM_NAMESPACE, close: () => client.close() };
});

describe('what our processes say to kube-apiserver', { timeout: 60_000 }, () => {
  /** Whatever would be worth a warning fails the test. */
  const refuse = (fields: object, message: string): never => assert.fail(`${message} ${JSON.stringify(fields)}`);
  const log: Log = { debug: () => {}, info: () => {}, warn: refuse, error: refuse };
  const volume = (name: string): Volume => ({ apiVersion: GROUP_VERSION, kind: 'Volume', metadata: { name }, spec: { size: '1Gi' } });
  const around = { clock: systemClock, random: Math.random, log };
  let client: HttpClient;

  before(() => {
    client = connected();
  });
  after(() => client.close());

  it('is a heartbeat that is renewed', async () => {
    const end = new AbortController();
    const beating = heartbeat({ client, node: 'node-1', renew: 200, ...around }).start(end.signal);
    const name = nodeLease('node-1');
    const seen = new Set<string>();
    const watched = { resourceVersion: '0', fieldSelector: `metadata.name=${name}`, namespace: SYSTEM_NAMESPACE, signal: end.signal };
    for await (const event of client.watch(Leases, watched)) {
      if (event.type !== 'BOOKMARK') seen.add(event.object.spec.renewTime ?? '');
      if (seen.size === 3) break;
    }
    end.abort();
    await beating;
    const { spec } = await client.get(Leases, name, SYSTEM_NAMESPACE);
    assert.deepEqual([spec.holderIdentity, spec.leaseDurationSeconds], ['node-1', 40]);
  });

  it('is an election: one leads, and the next one after it let go', async () => {
    const order: string[] = [];
    const run = (identity: string): Promise<void> =>
      leadWhenElected({ client, lease: 'e2e', identity, renew: 200, ...around }, new AbortController().signal, async () => {
        order.push(`${identity} begins`);
        await client.get(Leases, 'e2e', SYSTEM_NAMESPACE);
        order.push(`${identity} ends`);
      });
    await Promise.all([run('a'), run('b')]);
    const [first = ''] = order;
    const leader = first[0] ?? '';
    const other = leader === 'a' ? 'b' : 'a';
    assert.deepEqual(order, [`${leader} begins`, `${leader} ends`, `${other} begins`, `${other} ends`]);
  });

  it('is an event about a volume, counted when it is said again', async () => {
    const about = await client.create(Volumes, volume('told'));
    const recorder = eventRecorder({ client, component: 'flock-agent', instance: 'node-1', ...around });
    for (let times = 0; times < 2; times++) {
      recorder.record(about, 'Warning', 'NoSpace', 'pool local is 100% full');
      await recorder.flush();
    }
    const { items } = await client.list(Events, { fieldSelector: `involvedObject.uid=${about.metadata.uid}` });
    assert.deepEqual(
      items.map(({ reason, count, source }) => [reason, count, source?.component]),
      [['NoSpace', 2, 'flock-agent']],
    );
  });

  it('is an informer that follows what others change', async () => {
    const end = new AbortController();
    const volumes = informer(client, Volumes, { fieldSelector: 'metadata.name=followed', ...around });
    const running = volumes.start(end.signal);
    await volumes.synced;
    const sizes: (string | null)[] = [];
    const gone = new Promise<void>((resolve) => {
      volumes.onChange((_key, object) => {
        sizes.push(object?.spec.size ?? null);
        if (object === null) resolve();
      });
    });
    await client.create(Volumes, volume('followed'));
    await client.patch(Volumes, 'followed', { spec: { size: '2Gi' } });
    await client.delete(Volumes, 'followed');
    await gone;
    end.abort();
    await running;
    assert.deepEqual(sizes, ['1Gi', '2Gi', null]);
  });

  it('is told that a version is too old to watch from', async () => {
    const watch = async (): Promise<void> => {
      for await (const event of client.watch(Volumes, { resourceVersion: '1' })) assert.equal(event.type, 'BOOKMARK');
    };
    await assert.rejects(watch(), (error) => isReason(error, 'Expired'));
  });
});
