// A TCP connection's man in the middle: counts, cuts, resets, delays, swaps, turns bits. Only *.test.ts import it.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { Test } from './folders.ts';
import { afterwards } from './afterwards.ts';

/** true: goes on · false: the connection is closed · 'reset': by RST · 'swallow': the piece vanishes. */
export type Verdict = boolean | 'swallow' | 'reset';

export interface TcpProxy {
  port: number;
  /** Bytes from the server to the client, over all connections. */
  bytes: number;
  connections: number;
  /** Called with every piece on its way to the client; may change it. */
  onPiece: (piece: Buffer, at: number, connection: number) => Verdict;
  /** Waited for before each piece is passed on, while the server is not read. */
  hold: (connection: number) => Promise<void> | null;
  /** From now on, what is for one of the two connections reaches the other. Throws when they are not both open. */
  swap: (one: number, other: number) => void;
}

interface Pair {
  client: Socket;
  upstream: Socket;
}

/** Or closed. */
async function drained(client: Socket): Promise<void> {
  const over = new AbortController();
  const { signal } = over;
  await Promise.race([once(client, 'drain', { signal }), once(client, 'close', { signal })]).finally(() => over.abort());
}

export async function aTcpProxy(t: Test, to: () => number): Promise<TcpProxy> {
  const pairs = new Map<number, Pair>();
  /** By connection: who gets what is for it. */
  const swapped = new Map<number, number>();
  const proxy: TcpProxy = {
    port: 0,
    bytes: 0,
    connections: 0,
    onPiece: () => true,
    hold: () => null,
    swap: (one, other) => {
      if (!pairs.has(one) || !pairs.has(other)) throw new Error(`connections ${one} and ${other} are not both open`);
      swapped.set(one, other).set(other, one);
    },
  };
  const end = (number: number, how: 'destroy' | 'resetAndDestroy' = 'destroy'): void => {
    const pair = pairs.get(number);
    pairs.delete(number);
    pair?.client[how]();
    pair?.upstream[how]();
  };
  /** Resolves to false when the connection is over. */
  const pass = async (number: number, piece: Buffer): Promise<boolean> => {
    await proxy.hold(number);
    const at = proxy.bytes;
    proxy.bytes += piece.length;
    const verdict = proxy.onPiece(piece, at, number);
    if (verdict === 'swallow') return true;
    if (verdict !== true) return (end(number, verdict === 'reset' ? 'resetAndDestroy' : 'destroy'), false);
    const client = pairs.get(swapped.get(number) ?? number)?.client;
    if (!client) return false;
    if (!client.write(piece)) await drained(client);
    return true;
  };
  const serve = async (number: number, upstream: Socket): Promise<void> => {
    for await (const piece of upstream) if (!(await pass(number, piece as Buffer))) break;
  };
  const server = createServer((client) => {
    const number = (proxy.connections += 1);
    const upstream = connect(to(), '127.0.0.1');
    pairs.set(number, { client, upstream });
    for (const socket of [client, upstream]) socket.on('error', () => undefined).once('close', () => end(number));
    client.pipe(upstream);
    // What breaks a connection ends it: that is what it is for.
    void serve(number, upstream)
      .catch(() => undefined)
      .finally(() => end(number));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  proxy.port = (server.address() as AddressInfo).port;
  afterwards(t, async () => {
    for (const number of pairs.keys()) end(number);
    await new Promise((resolve) => server.close(resolve));
  });
  return proxy;
}
