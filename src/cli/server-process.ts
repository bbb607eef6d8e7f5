// A server process: its database, its authority and its listener put together, and certificates that are renewed in time. Nothing is
// decided here about records.
import { beFolder } from '../host/files.ts';
import { randomUUID } from 'node:crypto';
import { hostname, networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { openAuthority, renewIn, type Authority, type Credentials } from '../api/certificates.ts';
import { enrolmentRoutes, isRevoked } from '../api/enrolment.ts';
import { writeKubeconfig } from '../api/kubeconfig.ts';
import { LocalClient } from '../api/local-client.ts';
import type { Log } from '../api/log.ts';
import { Registry } from '../api/registry.ts';
import { startServer, type RunningServer, type ServerTls } from '../api/server.ts';
import { openDatabase, type Database } from '../api/sqlite-table.ts';
import type { Clock } from '../model/clock.ts';
import { messageOf } from '../model/errors.ts';
import { DATABASE } from './local/layout.ts';

export interface ServeOptions {
  directory: string;
  listen: { host: string; port: number };
  /** Further names and addresses that it is reached by. */
  hosts: readonly string[];
  /** Where the admin's kubeconfig is written; in the folder by default. */
  kubeconfig?: string;
  clock: Clock;
  log: Log;
}

/** Between two looks at what has to be renewed, ms. */
const LOOK_MS = 3_600_000;

/** Serves until the signal aborts. Throws InUse when another server has the folder or the port. */
export async function serve(options: ServeOptions, signal: AbortSignal): Promise<void> {
  await beFolder(options.directory, 0o700);
  const database = openDatabase(join(options.directory, DATABASE));
  try {
    await serveFrom(database, options, signal);
  } finally {
    database.close();
  }
}

async function serveFrom(database: Database, options: ServeOptions, signal: AbortSignal): Promise<void> {
  const { clock, log, listen } = options;
  const registry = new Registry({ table: database.table, clock, uid: randomUUID });
  const records = new LocalClient({ registry, clock });
  const authority = await openAuthority(database.settings, clock);
  let tls = await tlsFor(authority, options);
  const server = await startServer({
    registry,
    listen,
    tls,
    isRevoked: (certificate) => isRevoked(records, certificate),
    routes: enrolmentRoutes(authority, records),
    clock,
    log,
  });
  try {
    let admin = await writeKubeconfigs(authority, options, server);
    log.info({ address: server.address }, 'server runs');
    while (!signal.aborted) {
      await clock.sleep(LOOK_MS, signal).catch(() => {});
      if (signal.aborted) break;
      tls = await renewed(authority, { tls, options, server });
      if (renewIn(admin.certificate, clock) <= 0) admin = await writeKubeconfigs(authority, options, server);
    }
  } finally {
    await server.close();
    log.info({}, 'server stopped');
  }
}

/** A certificate that is due, or a new generation of the authority, is used for the next connection. Tried again at the next look. */
async function renewed(authority: Authority, at: { tls: ServerTls; options: ServeOptions; server: RunningServer }): Promise<ServerTls> {
  const { clock, log } = at.options;
  try {
    if (!(await authority.maintain()) && renewIn(at.tls.certificate, clock) > 0) return at.tls;
    const tls = await tlsFor(authority, at.options);
    at.server.renew(tls);
    log.info({}, "the server's certificate was renewed");
    return tls;
  } catch (error) {
    log.error({ error: messageOf(error) }, "the server's certificate could not be renewed; it is tried again");
    return at.tls;
  }
}

const tlsFor = async (authority: Authority, options: ServeOptions): Promise<ServerTls> => authority.issueServer(namesOf(options));

const isWildcard = (host: string): boolean => host === '0.0.0.0' || host === '::';

/** Everything that people may write into a URL for it. */
function namesOf({ listen, hosts }: ServeOptions): string[] {
  const addresses = Object.values(networkInterfaces()).flatMap((each) => (each ?? []).map(({ address }) => address));
  const own = isWildcard(listen.host) ? addresses : [listen.host];
  return [...new Set(['localhost', '127.0.0.1', '::1', hostname(), ...own, ...hosts])];
}

async function writeKubeconfigs(authority: Authority, options: ServeOptions, server: RunningServer): Promise<Credentials> {
  const { directory, listen } = options;
  const address = isWildcard(listen.host) ? `https://127.0.0.1:${new URL(server.address).port}` : server.address;
  const admin = await authority.issueAdmin();
  const controller = await authority.issueController();
  await writeKubeconfig(join(directory, 'controller.kubeconfig'), { name: 'flock', server: address, credentials: controller });
  await writeKubeconfig(options.kubeconfig ?? join(directory, 'kubeconfig'), { name: 'flock', server: address, credentials: admin });
  return admin;
}
