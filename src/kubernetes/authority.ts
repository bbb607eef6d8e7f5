// The cluster's authority where there is no server of ours to keep it: its keys in a Secret that only the controller reads, and what everybody
// may know of it in a ConfigMap. Decides nothing about who gets a certificate.
import { openAuthority, type Authority } from '../api/certificates.ts';
import type { Client } from '../api/client.ts';
import type { Settings } from '../api/settings.ts';
import type { Clock } from '../model/clock.ts';
import { FlockError, ifFound } from '../model/errors.ts';
import { SYSTEM_NAMESPACE, type Stored } from '../model/meta.ts';
import { ConfigMaps, Secrets, type Secret } from './kinds.ts';

/** Of the Secret and the ConfigMap, in flock-system. */
export const AUTHORITY = 'flock-authority';

const toBase64 = (text: string): string => Buffer.from(text).toString('base64');
const fromBase64 = (text: string): string => Buffer.from(text, 'base64').toString('utf8');

/** What the ConfigMap tells. */
export interface Told {
  cluster: string;
  /** PEM of every authority that may have issued a certificate in use. */
  bundle: string;
}

/**
 * The authority as its Secret has it, made when there is none and given a new generation when one is due. Whoever calls leads: of two who
 * change it at once one throws Conflict and comes again.
 */
export async function clusterAuthority(client: Client, clock: Clock): Promise<Authority> {
  const secret = await ifFound(client.get(Secrets, AUTHORITY, SYSTEM_NAMESPACE));
  const settings = settingsOf(secret);
  const authority = await openAuthority(settings, clock);
  if (settings.changed()) await keep(client, secret, settings.all());
  await tell(client, { cluster: authority.cluster, bundle: authority.bundle });
  return authority;
}

interface SecretSettings extends Settings {
  changed(): boolean;
  all(): { [name: string]: string };
}

function settingsOf(secret: Secret | null): SecretSettings {
  const values = new Map(Object.entries(secret?.data ?? {}).map(([name, text]) => [name, fromBase64(text)]));
  let changed = false;
  return {
    get: (name) => values.get(name) ?? null,
    put: (name, value) => {
      values.set(name, value);
      changed = true;
    },
    take: (name) => {
      const value = values.get(name) ?? null;
      changed = values.delete(name) || changed;
      return value;
    },
    names: (prefix) => [...values.keys()].filter((name) => name.startsWith(prefix)),
    changed: () => changed,
    all: () => Object.fromEntries([...values].map(([name, text]) => [name, toBase64(text)])),
  };
}

async function keep(client: Client, before: Stored<Secret> | null, data: { [name: string]: string }): Promise<void> {
  if (before) await client.replace(Secrets, { ...before, data });
  else await client.create(Secrets, { apiVersion: 'v1', kind: 'Secret', metadata: named(), type: 'flock.dev/authority', data });
}

const named = (): { name: string; namespace: string } => ({ name: AUTHORITY, namespace: SYSTEM_NAMESPACE });

async function tell(client: Client, { cluster, bundle }: Told): Promise<void> {
  const there = await ifFound(client.get(ConfigMaps, AUTHORITY, SYSTEM_NAMESPACE));
  const data = { cluster, bundle };
  if (!there) await client.create(ConfigMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: named(), data });
  else if (there.data?.['cluster'] !== cluster || there.data['bundle'] !== bundle) await client.replace(ConfigMaps, { ...there, data });
}

/** What the ConfigMap says. Throws Unavailable while no controller has made it. */
export async function toldAuthority(client: Client): Promise<Told> {
  const there = await ifFound(client.get(ConfigMaps, AUTHORITY, SYSTEM_NAMESPACE));
  const { cluster, bundle } = there?.data ?? {};
  if (cluster === undefined || bundle === undefined)
    throw new FlockError(
      'Unavailable',
      `there is no ConfigMap ${SYSTEM_NAMESPACE}/${AUTHORITY} with the cluster's authority yet: does the controller run?`,
    );
  return { cluster, bundle };
}
