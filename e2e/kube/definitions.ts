// Flock's kinds on a real kube-apiserver, ready to be used and explained.
import { setTimeout as pause } from 'node:timers/promises';
import { crdOf } from '../../src/model/crd.ts';
import { FLOCK_KINDS } from '../../src/model/kinds.ts';
import { GROUP_VERSION, SYSTEM_NAMESPACE } from '../../src/model/meta.ts';
import type { Kubectl } from './programs.ts';

/** Creates the definitions of all our kinds and the namespace of Flock, and waits until the server serves and documents them. */
export async function installDefinitions(kubectl: Kubectl): Promise<void> {
  const items = FLOCK_KINDS.map((kind) => crdOf(kind));
  await kubectl.ok(['create', '-f', '-'], JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
  await kubectl.ok(['wait', '--for=condition=Established', '--timeout=60s', 'crd', '--all']);
  await kubectl.ok(['create', 'namespace', SYSTEM_NAMESPACE]);
  const until = Date.now() + 60_000;
  while (!(await documented(kubectl))) {
    if (Date.now() > until) throw new Error(`kube-apiserver published no OpenAPI document of ${GROUP_VERSION} within 60 s`);
    await pause(100);
  }
}

/** The document follows a definition after a moment; until then kubectl cannot explain the kind. */
async function documented(kubectl: Kubectl): Promise<boolean> {
  const { code, stdout } = await kubectl.answer(['get', '--raw', `/openapi/v3/apis/${GROUP_VERSION}`]);
  return code === 0 && FLOCK_KINDS.every(({ plural }) => stdout.includes(`/apis/${GROUP_VERSION}/${plural}/{name}`));
}
