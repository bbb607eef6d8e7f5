// Which address other agents are told, and which of those that they tell can be of no use.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { publishedAddress, whyNotDialled, whyNotReached, whyOutside } from './transfer-network.ts';

const PUBLISHED: { listening: string; toServer: string | null; told: string; warns: boolean }[] = [
  { listening: '10.1.0.5', toServer: '10.2.0.5', told: '10.1.0.5', warns: false },
  { listening: '0.0.0.0', toServer: '10.2.0.5', told: '10.2.0.5', warns: false },
  { listening: '::', toServer: 'fd00::5', told: 'fd00::5', warns: false },
  { listening: '::', toServer: '10.2.0.5', told: '10.2.0.5', warns: false },
  // The server is on this machine, or reached by a socket file.
  { listening: '0.0.0.0', toServer: '127.0.0.1', told: '127.0.0.1', warns: false },
  { listening: '0.0.0.0', toServer: null, told: '127.0.0.1', warns: false },
  { listening: '::', toServer: null, told: '::1', warns: false },
  { listening: '127.0.0.1', toServer: '127.0.0.1', told: '127.0.0.1', warns: false },
  { listening: '127.0.0.1', toServer: '10.2.0.5', told: '127.0.0.1', warns: true },
  { listening: '::1', toServer: 'fd00::5', told: '::1', warns: true },
];

for (const { warns, told, ...own } of PUBLISHED)
  test(`listening on ${own.listening}, with the server reached from ${own.toServer}, others are told ${told}${warns ? ', with a warning' : ''}`, () => {
    assert.equal(publishedAddress(own), told);
    const why = whyNotReached('node-1', own);
    if (!warns) return assert.equal(why, null);
    assert.match(why ?? '', new RegExp(`node node-1: its agent listens on ${told}.*--listen`, 'u'));
  });

const DIALLED: { address: string; from: string | undefined; why: RegExp | null }[] = [
  { address: '0.0.0.0', from: undefined, why: /node-1 says that it serves volume data at 0\.0\.0\.0, which is no address.*--listen/u },
  { address: '::', from: '10.1.0.6', why: /no address to reach it at/u },
  {
    address: '127.0.0.1',
    from: '10.1.0.6',
    why: /at 127\.0\.0\.1, which only its own machine reaches, and not from 10\.1\.0\.6.*--network/u,
  },
  { address: '127.0.0.1', from: '127.0.0.3', why: null },
  { address: '127.0.0.1', from: undefined, why: null },
  { address: '10.1.0.5', from: '10.1.0.6', why: null },
];

for (const { address, from, why } of DIALLED)
  test(`${address} ${why ? 'cannot' : 'can'} be dialled from ${from ?? 'a machine that chooses for itself'}`, () => {
    const found = whyNotDialled('node-1', address, from);
    if (why) assert.match(found ?? '', why);
    else assert.equal(found, null);
  });

const HOST: { address: string; family: 'ipv4' | 'ipv6' }[] = [
  { address: '127.0.0.1', family: 'ipv4' },
  { address: '10.1.0.5', family: 'ipv4' },
];
const OUTSIDE: [network: Parameters<typeof whyOutside>[1], why: RegExp | null][] = [
  [undefined, null],
  [{ cidr: '10.1.0.0/16', policy: 'preferred' }, null],
  [{ cidr: '10.99.0.0/16', policy: 'required' }, null],
  [
    { cidr: '10.99.0.0/16', policy: 'preferred' },
    /no address .* in the transfer network 10\.99\.0\.0\/16, so volume data goes over any .*; it has 10\.1\.0\.5\./u,
  ],
];

for (const [network, why] of OUTSIDE)
  test(`a host with 10.1.0.5 ${why ? 'warns' : 'has nothing to say'} about the network ${network ? `${network.cidr} (${network.policy})` : 'of nobody'}`, () => {
    const found = whyOutside('0.0.0.0', network, HOST);
    if (why) assert.match(found ?? '', why);
    else assert.equal(found, null);
  });
