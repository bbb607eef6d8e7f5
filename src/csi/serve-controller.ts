// CSI of a controller process: identity and controller on one socket, beside the reconcile loops and whether they lead or not.
import type { Client } from '../api/client.ts';
import type { Log } from '../api/log.ts';
import { killByFile } from '../host/crash-file.ts';
import type { Clock } from '../model/clock.ts';
import { controllerService } from './controller.ts';
import { identityService } from './identity.ts';
import { serveOn, type Endpoint } from './socket.ts';
import { snapshotWaits, volumeWaits } from './waiting.ts';

export interface ControllerServing {
  /** Path of the socket. */
  socket: string;
  client: Client;
  clock: Clock;
  random: () => number;
  log: Log;
  version: string;
  /** Whether an orchestrator still wants a volume on a node that it asked for; by default as long as its call lasts. */
  isWanted?: (volume: string, node: string) => Promise<boolean>;
}

export async function serveController(options: ControllerServing): Promise<Endpoint> {
  const { socket, log, version } = options;
  const waits = { volumes: volumeWaits(options), snapshots: snapshotWaits(options) };
  const all = Object.values(waits);
  const watching = all.map((each) => each.start());
  let synced = false;
  Promise.all(all.map((each) => each.synced)).then(
    () => (synced = true),
    () => undefined,
  );
  const end = async (): Promise<void> => {
    for (const each of all) each.stop();
    await Promise.all(watching);
  };
  try {
    const endpoint = await serveOn(socket, [
      identityService({ log, version, isReady: () => synced }),
      controllerService({ isWanted: async () => true, crash: killByFile(process.env['FLOCK_CRASH_FILE']), ...options }, waits),
    ]);
    log.info({ socket }, 'CSI is served');
    return {
      path: endpoint.path,
      close: async (patience) => {
        await end();
        await endpoint.close(patience);
      },
    };
  } catch (error) {
    await end();
    throw error;
  }
}
