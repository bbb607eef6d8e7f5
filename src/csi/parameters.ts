// A class's parameters as parts of a Volume. One that is not known is refused: a slip in a class must not be found out by a lost volume.
import { durationMs, poolName, printable } from '../model/names.ts';
import { parseSize } from '../model/quantity.ts';
import { MIGRATION_MODES, type VolumeSpec } from '../model/volume.ts';
import { filesystemNamed } from './access.ts';
import { invalid } from './errors.ts';

type Wipe = NonNullable<VolumeSpec['wipe']>;
const WIPES: readonly Wipe[] = ['none', 'discard', 'zero'];

const checked = (check: (text: string) => unknown, text: string): string => {
  check(text);
  return text;
};

const PARAMETERS: { [name: string]: (value: string) => Partial<VolumeSpec> } = {
  pool: (value) => ({ pool: poolName(value) }),
  dataMigrationMode: (value) => {
    const mode = MIGRATION_MODES.find((one) => one === value);
    if (!mode)
      throw invalid(`parameter dataMigrationMode=${printable(value)} is not possible in this release; use ${MIGRATION_MODES.join(', ')}`);
    return { dataMigrationMode: mode };
  },
  retainSource: (value) => ({ retainSource: checked(durationMs, value) }),
  allowedPause: (value) => ({ allowedPause: checked(durationMs, value) }),
  transferBandwidth: (value) => ({ transferBandwidth: checked(parseSize, value) }),
  wipe: (value) => {
    const wipe = WIPES.find((one) => one === value);
    if (!wipe) throw invalid(`parameter wipe=${printable(value)} is not valid; use ${WIPES.join(', ')}`);
    return { wipe };
  },
  formatOptions: (value) => ({ formatOptions: value }),
  // Kubernetes tells it as a part of the capability instead, others as it stands.
  'csi.storage.k8s.io/fstype': (value) => ({ filesystem: filesystemNamed(value) }),
};

/** The provisioner tells by these for whom the volume is. */
const CLAIM = { name: 'csi.storage.k8s.io/pvc/name', namespace: 'csi.storage.k8s.io/pvc/namespace', volume: 'csi.storage.k8s.io/pv/name' };
const METADATA: readonly string[] = Object.values(CLAIM);

/** Namespace and name of the claim, for people; nothing is looked up by it. */
const CLAIM_ANNOTATION = 'flock.dev/claim';

export interface Parameters {
  spec: Partial<VolumeSpec>;
  annotations: { [name: string]: string };
}

/** Throws INVALID_ARGUMENT, naming what is wrong. */
export function parametersOf(parameters: { [name: string]: string }): Parameters {
  const own = Object.entries(parameters).filter(([name]) => !METADATA.includes(name));
  const unknown = own.filter(([name]) => !Object.hasOwn(PARAMETERS, name)).map(([name]) => name);
  if (unknown.length > 0)
    throw invalid(`unknown parameter ${unknown.map(printable).join(', ')}; these are known: ${Object.keys(PARAMETERS).join(', ')}`);
  const spec = Object.assign({}, ...own.map(([name, value]) => PARAMETERS[name]?.(value))) as Partial<VolumeSpec>;
  const claim = [parameters[CLAIM.namespace], parameters[CLAIM.name]].filter((part) => part !== undefined).join('/');
  return { spec, annotations: claim === '' ? {} : { [CLAIM_ANNOTATION]: claim } };
}
