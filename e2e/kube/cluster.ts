// A real kube-apiserver with an etcd of its own, on loopback, in a temporary folder: the original that Flock's API is measured against.
// No kubelet, no controllers: a namespace never ends its deletion, nothing runs pods.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { accountsKey, issue, kubeconfigOf, signedBy } from './credentials.ts';
import { Kubectl, programs, run, tail, type Programs, type Running } from './programs.ts';

export interface Cluster {
  /** https://127.0.0.1:PORT */
  url: string;
  /** PEM: the server's authority, and a certificate and key of its administrator. */
  ca: string;
  cert: string;
  key: string;
  /** Path of a kubeconfig of the administrator. */
  kubeconfig: string;
  kubectl: Kubectl;
  /** Ends both servers and removes everything. */
  stop(): Promise<void>;
}

/** Starts one and waits until it is ready (seconds; minutes when the programs must be built first). */
export async function startCluster(): Promise<Cluster> {
  const built = await programs();
  const folder = await mkdtemp(join(tmpdir(), 'flock-kube-'));
  const running: Running[] = [];
  const stop = async (): Promise<void> => {
    for (const one of running.reverse()) await one.kill();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await credentials(folder);
    const url = await serve(built, folder, running);
    return { ...(await connection(folder, url, built)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function serve(built: Programs, folder: string, running: Running[]): Promise<string> {
  const socket = `unix://${folder}/etcd.sock`;
  const etcd = run(built.etcd, etcdFlags(folder, socket), join(folder, 'etcd.log'));
  running.push(etcd);
  // Between choosing a port and binding it another program may take it: then another one is chosen.
  for (let tries = 0; ; tries++) {
    const port = await freePort();
    const log = join(folder, `apiserver-${tries}.log`);
    const server = run(built.apiserver, apiserverFlags(folder, socket, port), log);
    running.push(server);
    const trouble = await readiness(folder, port, () => etcd.ended() ?? server.ended());
    if (trouble === null) return `https://127.0.0.1:${port}`;
    if (etcd.ended() !== null) throw new Error(`etcd: ${trouble}\n${await tail(join(folder, 'etcd.log'))}`);
    const text = await tail(log);
    if (!text.includes('address already in use') || tries === 2) throw new Error(`kube-apiserver: ${trouble}\n${text}`);
  }
}

const etcdFlags = (folder: string, socket: string): string[] => [
  `--data-dir=${folder}/etcd`,
  '--unsafe-no-fsync',
  `--listen-client-urls=${socket}`,
  // What it advertises must be host and port. Nobody asks for it: it has no peers, and its one client has the socket.
  '--advertise-client-urls=http://127.0.0.1:2379',
  `--listen-peer-urls=unix://${folder}/peer.sock`,
];

const apiserverFlags = (folder: string, etcd: string, port: number): string[] => [
  `--etcd-servers=${etcd}`,
  '--bind-address=127.0.0.1',
  '--advertise-address=127.0.0.1',
  `--secure-port=${port}`,
  // The Service "kubernetes" would need an address that is not loopback.
  '--endpoint-reconciler-type=none',
  '--service-cluster-ip-range=10.96.0.0/16',
  `--tls-cert-file=${folder}/server.crt`,
  `--tls-private-key-file=${folder}/server.key`,
  `--client-ca-file=${folder}/ca.crt`,
  '--service-account-issuer=https://kubernetes.default.svc',
  `--service-account-key-file=${folder}/accounts.key`,
  `--service-account-signing-key-file=${folder}/accounts.key`,
  '--authorization-mode=RBAC',
];

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done, failed) => server.once('error', failed).listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

/** Null once it answers that it is ready; else why it never will. */
async function readiness(folder: string, port: number, ended: () => string | null): Promise<string | null> {
  const [ca, cert, key] = await pems(folder);
  const until = Date.now() + 120_000;
  while (Date.now() < until) {
    if ((await statusOf({ ca, cert, key, port })) === 200) return null;
    const end = ended();
    if (end !== null) return `ended with ${end}`;
    await pause(50);
  }
  return 'not ready after 120 s';
}

const statusOf = (to: { ca: string; cert: string; key: string; port: number }): Promise<number> =>
  new Promise((answered) => {
    const asked = request({ ...to, host: '127.0.0.1', path: '/readyz', agent: false, timeout: 5_000 }, (response) => {
      response.resume();
      answered(response.statusCode ?? 0);
    });
    asked.on('error', () => answered(0)).on('timeout', () => asked.destroy(new Error('time-out')));
    asked.end();
  });

const pems = async (folder: string): Promise<[string, string, string]> => [
  await readFile(join(folder, 'ca.crt'), 'utf8'),
  await readFile(join(folder, 'admin.crt'), 'utf8'),
  await readFile(join(folder, 'admin.key'), 'utf8'),
];

async function connection(folder: string, url: string, built: Programs): Promise<Omit<Cluster, 'stop'>> {
  const [ca, cert, key] = await pems(folder);
  const kubeconfig = join(folder, 'kubeconfig');
  await writeFile(kubeconfig, kubeconfigOf({ url, ca, cert, key }), { mode: 0o600 });
  return { url, ca, cert, key, kubeconfig, kubectl: new Kubectl(built.kubectl, kubeconfig, join(folder, 'kubectl')) };
}

/** An authority, the server's and the administrator's certificate (system:masters may do everything), the key of service accounts. */
async function credentials(folder: string): Promise<void> {
  await accountsKey(join(folder, 'accounts.key'));
  await issue(folder, 'ca', '/CN=e2e', []);
  await issue(folder, 'server', '/CN=kube-apiserver', signedBy(folder, 'subjectAltName=IP:127.0.0.1'));
  await issue(folder, 'admin', '/O=system:masters/CN=admin', signedBy(folder, 'extendedKeyUsage=clientAuth'));
}
