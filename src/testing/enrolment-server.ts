// A real server on the loopback over records in memory, with the routes of enrolment. Only *.test.ts import it.
import { randomUUID } from 'node:crypto';
import type { TestContext } from 'node:test';
import type { Authority } from '../api/certificates.ts';
import type { Client } from '../api/client.ts';
import { enrolmentRoutes, isRevoked } from '../api/enrolment.ts';
import { LocalClient } from '../api/local-client.ts';
import { Registry } from '../api/registry.ts';
import { startServer } from '../api/server.ts';
import { MemoryTable } from '../api/table.ts';
import { systemClock, type Clock } from '../model/clock.ts';
import { keptLog } from './kept-log.ts';
import { afterwards } from './afterwards.ts';

export function testRecords(clock: Clock): { registry: Registry; client: Client } {
  const registry = new Registry({ table: new MemoryTable(), clock, uid: randomUUID });
  return { registry, client: new LocalClient({ registry, clock }) };
}

/** Its address; ends with the test. */
export async function testServer(
  t: TestContext,
  authority: Authority,
  { registry, client }: { registry: Registry; client: Client },
): Promise<string> {
  const server = await startServer({
    registry,
    listen: { host: '127.0.0.1', port: 0 },
    tls: await authority.issueServer(['127.0.0.1']),
    isRevoked: (certificate) => isRevoked(client, certificate),
    routes: enrolmentRoutes(authority, client),
    clock: systemClock,
    log: keptLog(),
  });
  afterwards(t, () => server.close());
  return server.address;
}
