// The network of a cluster: a namespace with a bridge, and a tap device for each node's cable. The machine's own network is not touched, so
// every cluster uses the same addresses. Knows no process but as a member of the namespace.
import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { run } from '../../src/host/run.ts';
import { inside, type Place } from './place.ts';

/** The machine's end of the bridge: API server, DNS, and the nodes' way to Services. */
export const GATEWAY = '10.77.0.1';
export const SERVICES = '10.96.0.0/16';
export const PODS = '10.244.0.0/16';
export const MOST_NODES = 9;

const BRIDGE = 'nodes';

export const addressOf = (node: number): string => `10.77.0.${10 + node}`;
export const cableOf = (node: number): string => `node-${node}`;

const ip = async (place: Place, ...words: string[]): Promise<void> => void (await run('ip', ['-n', place.namespace, ...words]));

export async function makeNetwork(place: Place): Promise<void> {
  await run('ip', ['netns', 'add', place.namespace]);
  await ip(place, 'link', 'set', 'lo', 'up');
  await ip(place, 'link', 'add', BRIDGE, 'type', 'bridge');
  await ip(place, 'addr', 'add', `${GATEWAY}/24`, 'dev', BRIDGE);
  await ip(place, 'link', 'set', BRIDGE, 'up');
  // An address of a Service needs some route, or it is refused before kube-proxy's rules translate it.
  await ip(place, 'route', 'add', SERVICES, 'dev', BRIDGE);
  for (let node = 1; node <= MOST_NODES; node++) await ip(place, 'route', 'add', `10.244.${node}.0/24`, 'via', addressOf(node));
  const forwards = ['net.ipv4.ip_forward=1', 'net.ipv4.conf.all.send_redirects=0', `net.ipv4.conf.${BRIDGE}.send_redirects=0`];
  await sysctl(place, forwards);
  // What only crosses the bridge must not pass the rules of kube-proxy. It is there when the machine has loaded br_netfilter.
  const bridged = 'net.bridge.bridge-nf-call-iptables';
  if (existsSync(`/proc/sys/${bridged.replaceAll('.', '/')}`)) await sysctl(place, [`${bridged}=0`]);
}

async function sysctl(place: Place, settings: readonly string[]): Promise<void> {
  const [program, ...words] = inside(place);
  await run(program, [...words, 'sysctl', '-qw', ...settings]);
}

export async function layCable(place: Place, node: number): Promise<void> {
  await ip(place, 'tuntap', 'add', cableOf(node), 'mode', 'tap');
  await plug(place, node);
  await ip(place, 'link', 'set', cableOf(node), 'up');
}

export const plug = (place: Place, node: number): Promise<void> => ip(place, 'link', 'set', cableOf(node), 'master', BRIDGE);
export const unplug = (place: Place, node: number): Promise<void> => ip(place, 'link', 'set', cableOf(node), 'nomaster');

const netns = (place: Place): string => `/run/netns/${place.namespace}`;
export const hasNetwork = (place: Place): boolean => existsSync(netns(place));

/** Pids of all who run in the namespace. */
export async function members(place: Place): Promise<number[]> {
  if (!hasNetwork(place)) return [];
  const { stdout } = await run('ip', ['netns', 'pids', place.namespace]);
  return stdout.split('\n').filter(Boolean).map(Number);
}

/** A process that has ended is none, also when nobody has asked for its end yet. */
export async function isMember(place: Place, pid: number): Promise<boolean> {
  const [its, ours] = await Promise.all([`/proc/${pid}/ns/net`, netns(place)].map((path) => stat(path).catch(() => null)));
  return its !== null && its?.ino === ours?.ino;
}

export const removeNetwork = async (place: Place): Promise<void> => void (await run('ip', ['netns', 'del', place.namespace]));
