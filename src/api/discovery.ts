// What the server has, told as Kubernetes tells it: versions, groups, resources. Knows no objects.
import { CATEGORIES } from '../model/crd.ts';
import { apiVersionOf, type Kind } from '../model/kind.ts';
import { GROUP } from '../model/meta.ts';

const VERBS = ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch'];

const groupVersion = (kind: Kind): { groupVersion: string; version: string } => ({
  groupVersion: apiVersionOf(kind),
  version: kind.version,
});

function groupOf(kind: Kind): object {
  return { name: kind.group, versions: [groupVersion(kind)], preferredVersion: groupVersion(kind) };
}

function resourcesOf(kind: Kind): object[] {
  const { plural: name, singular: singularName, shortNames } = kind;
  const namespaced = kind.scope === 'Namespaced';
  const categories = kind.group === GROUP ? { categories: CATEGORIES } : {};
  const main = { name, singularName, namespaced, kind: kind.kind, verbs: VERBS, shortNames, ...categories };
  const status = { name: `${name}/status`, singularName: '', namespaced, kind: kind.kind, verbs: ['get', 'patch', 'update'] };
  return kind.statusSubresource ? [main, status] : [main];
}

/** All discovery documents, by path. */
export function discovery(kinds: readonly Kind[]): { [path: string]: object } {
  const named = kinds.filter(({ group }) => group !== '');
  const groups = [...new Map(named.map((kind) => [kind.group, groupOf(kind)]))];
  const byVersion = Map.groupBy(kinds, apiVersionOf);
  return {
    '/api': { kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] },
    '/apis': { kind: 'APIGroupList', apiVersion: 'v1', groups: groups.map(([, group]) => group) },
    ...Object.fromEntries(groups.map(([name, group]) => [`/apis/${name}`, { kind: 'APIGroup', apiVersion: 'v1', ...group }])),
    ...Object.fromEntries(
      [...byVersion].map(([version, members]) => [
        version.includes('/') ? `/apis/${version}` : `/api/${version}`,
        { kind: 'APIResourceList', apiVersion: 'v1', groupVersion: version, resources: members.flatMap(resourcesOf) },
      ]),
    ),
    '/version': {
      major: '1',
      minor: '35',
      gitVersion: 'v1.35.0+flock',
      gitCommit: '',
      gitTreeState: 'clean',
      buildDate: '',
      goVersion: '',
      compiler: '',
      platform: 'linux',
    },
  };
}
