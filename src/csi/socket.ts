// gRPC services on a unix socket. One that a dead process left behind is replaced; one that somebody serves is theirs. Knows no service.
import { Server, ServerCredentials, type ServiceDefinition, type UntypedServiceImplementation } from '@grpc/grpc-js';
import { chmod, lstat, mkdir, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { dirname, isAbsolute } from 'node:path';
import { isCode } from '../host/files.ts';
import { FlockError, Invalid } from '../model/errors.ts';

export interface Service {
  definition: ServiceDefinition;
  implementation: UntypedServiceImplementation;
}

export interface Endpoint {
  readonly path: string;
  /** Takes no new calls, lets those under way end, and cuts off what is left after `patience`, ms. */
  close(patience?: number): Promise<void>;
}

/** What a socket's address can hold, bytes. */
const LONGEST_PATH = 107;

/** Only this user may connect. Throws Conflict when another process serves there. */
export async function serveOn(path: string, services: readonly Service[]): Promise<Endpoint> {
  if (!isAbsolute(path) || Buffer.byteLength(path) > LONGEST_PATH)
    throw new Invalid(`socket ${path} is not valid: give an absolute path of at most ${LONGEST_PATH} bytes`);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await beFree(path);
  const server = new Server();
  for (const { definition, implementation } of services) server.addService(definition, implementation);
  await new Promise<void>((resolve, reject) =>
    server.bindAsync(`unix:${path}`, ServerCredentials.createInsecure(), (error) => (error ? reject(error) : resolve())),
  );
  await chmod(path, 0o600);
  return { path, close: (patience = 10_000) => closed(server, patience) };
}

async function beFree(path: string): Promise<void> {
  const there = await lstat(path).catch((error: unknown) => {
    if (isCode(error, 'ENOENT')) return null;
    throw error;
  });
  if (!there) return;
  if (!there.isSocket()) throw new FlockError('Conflict', `${path} is there and is no socket; remove it or use another path`);
  if (await isServed(path))
    throw new FlockError(
      'Conflict',
      `another process serves ${path}; stop that one first, for two of them on one node would steal from each other`,
    );
  await rm(path, { force: true });
}

function isServed(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', (error) => (isCode(error, 'ECONNREFUSED') || isCode(error, 'ENOENT') ? resolve(false) : reject(error)));
  });
}

function closed(server: Server, patience: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => server.forceShutdown(), patience);
    server.tryShutdown(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
