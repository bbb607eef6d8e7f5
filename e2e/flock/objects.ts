// Claims and pods as scenarios need them, and waiting for what the cluster says of them. Must not know a scenario.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import type { Kubectl } from '../kube/programs.ts';

export interface ClaimOptions {
  size?: string;
  storageClass?: string;
  mode?: 'ReadWriteOnce' | 'ReadWriteOncePod' | 'ReadWriteMany';
  block?: boolean;
  /** What it begins with. */
  source?: { kind: 'VolumeSnapshot' | 'PersistentVolumeClaim'; name: string };
}

export function claim(name: string, options: ClaimOptions = {}): object {
  const { size = '64Mi', storageClass, mode = 'ReadWriteOnce', block = false, source } = options;
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name },
    spec: {
      accessModes: [mode],
      volumeMode: block ? 'Block' : 'Filesystem',
      ...(storageClass === undefined ? {} : { storageClassName: storageClass }),
      ...(source === undefined ? {} : { dataSource: { ...source, ...(source.kind === 'VolumeSnapshot' ? { apiGroup: SNAPSHOTS } : {}) } }),
      resources: { requests: { storage: size } },
    },
  };
}

const SNAPSHOTS = 'snapshot.storage.k8s.io';

/** Of a claim, in the default class of snapshots. */
export const snapshot = (name: string, persistentVolumeClaimName: string): object => ({
  apiVersion: `${SNAPSHOTS}/v1`,
  kind: 'VolumeSnapshot',
  metadata: { name },
  spec: { source: { persistentVolumeClaimName } },
});

export interface PodOptions {
  /** By default one that is called like the pod. */
  claims?: readonly string[];
  block?: boolean;
  node?: string;
  /** What it runs before it sleeps for ever; the volume is /data or /dev/data, further ones /data1 and so on. */
  script?: string;
  labels?: { [name: string]: string };
}

export function pod(name: string, options: PodOptions = {}): object {
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name, labels: options.labels ?? {} }, spec: podSpec(name, options) };
}

function podSpec(name: string, { claims = [name], block = false, node, script = 'true' }: PodOptions = {}): object {
  const names = claims.map((each, index) => ({ claim: each, name: index === 0 ? 'data' : `data${index}` }));
  const places = block
    ? { volumeDevices: names.map((each) => ({ name: each.name, devicePath: `/dev/${each.name}` })) }
    : { volumeMounts: names.map((each) => ({ name: each.name, mountPath: `/${each.name}` })) };
  return {
    terminationGracePeriodSeconds: 0,
    ...(node === undefined ? {} : { nodeSelector: { 'kubernetes.io/hostname': node } }),
    containers: [
      {
        name: 'main',
        image: 'busybox:local',
        imagePullPolicy: 'Never',
        command: ['sh', '-c', `set -e; ${script}; trap 'exit 0' TERM; sleep 1000000 & wait`],
        ...places,
      },
    ],
    volumes: names.map((each) => ({ name: each.name, persistentVolumeClaim: { claimName: each.claim } })),
  };
}

/** One pod of a Deployment on a node, as its application sees it: it writes down where it starts, and 30 MB that it can prove. */
export function application(name: string, node: string, claims: readonly string[] = [name]): object {
  const script = `echo $HOSTNAME >> /data/starts; [ -f /data/sum ] || { head -c 30000000 /dev/urandom > /data/big; md5sum /data/big > /data/sum; sync; }; touch /tmp/ready`;
  const spec = podSpec(name, { claims, node, script }) as { containers: object[] };
  const [container] = spec.containers;
  spec.containers = [{ ...container, readinessProbe: { exec: { command: ['test', '-e', '/tmp/ready'] }, periodSeconds: 1 } }];
  const template = { metadata: { labels: { app: name } }, spec };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name },
    spec: { replicas: 1, strategy: { type: 'Recreate' }, selector: { matchLabels: { app: name } }, template },
  };
}

const LONGEST = 400_000;

/** Waits until `seen` answers what is wanted. */
export async function until<T>(wanted: T, seen: () => Promise<T>, longest = LONGEST): Promise<void> {
  const end = Date.now() + longest;
  for (let last = await seen(); ; last = await seen()) {
    try {
      assert.deepEqual(last, wanted);
      return;
    } catch (error) {
      if (Date.now() > end) throw error;
    }
    await pause(300);
  }
}

interface Named {
  metadata: { name: string };
}

/** A namespace of one scenario, and what happens in it. */
export class Space {
  readonly name: string;
  readonly kubectl: Kubectl;

  constructor(kubectl: Kubectl, name: string) {
    this.kubectl = kubectl;
    this.name = name;
  }

  async make(): Promise<void> {
    await this.kubectl.ok(['create', 'namespace', this.name]);
  }

  /** All that is in it goes, volumes too. */
  async end(): Promise<void> {
    await this.kubectl.ok(['delete', 'namespace', this.name, '--ignore-not-found', '--wait=false']);
    await until('', async () => (await this.kubectl.ok(['get', 'namespace', this.name, '--ignore-not-found', '-o', 'name'])).trim());
    await until([], () => this.volumes());
  }

  /** Names of the PersistentVolumes of its claims. */
  async volumes(): Promise<string[]> {
    const found = await items<Named & { spec: { claimRef?: { namespace: string } } }>(this.kubectl, 'persistentvolumes');
    return found.filter(({ spec }) => spec.claimRef?.namespace === this.name).map(({ metadata }) => metadata.name);
  }

  ok(...words: string[]): Promise<string> {
    return this.kubectl.ok(['-n', this.name, ...words]);
  }

  apply(...objects: object[]): Promise<string> {
    return this.kubectl.ok(['-n', this.name, 'apply', '-f', '-'], JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }));
  }

  get(resource: string, path: string): Promise<string> {
    return this.ok('get', resource, '-o', `jsonpath={${path}}`);
  }

  /** Waits until they are Ready; says what the cluster says of them when they are not. */
  async ready(...pods: string[]): Promise<void> {
    for (const name of pods) {
      const seen = (): Promise<string> => this.get(`pod/${name}`, '.status.conditions[?(@.type=="Ready")].status');
      await until('True', seen).catch(async (error: unknown) => {
        throw new Error(`pod ${name} is not Ready: ${await this.ok('get', 'events', '--sort-by=.lastTimestamp')}`, { cause: error });
      });
    }
  }

  /** In a pod, by sh. */
  inPod(name: string, script: string): Promise<string> {
    return this.ok('exec', name, '--', 'sh', '-c', script);
  }

  /** Waits until the one pod of a Deployment, as it is ordered now, is Ready. */
  async available(name: string): Promise<void> {
    const ordered = await this.get(`deployment/${name}`, '.metadata.generation');
    const path = '{.status.observedGeneration} {.status.updatedReplicas} {.status.replicas} {.status.availableReplicas}';
    await until(`${ordered} 1 1 1`, () => this.ok('get', `deployment/${name}`, '-o', `jsonpath=${path}`));
  }

  /** In the pod of a Deployment, by sh. */
  inApplication(name: string, script: string): Promise<string> {
    return this.ok('exec', `deployment/${name}`, '--', 'sh', '-c', script);
  }

  /** Orders a larger size, and waits until the claim has it. */
  async grow(claimName: string, size: string): Promise<void> {
    await this.ok(
      'patch',
      `pvc/${claimName}`,
      '--type=merge',
      '-p',
      JSON.stringify({ spec: { resources: { requests: { storage: size } } } }),
    );
    await until(size, () => this.get(`pvc/${claimName}`, '.status.capacity.storage'));
  }

  async gone(...resources: string[]): Promise<void> {
    await this.ok('delete', ...resources, '--wait=false');
    for (const each of resources) await until('', async () => (await this.ok('get', each, '--ignore-not-found', '-o', 'name')).trim());
  }

  nodeOf(podName: string): Promise<string> {
    return this.get(`pod/${podName}`, '.spec.nodeName');
  }

  volumeOf(claimName: string): Promise<string> {
    return this.get(`pvc/${claimName}`, '.spec.volumeName');
  }

  /** Messages of all events about an object, the newest last. */
  async events(kind: string, name: string): Promise<string> {
    return this.ok(
      'get',
      'events',
      `--field-selector=involvedObject.kind=${kind},involvedObject.name=${name}`,
      '-o',
      'jsonpath={.items[*].message}',
    );
  }
}

export async function items<T>(kubectl: Kubectl, resource: string, ...words: string[]): Promise<T[]> {
  return (JSON.parse(await kubectl.ok(['get', resource, '-o', 'json', ...words])) as { items: T[] }).items;
}
