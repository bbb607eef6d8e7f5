// The programs of a cluster's control plane, with the flags that each is started with, and their credentials. One of each; all run on the
// machine itself, inside the cluster's namespace. Must not know the nodes.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { accountsKey, issue, kubeconfigOf, signedBy } from '../kube/credentials.ts';
import { tail, type Kubectl } from '../kube/programs.ts';
import { kill, launch, logOf, pidOf } from './background.ts';
import type { Built } from './built.ts';
import { GATEWAY, PODS, SERVICES } from './network.ts';
import type { Place } from './place.ts';

export const SERVERS = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kube-proxy', 'coredns'] as const;
export type ServerName = (typeof SERVERS)[number];

const API = `https://${GATEWAY}:6443`;
const ETCD = 'http://127.0.0.1:2379';

type Subjects = Record<string, string>;

/** Whom the API server knows, by the name of their certificate. */
const SUBJECTS: Subjects = {
  admin: '/O=system:masters/CN=admin',
  'kube-controller-manager': '/CN=system:kube-controller-manager',
  'kube-scheduler': '/CN=system:kube-scheduler',
};

const flagsOf: { [S in ServerName]: (place: Place) => string[] } = {
  etcd: ({ folder }) => [
    `--data-dir=${folder}/etcd`,
    // A cluster of tests dies with its machine; without this every write waits for the disk that all nodes share.
    '--unsafe-no-fsync',
    `--listen-client-urls=${ETCD}`,
    `--advertise-client-urls=${ETCD}`,
    '--listen-peer-urls=http://127.0.0.1:2380',
  ],
  'kube-apiserver': ({ credentials }) => [
    `--etcd-servers=${ETCD}`,
    `--bind-address=${GATEWAY}`,
    `--advertise-address=${GATEWAY}`,
    `--tls-cert-file=${credentials}/apiserver.crt`,
    `--tls-private-key-file=${credentials}/apiserver.key`,
    `--client-ca-file=${credentials}/ca.crt`,
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-key-file=${credentials}/accounts.key`,
    `--service-account-signing-key-file=${credentials}/accounts.key`,
    `--service-cluster-ip-range=${SERVICES}`,
    '--authorization-mode=Node,RBAC',
    '--enable-admission-plugins=NodeRestriction',
    '--allow-privileged=true',
    `--kubelet-certificate-authority=${credentials}/ca.crt`,
    `--kubelet-client-certificate=${credentials}/admin.crt`,
    `--kubelet-client-key=${credentials}/admin.key`,
    '--kubelet-preferred-address-types=InternalIP',
  ],
  'kube-controller-manager': ({ credentials }) => [
    ...kubeconfigFlags(`${credentials}/kube-controller-manager.conf`),
    `--service-account-private-key-file=${credentials}/accounts.key`,
    `--root-ca-file=${credentials}/ca.crt`,
    '--use-service-account-credentials',
    // A node is lost after 16 s instead of 50: tests wait for it.
    '--node-monitor-grace-period=16s',
    '--node-monitor-period=2s',
  ],
  'kube-scheduler': ({ credentials }) => kubeconfigFlags(`${credentials}/kube-scheduler.conf`),
  // The nodes' kernel has no nftables NAT: Services are translated here, where all traffic between nodes and Services passes.
  'kube-proxy': ({ credentials }) => [
    `--kubeconfig=${credentials}/admin.conf`,
    '--hostname-override=gateway',
    '--proxy-mode=nftables',
    '--masquerade-all',
    `--cluster-cidr=${PODS}`,
    // Their sysctls are the whole machine's.
    '--conntrack-max-per-core=0',
    '--conntrack-tcp-timeout-established=0',
    '--conntrack-tcp-timeout-close-wait=0',
    `--bind-address=${GATEWAY}`,
  ],
  coredns: ({ credentials }) => ['-conf', `${credentials}/Corefile`],
};

const kubeconfigFlags = (file: string): string[] => [
  `--kubeconfig=${file}`,
  `--authentication-kubeconfig=${file}`,
  `--authorization-kubeconfig=${file}`,
  '--leader-elect=false',
];

const corefile = (place: Place): string => `.:53 {
  bind ${GATEWAY}
  errors
  ready ${GATEWAY}:8181
  cache 5
  kubernetes cluster.local in-addr.arpa ip6.arpa {
    kubeconfig ${place.credentials}/admin.conf
    pods insecure
    ttl 5
  }
}
`;

/** Everything that the programs read: the authority, certificates, kubeconfigs, CoreDNS's configuration. */
export async function writeCredentials(place: Place): Promise<void> {
  await mkdir(place.credentials, { recursive: true, mode: 0o700 });
  await accountsKey(join(place.credentials, 'accounts.key'));
  await issue(place.credentials, 'ca', '/CN=flock-rig', []);
  const names = [GATEWAY, '127.0.0.1', '10.96.0.1'].map((address) => `IP:${address}`);
  const alternatives = [...names, 'DNS:kubernetes', 'DNS:kubernetes.default', 'DNS:kubernetes.default.svc'].join(',');
  await issue(place.credentials, 'apiserver', '/CN=kube-apiserver', signedBy(place.credentials, `subjectAltName=${alternatives}`));
  await Promise.all(Object.entries(SUBJECTS).map(([name, subject]) => writeClient(place, name, subject)));
  await writeFile(join(place.credentials, 'Corefile'), corefile(place));
}

/** Writes NAME.conf, a kubeconfig with a certificate for the subject (/O=group/CN=user), and answers its path. */
export async function writeClient(place: Place, name: string, subject: string): Promise<string> {
  const { credentials } = place;
  await issue(credentials, name, subject, signedBy(credentials, 'extendedKeyUsage=clientAuth'));
  const [ca, cert, key] = await Promise.all(
    ['ca.crt', `${name}.crt`, `${name}.key`].map((file) => readFile(join(credentials, file), 'utf8')),
  );
  const conf = join(credentials, `${name}.conf`);
  await writeFile(conf, kubeconfigOf({ url: API, ca: ca!, cert: cert!, key: key! }), { mode: 0o600 });
  return conf;
}

/** One program of the control plane; a kill and a start later it finds what etcd kept. */
export class Server {
  readonly name: ServerName;
  readonly #place: Place;
  readonly #program: string;

  constructor(name: ServerName, place: Place, built: Built) {
    this.name = name;
    this.#place = place;
    this.#program = name === 'coredns' ? join(built.tools, 'coredns') : built.kubernetes[name]!;
  }

  start(): Promise<void> {
    return launch(this.#place, this.name, [this.#program, ...flagsOf[this.name](this.#place)]);
  }

  kill(): Promise<void> {
    return kill(this.#place, this.name);
  }

  async runs(): Promise<boolean> {
    return (await pidOf(this.#place, this.name)) !== null;
  }

  /** Path of what it printed, over all its lives. */
  get log(): string {
    return logOf(this.#place, this.name);
  }
}

const LONGEST_START = 120_000;

/** Waits until the API server answers that it is ready. Throws with the end of its log when it ended or took too long. */
export async function apiReady(server: Server, kubectl: Kubectl): Promise<void> {
  const until = Date.now() + LONGEST_START;
  while ((await kubectl.answer(['get', '--raw', '/readyz'])).code !== 0) {
    if (!(await server.runs())) throw new Error(`kube-apiserver ended: ${await tail(server.log)}`);
    if (Date.now() > until) throw new Error(`kube-apiserver is not ready after ${LONGEST_START / 1000} s: ${await tail(server.log)}`);
    await pause(100);
  }
}
