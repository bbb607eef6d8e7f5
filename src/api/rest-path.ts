// Kubernetes' paths, read: which kind, namespace, object and subresource a request is about. Knows no methods.
import type { Kind } from '../model/kind.ts';
import { badRequest } from './status.ts';

export interface RestPath {
  kind: Kind;
  /** Empty: all namespaces, or a cluster-scoped kind. */
  namespace: string;
  name: string | null;
  subresource: 'status' | null;
}

const PATH = /^\/(?:api|apis\/([^/]+))\/([^/]+)\/(?:namespaces\/([^/]+)\/)?([^/]+)(?:\/([^/]+))?(?:\/(status))?$/u;

function decoded(segment: string | undefined): string | undefined {
  if (segment === undefined) return undefined;
  try {
    return decodeURIComponent(segment);
  } catch {
    throw badRequest(`the path is not valid: ${JSON.stringify(segment.slice(0, 60))} cannot be decoded`);
  }
}

/** Whether a kind has such a place: namespaces and a status are not for all. */
function fits(kind: Kind, namespace: string, name: string | undefined, subresource: string | undefined): boolean {
  if (subresource !== undefined && !kind.statusSubresource) return false;
  return kind.scope === 'Cluster' ? namespace === '' : name === undefined || namespace !== '';
}

/** null when nothing of ours lies there. */
export function readRestPath(path: string, kinds: readonly Kind[]): RestPath | null {
  const match = PATH.exec(path);
  if (!match) return null;
  const [group = '', version, namespace = '', plural, name, subresource] = match.slice(1).map(decoded);
  const kind = kinds.find((one) => one.group === group && one.version === version && one.plural === plural);
  if (!kind || !fits(kind, namespace, name, subresource)) return null;
  return { kind, namespace, name: name ?? null, subresource: subresource === undefined ? null : 'status' };
}
