// CSI of a controller over a real socket, with the real controllers and agents over pools in memory; and requests as callers make them. Only *.test.ts
// import it.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import * as csi from '../csi/generated/csi.ts';
import { VolumeCapability_AccessMode_Mode as Mode } from '../csi/generated/csi.ts';
import { serveController } from '../csi/serve-controller.ts';
import { afterwards, type Test } from './afterwards.ts';
import { clientOf, type Calls } from './csi-client.ts';
import { temporaryFolder } from './folders.ts';
import { keptLog } from './kept-log.ts';
import { World, type WorldOptions } from './world.ts';

export const GIBI = 1n << 30n;
export const MEBI = 1n << 20n;

export interface Driver {
  world: World;
  controller: Calls<csi.ControllerServer>;
  /** Lets the world turn until the call is answered. */
  during<T>(call: Promise<T>): Promise<T>;
  create(name: string, change?: Partial<csi.CreateVolumeRequest>): Promise<csi.Volume>;
  stop(): Promise<void>;
}

export async function driver(t: Test, options: WorldOptions = {}, isWanted = async (): Promise<boolean> => true): Promise<Driver> {
  const world = new World({ capacity: 10n * GIBI, ...options });
  const socket = join(await temporaryFolder(t), 'csi.sock');
  const endpoint = await serveController({
    socket,
    client: world.client,
    clock: world.clock,
    random: () => 0.5,
    log: keptLog(),
    version: '1',
    isWanted,
  });
  afterwards(t, () => endpoint.close(0));
  await world.settle();
  const controller = clientOf<csi.ControllerServer>(t, socket, csi.ControllerClient, csi);
  const during = async <T>(call: Promise<T>): Promise<T> => {
    let over = false;
    const end = (): boolean => (over = true);
    call.then(end, end);
    for (let turns = 0; !over; turns += 1) {
      assert.ok(turns < 2_000, `no answer after ${turns} turns: ${JSON.stringify(world.volumes())}`);
      await world.turn();
    }
    return call;
  };
  const create: Driver['create'] = async (name, change = {}) => {
    const { volume } = await during(controller.createVolume(request(name, change)));
    assert.ok(volume);
    await world.settle();
    return volume;
  };
  return { world, controller, during, create, stop: () => endpoint.close(1_000) };
}

export const mounted = (
  mode: Mode = Mode.SINGLE_NODE_WRITER,
  value: Partial<csi.VolumeCapability_MountVolume> = {},
): csi.VolumeCapability => ({
  accessMode: { mode },
  accessType: { $case: 'mount', value: { fsType: '', mountFlags: [], volumeMountGroup: '', ...value } },
});
export const block: csi.VolumeCapability = { accessMode: { mode: Mode.SINGLE_NODE_WRITER }, accessType: { $case: 'block', value: {} } };

export const sized = (requiredBytes: bigint, limitBytes = 0n): csi.CapacityRange => ({ requiredBytes, limitBytes });

export const on = (...nodes: string[]): csi.TopologyRequirement => ({
  preferred: nodes.map((node) => ({ segments: { 'csi.flock.dev/node': node, 'pool.csi.flock.dev/local': 'true' } })),
  requisite: ['node-1', 'node-2'].map((node) => ({ segments: { 'csi.flock.dev/node': node, 'pool.csi.flock.dev/local': 'true' } })),
});

export const request = (name: string, change: Partial<csi.CreateVolumeRequest> = {}): Partial<csi.CreateVolumeRequest> => ({
  name,
  volumeCapabilities: [mounted()],
  capacityRange: sized(GIBI),
  ...change,
});

export const snapshotContent = (snapshotId: string): csi.VolumeContentSource => ({ type: { $case: 'snapshot', value: { snapshotId } } });
export const volumeContent = (volumeId: string): csi.VolumeContentSource => ({ type: { $case: 'volume', value: { volumeId } } });
