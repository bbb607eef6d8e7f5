// A TCP connection's man in the middle: counts, cuts, turns bits. Only *.test.ts import it.
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { Test } from './folders.ts';
import { afterwards } from './afterwards.ts';

export interface TcpProxy {
  port: number;
  /** Bytes from the server to the client, over all connections. */
  bytes: number;
  /** Called with every piece on its way to the client; may change it. false cuts the connection instead, 'swallow' lets it vanish. */
  onPiece: (piece: Buffer, at: number) => boolean | 'swallow';
}

export async function aTcpProxy(t: Test, to: () => number): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  const proxy: TcpProxy = { port: 0, bytes: 0, onPiece: () => true };
  const server = createServer((client) => {
    const upstream = connect(to(), '127.0.0.1');
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => sockets.delete(socket));
    }
    const cut = (): void => {
      client.destroy();
      upstream.destroy();
    };
    client.pipe(upstream);
    upstream.on('data', (piece) => {
      const at = proxy.bytes;
      proxy.bytes += piece.length;
      const verdict = proxy.onPiece(piece, at);
      if (verdict === 'swallow') return;
      if (!verdict) return cut();
      if (!client.write(piece)) {
        upstream.pause();
        client.once('drain', () => upstream.resume());
      }
    });
    upstream.on('close', cut);
    client.on('close', cut);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  proxy.port = (server.address() as AddressInfo).port;
  afterwards(t, async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return proxy;
}
