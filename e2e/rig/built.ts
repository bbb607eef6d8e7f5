// What a cluster is made of, from the scripts in build/ and ../kube: made when missing, cached for all clusters of this machine.
// Must not know a cluster.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

export interface Built {
  /** Paths of etcd, the Kubernetes programs and kubectl, by their names. */
  kubernetes: Record<string, string>;
  /** A folder with coredns, the CSI sidecars, csi-sanity, helm, kubeconform and snapshot-crds.yaml. */
  tools: string;
  /** A folder with the nodes' kernel (linux), the disk that their roots begin as (root.img), and a static busybox. */
  node: string;
}

/** This machine lacks something that a cluster needs, or a build failed; the script has said what on stderr, in one line where it can. */
export class NotBuilt extends Error {}

/** Minutes the first time (about ten on two cores), then less than a second. Throws NotBuilt. */
export async function built(): Promise<Built> {
  await output('build/requirements');
  const paths = [...lines(await output('../kube/build', 'server')), ...lines(await output('../kube/build', 'rest'))];
  const node = (await output('build/node')).trim();
  const tools = (await output('build/tools')).trim();
  return { kubernetes: Object.fromEntries(paths.map((path) => [path.slice(path.lastIndexOf('/') + 1), path])), tools, node };
}

const lines = (text: string): string[] => text.trim().split('\n');

/** Of a script beside this file; what it says while it works passes through. */
async function output(script: string, ...words: string[]): Promise<string> {
  const child = spawn('nice', ['sh', join(import.meta.dirname, script), ...words], { stdio: ['ignore', 'pipe', 'inherit'] });
  const closed = once(child, 'close') as Promise<[number | null]>;
  let text = '';
  for await (const part of child.stdout) text += String(part);
  const [code] = await closed;
  if (code !== 0) throw new NotBuilt(`e2e/rig/${script} ended with ${code ?? 'a signal'}`);
  return text;
}
