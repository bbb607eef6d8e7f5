// What an agent may write in a cluster: its own node's part, by its token alone. The same rules as src/api/access.ts, held by the API server.
// Every write is a dry run. Needs a cluster as csi.test.ts.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { NAMESPACE } from './flock/chart.ts';
import { claim, pod } from './flock/objects.ts';
import { scenario } from './flock/scenario.ts';

const flock = scenario();
const AGENT = `system:serviceaccount:${NAMESPACE}:flock-agent`;
const MARK = 'authentication.kubernetes.io/node-name';

interface Stored {
  metadata: { name: string };
  status: { [field: string]: unknown };
}

const agentOf = (node: string | null): string[] => [`--as=${AGENT}`, ...(node === null ? [] : [`--as-user-extra=${MARK}=${node}`])];

/** The object as it is, with another status, as the agent of a node would write it. */
async function write(
  node: string | null,
  resource: string,
  change: (status: Stored['status']) => object,
): Promise<{ code: number; stderr: string }> {
  const object = JSON.parse(await flock.cluster.kubectl.ok(['get', ...resource.split(' '), '-o', 'json'])) as Stored;
  const input = JSON.stringify({ ...object, status: change(object.status) });
  return flock.cluster.kubectl.answer([...agentOf(node), 'replace', '--subresource=status', '--dry-run=server', '-f', '-'], input);
}

async function allowed(...[node, resource, change]: Parameters<typeof write>): Promise<void> {
  const { code, stderr } = await write(node, resource, change);
  assert.equal(code, 0, stderr);
}

async function refused(why: RegExp, ...[node, resource, change]: Parameters<typeof write>): Promise<void> {
  const { code, stderr } = await write(node, resource, change);
  assert.notEqual(code, 0, 'it was allowed');
  assert.match(stderr, why);
}

const another = (status: Stored['status']): object => ({ ...status, kernel: 'another' });
const copies =
  (change: (copy: { [field: string]: unknown }) => object | null) =>
  (status: Stored['status']): object => {
    const entries = Object.entries(status['copies'] as { [copy: string]: { [field: string]: unknown } });
    return {
      ...status,
      copies: Object.fromEntries(
        entries.flatMap(([id, copy]) => {
          const next = change(copy);
          return next === null ? [] : [[id, next]];
        }),
      ),
    };
  };

describe('an agent', () => {
  let volume = '';
  before(async () => {
    const own = await flock.space('rights');
    await own.apply(claim('rights'), pod('rights', { node: 'node-2' }));
    await own.ready('rights');
    volume = `volumes.flock.dev ${await own.volumeOf('rights')}`;
  });

  it('writes the StorageNode of its own node and no other', async () => {
    await allowed('node-1', 'storagenode node-1', another);
    await refused(/its own node, node-1, and no other/u, 'node-1', 'storagenode node-2', another);
    const drained = (status: Stored['status']): object => ({ ...status, drain: { left: 0, moving: 0, message: '' } });
    await refused(/is drained is not for its agent to say/u, 'node-1', 'storagenode node-1', drained);
    await refused(/not bound to a pod on a node/u, null, 'storagenode node-1', another);
  });

  it("writes its own copies' entries in a Volume and nothing else", async () => {
    await allowed(
      'node-2',
      volume,
      copies((copy) => ({ ...copy, allocated: '1' })),
    );
    await allowed(
      'node-2',
      volume,
      copies(() => null),
    );
    const own = /copies on its own node, and no other/u;
    await refused(
      own,
      'node-1',
      volume,
      copies((copy) => ({ ...copy, allocated: '1' })),
    );
    await refused(
      own,
      'node-1',
      volume,
      copies((copy) => ({ ...copy, node: 'node-1' })),
    );
    await refused(
      own,
      'node-1',
      volume,
      copies(() => null),
    );
    await refused(/and nothing else of a Volume/u, 'node-2', volume, (status) => ({ ...status, phase: 'Pending' }));
  });

  it('writes no spec, reads no Secret, and makes no Volume', async () => {
    const may = async (...words: string[]): Promise<string> =>
      (await flock.cluster.kubectl.answer([...agentOf('node-1'), 'auth', 'can-i', ...words])).stdout.trim();
    for (const words of [
      ['update', 'volumes.flock.dev'],
      ['create', 'volumes.flock.dev'],
      ['delete', 'volumes.flock.dev'],
      ['create', 'moves.flock.dev'],
      ['delete', 'storagenodes.flock.dev'],
      ['get', 'secrets', '-n', NAMESPACE],
      ['list', 'pods'],
      ['get', 'nodes'],
    ])
      assert.equal(await may(...words), 'no', words.join(' '));
    assert.equal(await may('get', 'volumes.flock.dev'), 'yes');
  });

  it('is given a certificate only for the node of its own pod', async () => {
    const found = await flock.cluster.kubectl.ok(['get', 'csr', '-o', 'json']);
    const requests = (
      JSON.parse(found) as {
        items: { spec: { signerName: string; extra: { [key: string]: string[] } }; status: { certificate?: string } }[];
      }
    ).items;
    const ours = requests.filter(({ spec }) => spec.signerName === 'flock.dev/agent');
    assert.ok(ours.length >= 3, `${ours.length} requests`);
    for (const { spec, status } of ours) {
      assert.ok(status.certificate, 'it was signed');
      assert.equal(spec.extra[MARK]?.length, 1);
    }
  });
});
