// On which address of this host volume data goes: the one inside the transfer network. `required` never falls back to another.
import { BlockList, isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { FlockError, Invalid } from '../model/errors.ts';
import { printable } from '../model/names.ts';

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
