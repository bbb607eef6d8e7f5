// kubeconfig files, as kubectl reads and writes them, and the service account of a pod: where the server is and who we are to it. Opens
// no connection. What is kept in files is read again when it changed, so that a rotated token or certificate is used without a restart.
import { readFileSync, statSync } from 'node:fs';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { parse, stringify } from 'yaml';
import { FlockError, Invalid, messageOf } from '../model/errors.ts';
import type { Credentials } from './certificates.ts';
import type { ConnectionConfig } from './http-connection.ts';

interface Cluster {
  server?: string;
  'certificate-authority'?: string;
  'certificate-authority-data'?: string;
  'tls-server-name'?: string;
  'insecure-skip-tls-verify'?: boolean;
}

interface User {
  'client-certificate'?: string;
  'client-certificate-data'?: string;
  'client-key'?: string;
  'client-key-data'?: string;
  token?: string;
  tokenFile?: string;
}

interface Context {
  cluster?: string;
  user?: string;
  namespace?: string;
}

interface KubeconfigFile {
  'current-context'?: string;
  contexts?: { name: string; context?: Context }[];
  clusters?: { name: string; cluster?: Cluster }[];
  users?: { name: string; user?: User }[];
}

export interface KubeconfigChoice {
  connection: ConnectionConfig;
  context: string;
  /** The context's default namespace. */
  namespace: string;
}

type Refuse = (why: string) => Invalid;

/** The server and identity of a context, the current one by default. Throws NotFound (no file), Invalid (naming what is wrong in it). */
export function readKubeconfig(file: string, contextName?: string): KubeconfigChoice {
  const found = parsedFile(file);
  const refuse: Refuse = (why) => new Invalid(`kubeconfig ${file} cannot be used: ${why}`);
  const name = contextName ?? found['current-context'];
  if (!name) throw refuse('it has no current-context; pick one with kubectl config use-context');
  const context = found.contexts?.find((entry) => entry.name === name)?.context;
  if (!context) throw refuse(`it has no context ${JSON.stringify(name)}`);
  const folder = dirname(resolve(file));
  const connection = {
    ...clusterOptions(clusterOf(found, context, refuse), folder),
    ...userOptions(userOf(found, context, refuse), folder, refuse),
  };
  return { connection, context: name, namespace: context.namespace ?? 'default' };
}

function clusterOf(found: KubeconfigFile, context: Context, refuse: Refuse): Cluster & { server: string } {
  const cluster = found.clusters?.find((entry) => entry.name === context.cluster)?.cluster;
  if (!cluster?.server) throw refuse(`its context names cluster ${JSON.stringify(context.cluster)}, which has no server there`);
  if (cluster['insecure-skip-tls-verify'])
    throw refuse('insecure-skip-tls-verify is not supported; give the certificate-authority instead');
  return { ...cluster, server: cluster.server };
}

function userOf(found: KubeconfigFile, context: Context, refuse: Refuse): User {
  if (!context.user) return {};
  const user = found.users?.find((entry) => entry.name === context.user)?.user;
  if (!user) throw refuse(`its context names user ${JSON.stringify(context.user)}, which is not there`);
  return user;
}

function parsedFile(file: string): KubeconfigFile {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    throw new FlockError(
      'NotFound',
      `kubeconfig ${file} cannot be read: ${messageOf(cause)}; start a cluster with flockctl up, or use --server`,
      { cause },
    );
  }
  let found: unknown;
  try {
    found = parse(text);
  } catch (cause) {
    throw new Invalid(`kubeconfig ${file} is not YAML: ${messageOf(cause)}`, { cause });
  }
  if (typeof found !== 'object' || found === null) throw new Invalid(`kubeconfig ${file} is empty`);
  return found as KubeconfigFile;
}

type Text = () => string | undefined;

/** Inline base64 wins over a file, as with kubectl; a relative file is beside the kubeconfig. */
function pem(inline: string | undefined, file: string | undefined, folder: string): Text | null {
  if (inline) {
    const text = Buffer.from(inline, 'base64').toString('utf8');
    return () => text;
  }
  return file ? fileText(resolve(folder, file)) : null;
}

/** The file's text, read again when the file changed. */
function fileText(path: string): () => string {
  let known: { stamp: string; text: string } | null = null;
  return () => {
    try {
      const { mtimeMs, ino, size } = statSync(path);
      const stamp = `${mtimeMs} ${ino} ${size}`;
      if (known?.stamp !== stamp) known = { stamp, text: readFileSync(path, 'utf8') };
      return known.text;
    } catch (cause) {
      throw new FlockError('Unauthorized', `${path} cannot be read: ${messageOf(cause)}; without it the server does not know us`, {
        cause,
      });
    }
  };
}

function clusterOptions(cluster: Cluster & { server: string }, folder: string): ConnectionConfig {
  const authority = pem(cluster['certificate-authority-data'], cluster['certificate-authority'], folder);
  const serverName = cluster['tls-server-name'];
  return { server: cluster.server, ...(authority ? { authority } : {}), ...(serverName ? { serverName } : {}) };
}

/** What kubectl runs other programs for. */
const FOREIGN_LOGINS = ['exec', 'auth-provider', 'username', 'password', 'as'];

function userOptions(user: User, folder: string, refuse: Refuse): Partial<ConnectionConfig> {
  const foreign = FOREIGN_LOGINS.find((field) => field in user);
  if (foreign !== undefined)
    throw refuse(`its user logs in by ${JSON.stringify(foreign)}; only client certificates and tokens are supported`);
  const certificate = pem(user['client-certificate-data'], user['client-certificate'], folder);
  const key = pem(user['client-key-data'], user['client-key'], folder);
  if ((certificate === null) !== (key === null)) throw refuse('client-certificate and client-key must be given together');
  const identity = certificate && key ? () => ({ certificate: certificate() ?? '', key: key() ?? '' }) : null;
  const token = tokenOf(user, folder);
  return { ...(identity ? { identity } : {}), ...(token ? { token } : {}) };
}

function tokenOf({ token, tokenFile }: User, folder: string): Text | null {
  if (token) return () => token;
  if (!tokenFile) return null;
  const text = fileText(resolve(folder, tokenFile));
  return () => text().trim();
}

/** Writes a kubeconfig with one context, whole and readable by its owner only. */
export async function writeKubeconfig(
  file: string,
  { name, server, credentials }: { name: string; server: string; credentials: Credentials },
): Promise<void> {
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  const user = `${name}-admin`;
  const content = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': name,
    contexts: [{ name, context: { cluster: name, user } }],
    clusters: [{ name, cluster: { server, 'certificate-authority-data': base64(credentials.authority) } }],
    users: [
      { name: user, user: { 'client-certificate-data': base64(credentials.certificate), 'client-key-data': base64(credentials.key) } },
    ],
  };
  await mkdir(dirname(file), { recursive: true });
  await rm(`${file}.new`, { force: true });
  const draft = await open(`${file}.new`, 'wx', 0o600);
  try {
    await draft.writeFile(stringify(content));
    await draft.sync();
  } finally {
    await draft.close();
  }
  await rename(`${file}.new`, file);
}

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

/** The server and identity of the pod that this runs in; null when it is none. `folder` is where the kubelet mounts the service account. */
export function inCluster(environment: NodeJS.ProcessEnv = process.env, folder = SERVICE_ACCOUNT): ConnectionConfig | null {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = environment;
  if (!host || !port) return null;
  const token = fileText(`${folder}/token`);
  return {
    server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
    authority: fileText(`${folder}/ca.crt`),
    token: () => token().trim(),
  };
}
