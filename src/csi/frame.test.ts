// What every service has in common, over real sockets: names, codes, locks, deadlines, the log, and who may serve where.
import { status } from '@grpc/grpc-js';
import assert from 'node:assert/strict';
import { link, rename, stat, writeFile } from 'node:fs/promises';
import { connect, constants } from 'node:http2';
import { createConnection, createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { FlockError, type Reason } from '../model/errors.ts';
import { clientOf, refused } from '../testing/csi-client.ts';
import { afterwards, type Test } from '../testing/afterwards.ts';
import { temporaryFolder } from '../testing/folders.ts';
import { keptLog } from '../testing/kept-log.ts';
import { codeOfObstacle, Refused, statusOf } from './errors.ts';
import * as csi from './generated/csi.ts';
import { InfoRequest, RegistrationClient, RegistrationStatus, type RegistrationServer } from './generated/pluginregistration.ts';
import { identityService } from './identity.ts';
import { DRIVER, NODE_KEY, poolKey } from './names.ts';
import { registrationService } from './registration.ts';
import { serveOn, type Endpoint, type Service } from './socket.ts';
import { implementation, type Methods } from './unary.ts';

const log = keptLog();
const identity = identityService({ log, version: '1.2.3', isReady: () => true });

async function serve(t: Test, services: readonly Service[], name = 'csi.sock'): Promise<Endpoint> {
  const endpoint = await serveOn(join(await temporaryFolder(t), name), services);
  afterwards(t, () => endpoint.close(0));
  return endpoint;
}

const controllerWith = (methods: Methods<csi.ControllerServer>, kept = keptLog()): Service => ({
  definition: csi.ControllerService,
  implementation: implementation<csi.ControllerServer>(methods, { log: kept }),
});

test('names that existing volumes and nodes carry stay as they are', () => {
  assert.deepEqual([DRIVER, NODE_KEY, poolKey('fast')], ['csi.flock.dev', 'csi.flock.dev/node', 'pool.csi.flock.dev/fast']);
});

test('the driver says who it is and what it can', async (t) => {
  const { path } = await serve(t, [identity]);
  const client = clientOf<csi.IdentityServer>(t, path, csi.IdentityClient, csi);
  assert.deepEqual(await client.getPluginInfo(), { name: 'csi.flock.dev', vendorVersion: '1.2.3', manifest: {} });
  assert.equal((await client.probe()).ready, true);
  const { capabilities } = await client.getPluginCapabilities();
  assert.deepEqual(
    capabilities.map(({ type }) => `${type?.$case} ${type?.value.type}`),
    ['service 1', 'service 2', 'volumeExpansion 1'],
  );
});

test('the kubelet is told where the driver is, and what it thinks of it is logged', async (t) => {
  const kept = keptLog();
  const { path } = await serve(t, [registrationService({ endpoint: '/plugins/csi.sock', log: kept })]);
  const client = clientOf<RegistrationServer>(t, path, RegistrationClient, {
    GetInfoRequest: InfoRequest,
    NotifyRegistrationStatusRequest: RegistrationStatus,
  });
  assert.deepEqual(await client.getInfo(), {
    type: 'CSIPlugin',
    name: 'csi.flock.dev',
    endpoint: '/plugins/csi.sock',
    supportedVersions: ['1.0.0'],
  });
  await client.notifyRegistrationStatus({ pluginRegistered: true });
  await client.notifyRegistrationStatus({ pluginRegistered: false, error: 'no such node' });
  const told = kept.lines.filter(({ level }) => level !== 'debug').map(({ level, message }) => `${level} ${message}`);
  assert.deepEqual(told, ['info the kubelet registered the driver', 'error the kubelet did not register the driver']);
});

test('methods that the driver does not have are unimplemented', async (t) => {
  const { path } = await serve(t, [controllerWith({})]);
  await refused(clientOf<csi.ControllerServer>(t, path, csi.ControllerClient, csi).createSnapshot(), status.UNIMPLEMENTED);
});

// ---- sockets -------------------------------------------------------------------------------------------------------------------

test('only the user that serves may connect', async (t) => {
  const { path } = await serve(t, [identity]);
  assert.equal((await stat(path)).mode & 0o777, 0o600);
});

test('a socket that a dead process left is replaced, and one that is served is not', async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, 'csi.sock');
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(path, resolve));
  await assert.rejects(serveOn(path, [identity]), { reason: 'Conflict', message: /another process serves/u });
  // A process that is killed does not remove its socket, one that closes it does: so another name keeps it.
  await link(path, join(folder, 'kept'));
  await new Promise<void>((resolve) => void other.close(() => resolve()));
  await rename(join(folder, 'kept'), path);
  const endpoint = await serveOn(path, [identity]);
  afterwards(t, () => endpoint.close(0));
  assert.equal((await clientOf<csi.IdentityServer>(t, path, csi.IdentityClient, csi).probe()).ready, true);
});

test('a living driver is not disturbed by who wanted its socket', async (t) => {
  const { path } = await serve(t, [identity]);
  await assert.rejects(serveOn(path, [identity]), { reason: 'Conflict' });
  assert.equal((await clientOf<csi.IdentityServer>(t, path, csi.IdentityClient, csi).probe()).ready, true);
});

test('what is there and is no socket stays', async (t) => {
  const path = join(await temporaryFolder(t), 'csi.sock');
  await writeFile(path, 'mine');
  await assert.rejects(serveOn(path, [identity]), { reason: 'Conflict', message: /is no socket/u });
  assert.equal((await stat(path)).size, 4);
});

for (const path of ['csi.sock', `/${'x'.repeat(107)}`])
  test(`a socket cannot be at ${path.slice(0, 12)}`, async () => {
    await assert.rejects(serveOn(path, [identity]), { reason: 'Invalid' });
  });

test('a call under way ends before the socket closes', async (t) => {
  const go = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const endpoint = await serve(t, [
    controllerWith({
      deleteVolume: {
        answer: async () => {
          begun.resolve();
          await go.promise;
          return {};
        },
      },
    }),
  ]);
  const call = clientOf<csi.ControllerServer>(t, endpoint.path, csi.ControllerClient, csi).deleteVolume();
  await begun.promise;
  const closed = endpoint.close();
  go.resolve();
  assert.deepEqual(await call, {});
  await closed;
  await assert.rejects(stat(endpoint.path), { code: 'ENOENT' });
});

/** Callers of gRPC libraries old and new name a unix socket differently in the header that a host would stand in. */
const AUTHORITIES = ['localhost', '%2Fcsi%2Fcsi.sock', 'csi.sock'];

for (const authority of AUTHORITIES)
  test(`a caller that names the socket ${JSON.stringify(authority)} is served`, async (t) => {
    const { path } = await serve(t, [identity]);
    assert.equal(await grpcStatus(path, authority), '0');
  });

// Node's HTTP/2 itself refuses these, before a driver could see them; so sidecars are to be given `unix:///...`, never a bare path.
for (const authority of ['/csi/csi.sock', ''])
  test(`a caller that names the socket ${JSON.stringify(authority)} is answered with a protocol error, and others are still served`, async (t) => {
    const { path } = await serve(t, [identity]);
    assert.match(await grpcStatus(path, authority), /PROTOCOL_ERROR/u);
    assert.equal(await grpcStatus(path, 'localhost'), '0');
  });

/** Of an empty GetPluginInfo: gRPC's own status, or how the stream broke. */
function grpcStatus(path: string, authority: string): Promise<string> {
  const session = connect('http://localhost', { createConnection: () => createConnection(path) });
  return new Promise<string>((resolve, reject) => {
    session.on('error', reject);
    const stream = session.request({
      [constants.HTTP2_HEADER_METHOD]: 'POST',
      [constants.HTTP2_HEADER_PATH]: '/csi.v1.Identity/GetPluginInfo',
      [constants.HTTP2_HEADER_AUTHORITY]: authority,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    stream.on('error', (error) => resolve(error.message));
    stream.on('trailers', (trailers) => resolve(String(trailers['grpc-status'])));
    stream.resume();
    stream.end(Buffer.alloc(5));
  }).finally(() => session.destroy());
}

// ---- calls ---------------------------------------------------------------------------------------------------------------------

test('a second call for a volume is aborted while the first is under way, and one for another volume is not', async (t) => {
  const go = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const { path } = await serve(t, [
    controllerWith({
      deleteVolume: {
        on: ({ volumeId }) => volumeId,
        answer: async ({ volumeId }) => {
          begun.resolve();
          if (volumeId === 'slow') await go.promise;
          return {};
        },
      },
    }),
  ]);
  const client = clientOf<csi.ControllerServer>(t, path, csi.ControllerClient, csi);
  const first = client.deleteVolume({ volumeId: 'slow' });
  await begun.promise;
  await refused(client.deleteVolume({ volumeId: 'slow' }), status.ABORTED, /another call for slow/u);
  assert.deepEqual(await client.deleteVolume({ volumeId: 'other' }), {});
  go.resolve();
  assert.deepEqual(await first, {});
  assert.deepEqual(await client.deleteVolume({ volumeId: 'slow' }), {});
});

test('who works on a call is told before the caller stops waiting', async (t) => {
  const { path } = await serve(t, [
    controllerWith({
      deleteVolume: {
        answer: (_, signal) => new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      },
    }),
  ]);
  const client = clientOf<csi.ControllerServer>(t, path, csi.ControllerClient, csi);
  await refused(client.deleteVolume({}, 1_000), status.DEADLINE_EXCEEDED, /the time for this call is over/u);
});

test('secrets are in no line of the log', async (t) => {
  const kept = keptLog();
  const { path } = await serve(t, [
    controllerWith({ createVolume: { on: ({ name }) => name, answer: async () => ({ volume: undefined }) } }, kept),
  ]);
  const client = clientOf<csi.ControllerServer>(t, path, csi.ControllerClient, csi);
  await client.createVolume({ name: 'x', secrets: { key: 'hush' }, capacityRange: { requiredBytes: 2n ** 60n + 1n, limitBytes: 0n } });
  const text = JSON.stringify(kept.lines);
  assert.doesNotMatch(text, /hush/u);
  assert.match(text, /"secrets":"left out"/u);
  assert.match(text, /"requiredBytes":"1152921504606846977"/u);
});

const CODES: [Reason, keyof typeof status][] = [
  ['Invalid', 'INVALID_ARGUMENT'],
  ['NotFound', 'NOT_FOUND'],
  ['AlreadyExists', 'ALREADY_EXISTS'],
  ['Conflict', 'ABORTED'],
  ['Forbidden', 'PERMISSION_DENIED'],
  ['Unauthorized', 'UNAUTHENTICATED'],
  ['Expired', 'UNAVAILABLE'],
  ['Unavailable', 'UNAVAILABLE'],
  ['NoSpace', 'RESOURCE_EXHAUSTED'],
  ['InUse', 'FAILED_PRECONDITION'],
  ['NotPermitted', 'FAILED_PRECONDITION'],
  ['Corrupt', 'DATA_LOSS'],
  ['Unsupported', 'FAILED_PRECONDITION'],
  ['Internal', 'INTERNAL'],
];

for (const [reason, code] of CODES)
  test(`${reason} is ${code}`, () => {
    assert.deepEqual(statusOf(new FlockError(reason, 'because')), { code: status[code], details: 'because' });
  });

test('an error of unknown origin is INTERNAL, a refusal has its own code, and long texts are cut', () => {
  assert.deepEqual(statusOf(new Error('oh')), { code: status.INTERNAL, details: 'oh' });
  assert.deepEqual(statusOf(new Refused(status.OUT_OF_RANGE, 'too much')), { code: status.OUT_OF_RANGE, details: 'too much' });
  assert.equal(statusOf(new Error('x'.repeat(9_000))).details.length, 2_001);
});

const OBSTACLES: [string, keyof typeof status | null][] = [
  ['NoSpace', 'RESOURCE_EXHAUSTED'],
  ['NoNode', 'RESOURCE_EXHAUSTED'],
  ['UnknownNode', 'RESOURCE_EXHAUSTED'],
  ['NodeNotReady', 'RESOURCE_EXHAUSTED'],
  ['NodeUnschedulable', 'RESOURCE_EXHAUSTED'],
  ['NoPool', 'RESOURCE_EXHAUSTED'],
  ['PoolUnhealthy', 'RESOURCE_EXHAUSTED'],
  ['NoFilesystem', 'RESOURCE_EXHAUSTED'],
  ['PoolNeeded', 'INVALID_ARGUMENT'],
  ['Invalid', 'INVALID_ARGUMENT'],
  ['Corrupt', 'DATA_LOSS'],
  ['Unavailable', null],
  ['Internal', null],
  ['NotPermitted', null],
  ['CopyMissing', null],
];

for (const [reason, code] of OBSTACLES)
  test(`a volume that is kept from being made by ${reason} ${code === null ? 'is waited for' : `is ${code}`}`, () => {
    assert.equal(codeOfObstacle(reason), code === null ? null : status[code]);
  });
