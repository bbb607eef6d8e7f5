// How the kubelet of a node comes to know the driver: it finds this service in its folder of registrations, asks where the driver is, and
// tells whether it took it.
import type { CallOptions } from './unary.ts';
import { implementation } from './unary.ts';
import { RegistrationService, type RegistrationServer } from './generated/pluginregistration.ts';
import { DRIVER } from './names.ts';
import type { Service } from './socket.ts';

export interface RegistrationOptions extends CallOptions {
  /** Path of the driver's socket, as the kubelet sees it. */
  endpoint: string;
}

/** Of the kubelet's own registration, not of CSI. */
const VERSIONS = ['1.0.0'];

export function registrationService({ endpoint, log, ...rest }: RegistrationOptions): Service {
  return {
    definition: RegistrationService,
    implementation: implementation<RegistrationServer>(
      {
        getInfo: { answer: async () => ({ type: 'CSIPlugin', name: DRIVER, endpoint, supportedVersions: VERSIONS }) },
        notifyRegistrationStatus: {
          answer: async ({ pluginRegistered, error }) => {
            // The kubelet comes again by itself.
            if (pluginRegistered) log.info({ endpoint }, 'the kubelet registered the driver');
            else log.error({ endpoint, error }, 'the kubelet did not register the driver');
            return {};
          },
        },
      },
      { log, ...rest },
    ),
  };
}
