// The source's listener: nothing but TLS 1.3 with certificates of the cluster gets past it. Knows no rounds.
import type { AddressInfo, Socket } from 'node:net';
import { createServer, type Server, type TLSSocket } from 'node:tls';
import { FlockError, messageOf } from '../model/errors.ts';
import { listenSecurely } from './tls.ts';
import type { SetRate } from './pacing.ts';
import { Serving } from './serving.ts';
import type { MoveMemory } from './source-round.ts';
import type { NodeIdentity } from '../api/certificates.ts';
import type { SourceOptions, SourceServer } from './transfer.ts';

const CONNECTIONS = 256;
const HANDSHAKE = 10_000;
/** Moves whose leaf tables are remembered. */
const REMEMBERED = 16;

/** Listens; rejects with Unavailable when the address is not to be had. `setRate` is the kernel's pacing, replaced by tests. */
export async function serveTransfers(options: SourceOptions, setRate?: SetRate): Promise<SourceServer> {
  const servings = new Set<Serving>();
  const sockets = new Set<Socket>();
  const memories = new Map<string, MoveMemory>();
  const server = createServer({ ...listenSecurely(options.identity()), handshakeTimeout: HANDSHAKE });
  server.maxConnections = CONNECTIONS;
  useNewestIdentity(server, options.identity);
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.on('tlsClientError', (error) => options.log.warn({ error: messageOf(error) }, 'a connection was refused in its TLS handshake'));
  server.on('secureConnection', (socket: TLSSocket) => {
    const serving = new Serving(socket, { options, memoryOf: (uid) => remembered(memories, uid), setRate });
    servings.add(serving);
    serving.done
      .catch((error: unknown) => options.log.error({ error: messageOf(error) }, 'a served connection did not end cleanly'))
      .finally(() => servings.delete(serving));
  });
  const { address, port } = await listening(server, options.listen);
  return {
    address,
    port,
    drop: (moveUid) => {
      memories.delete(moveUid);
      for (const serving of servings)
        if (serving.hello?.moveUid === moveUid) serving.end(new FlockError('Unavailable', 'this move is not served any more'));
    },
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const serving of servings) serving.end(new FlockError('Unavailable', 'the source is stopping'));
      for (const socket of sockets) socket.destroy();
      await Promise.allSettled([...servings].map(({ done }) => done));
      await closed;
    },
  };
}

/** A renewed certificate is shown from the next handshake on. */
function useNewestIdentity(server: Server, identity: () => NodeIdentity): void {
  let used = JSON.stringify(identity());
  server.prependListener('connection', () => {
    const now = identity();
    if (JSON.stringify(now) === used) return;
    server.setSecureContext(listenSecurely(now));
    used = JSON.stringify(now);
  });
}

function remembered(memories: Map<string, MoveMemory>, moveUid: string): MoveMemory {
  const memory = memories.get(moveUid) ?? { roots: [], points: null, allocated: null };
  memories.delete(moveUid);
  memories.set(moveUid, memory);
  for (const oldest of [...memories.keys()].slice(0, -REMEMBERED)) memories.delete(oldest);
  return memory;
}

function listening(server: Server, at: { host: string; port: number }): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) =>
      reject(new FlockError('Unavailable', `cannot listen on ${at.host} port ${at.port}: ${error.message}`, { cause: error })),
    );
    server.listen(at.port, at.host, () => {
      const address = server.address();
      if (address === null || typeof address === 'string') reject(new FlockError('Internal', 'the listener has no address'));
      else resolve(address);
    });
  });
}
