// CSI of an agent's process: identity and node on one socket, and on another, if there is a kubelet, how it comes to know of the first.
import { join } from 'node:path';
import type { Alongside, LocalNode } from '../agent/local-node.ts';
import { openPublications } from '../agent/publications.ts';
import type { Log } from '../api/log.ts';
import { killByFile } from '../host/crash-file.ts';
import { systemClock } from '../model/clock.ts';
import { hostBinds, type Binds } from './binds.ts';
import { identityService } from './identity.ts';
import { nodeService } from './node.ts';
import { registrationService } from './registration.ts';
import { serveOn, type Endpoint } from './socket.ts';

export interface NodeServing {
  /** Path of the driver's socket, as the kubelet sees it too. */
  socket: string;
  /** Path of the socket in the kubelet's folder of registrations. */
  registration?: string;
  /** Folder of the agent's own files. */
  folder: string;
  log: Log;
  version: string;
  binds?: Binds;
}

/** Ends with the agent. Throws Conflict when another process serves one of the sockets. */
export const serveNode =
  (options: NodeServing): Alongside =>
  async (local) => {
    const driver = await serveDriver(local, options);
    const { registration, log } = options;
    if (registration === undefined) return driver;
    try {
      const known = await serveOn(registration, [registrationService({ endpoint: options.socket, log })]);
      return {
        close: async () => {
          // First the kubelet forgets the driver, or it would call one that is gone.
          await known.close();
          await driver.close();
        },
      };
    } catch (error) {
      await driver.close();
      throw error;
    }
  };

async function serveDriver(local: LocalNode, { socket, folder, log, version, binds = hostBinds }: NodeServing): Promise<Endpoint> {
  const targets = await openPublications(join(folder, 'csi-targets.json'), binds);
  const endpoint = await serveOn(socket, [
    identityService({ log, version, isReady: () => true }),
    nodeService({ local, binds, targets, clock: systemClock, log, crash: killByFile(process.env['FLOCK_CRASH_FILE']) }),
  ]);
  log.info({ socket }, 'CSI is served');
  return endpoint;
}
