// On which address of this host volume data goes: the one inside the transfer network. `required` never falls back to another. And which
// address others are told: never one that means all of a host's, for whoever dials it reaches himself.
import { BlockList, isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { FlockError, Invalid } from '../model/errors.ts';
import { printable } from '../model/names.ts';
import type { StorageNode } from '../model/storage-node.ts';

export interface TransferNetwork {
  /** `10.1.0.0/16` or `fd00::/64`. */
  cidr: string;
  policy: 'required' | 'preferred';
}

/** Throws Invalid for what is no CIDR. */
export function networkOf(cidr: string): BlockList {
  const [address = '', length = '', ...rest] = cidr.split('/');
  const family = isIP(address);
  const bits = /^[0-9]{1,3}$/u.test(length) ? Number(length) : Number.NaN;
  if (rest.length > 0 || family === 0 || !(bits <= (family === 4 ? 32 : 128)))
    throw new Invalid(`transfer network ${printable(cidr)} is not valid: write it like 10.1.0.0/16`);
  const list = new BlockList();
  list.addSubnet(address, bits, family === 4 ? 'ipv4' : 'ipv6');
  return list;
}

/** The host's addresses, as [address, family]. */
const hostAddresses = (): { address: string; family: 'ipv4' | 'ipv6' }[] =>
  Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .map(({ address, family }) => ({ address, family: family === 'IPv6' ? 'ipv6' : 'ipv4' }));

/** The address to listen on and dial from. Throws Unavailable when the network is required and this host is not in it. */
export function transferAddress(otherwise: string, network: TransferNetwork | undefined, addresses = hostAddresses()): string {
  if (!network) return otherwise;
  const list = networkOf(network.cidr);
  const found = addresses.find(({ address, family }) => list.check(address, family));
  if (found) return found.address;
  if (network.policy === 'preferred') return otherwise;
  throw new FlockError(
    'Unavailable',
    `no address of this host is in the transfer network ${network.cidr}, which is required; it has ${addresses.map(({ address }) => address).join(', ')}`,
  );
}

/** That a preferred network is of no use here, and what is done instead; null when it is used, or none was named. */
export function whyOutside(otherwise: string, network: TransferNetwork | undefined, addresses = hostAddresses()): string | null {
  if (network?.policy !== 'preferred') return null;
  const list = networkOf(network.cidr);
  if (addresses.some(({ address, family }) => list.check(address, family))) return null;
  const own = addresses.map(({ address }) => address).filter((address) => !isLoopback(address));
  return `no address of this host is in the transfer network ${network.cidr}, so volume data goes over ${isWildcard(otherwise) ? 'any of its addresses' : otherwise}; it has ${own.join(', ') || 'none but its own'}. Name one of its networks with --network, or leave that out`;
}

/** Of the host as the other end of a connection sees it. */
export interface OwnAddress {
  /** What the listener is bound to. */
  listening: string;
  /** The local address of the connection to the server; null: there was none by network. */
  toServer: string | null;
}

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** All addresses of a host, and so none to reach it at. */
export const isWildcard = (address: string): boolean => address === '0.0.0.0' || address === '::';

export const isLoopback = (address: string): boolean =>
  isIP(address) !== 0 && loopback.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6');

/** Where other agents are told to fetch volume data. */
export function publishedAddress({ listening, toServer }: OwnAddress): string {
  if (!isWildcard(listening)) return listening;
  return toServer ?? (listening === '::' ? '::1' : '127.0.0.1');
}

/** Why other nodes cannot fetch volume data from this one, and the way out; null when nothing says so. */
export function whyNotReached(node: string, own: OwnAddress): string | null {
  const address = publishedAddress(own);
  if (!isLoopback(address) || own.toServer === null || isLoopback(own.toServer)) return null;
  return `other nodes cannot fetch volume data from node ${node}: its agent listens on ${address}, which only its own machine reaches, and its server is on another one, reached from ${own.toServer}. Start the agent with --listen ${isIP(own.toServer) === 6 ? `[${own.toServer}]` : own.toServer}:PORT, or with --network`;
}

/** Why the address that a node tells cannot be dialled from here, and the way out. */
export function whyNotDialled(node: string, address: string, from: string | undefined): string | null {
  const wayOut = `start the agent of node ${node} with --listen HOST:PORT or --network CIDR, such that this machine reaches it`;
  if (isWildcard(address))
    return `node ${node} says that it serves volume data at ${address}, which is no address to reach it at: ${wayOut}`;
  if (from === undefined || !isLoopback(address) || isLoopback(from) || isWildcard(from)) return null;
  return `node ${node} serves volume data at ${address}, which only its own machine reaches, and not from ${from}: ${wayOut}`;
}

/** Where a node serves volume data, to be dialled from that address. Throws Unavailable when it says nothing, or what cannot be reached from here. */
export function dialled(name: string, node: StorageNode | null, from: string | undefined): { host: string; port: number; node: string } {
  const address = node?.status?.transfer;
  if (!address) throw new FlockError('Unavailable', `node ${name} does not say where it serves volume data; is its agent running?`);
  const why = whyNotDialled(name, address.address, from);
  if (why !== null) throw new FlockError('Unavailable', why);
  return { host: address.address, port: address.port, node: name };
}
