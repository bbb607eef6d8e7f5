// Flock's own server over SQLite with certificates, in this process, and a kubeconfig of its administrator: what kubectl meets without
// Kubernetes.
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openAuthority } from '../src/api/certificates.ts';
import { writeKubeconfig } from '../src/api/kubeconfig.ts';
import type { Log } from '../src/api/log.ts';
import { Registry } from '../src/api/registry.ts';
import { startServer } from '../src/api/server.ts';
import { openDatabase } from '../src/api/sqlite-table.ts';
import { systemClock } from '../src/model/clock.ts';
import { Kubectl, programs } from './kube/programs.ts';

const HOST = '127.0.0.1';
const nothing = (): void => {};
const tell = (fields: object, message: string): void => void process.stderr.write(`${message} ${JSON.stringify(fields)}\n`);
/** Refusals are expected here; what goes wrong inside is not. */
const log: Log = { debug: nothing, info: nothing, warn: tell, error: tell };

export interface OwnServer {
  kubectl: Kubectl;
  close(): Promise<void>;
}

export async function startOwnServer(): Promise<OwnServer> {
  const { kubectl } = await programs();
  const folder = await mkdtemp(join(tmpdir(), 'flock-own-'));
  const database = openDatabase(join(folder, 'flock.db'));
  const registry = new Registry({ table: database.table, clock: systemClock, uid: randomUUID });
  const authority = await openAuthority(database.settings, systemClock);
  const tls = await authority.issueServer([HOST]);
  const server = await startServer({ registry, listen: { host: HOST, port: 0 }, tls, clock: systemClock, log });
  const kubeconfig = join(folder, 'kubeconfig');
  await writeKubeconfig(kubeconfig, { name: 'flock', server: server.address, credentials: await authority.issueAdmin() });
  return {
    kubectl: new Kubectl(kubectl, kubeconfig, join(folder, 'kubectl')),
    close: async () => {
      await server.close();
      database.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
