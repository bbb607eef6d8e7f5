// CSI Identity: who this is and whether it can work now.
import type { CallOptions } from './unary.ts';
import { implementation } from './unary.ts';
import { IdentityService, type PluginCapability, type IdentityServer } from './generated/csi.ts';
import { PluginCapability_Service_Type as ServiceType, PluginCapability_VolumeExpansion_Type as ExpansionType } from './generated/csi.ts';
import { DRIVER } from './names.ts';
import type { Service } from './socket.ts';

export interface IdentityOptions extends CallOptions {
  version: string;
  /** False: come again later. */
  isReady: () => boolean;
}

const serviceOf = (value: ServiceType): PluginCapability => ({ type: { $case: 'service', value: { type: value } } });

/** The same on nodes and controller: a driver is one thing. */
const CAPABILITIES: PluginCapability[] = [
  serviceOf(ServiceType.CONTROLLER_SERVICE),
  serviceOf(ServiceType.VOLUME_ACCESSIBILITY_CONSTRAINTS),
  { type: { $case: 'volumeExpansion', value: { type: ExpansionType.ONLINE } } },
];

export function identityService(options: IdentityOptions): Service {
  return {
    definition: IdentityService,
    implementation: implementation<IdentityServer>(
      {
        getPluginInfo: { answer: async () => ({ name: DRIVER, vendorVersion: options.version, manifest: {} }) },
        getPluginCapabilities: { answer: async () => ({ capabilities: CAPABILITIES }) },
        probe: { answer: async () => ({ ready: options.isReady() }) },
      },
      options,
    ),
  };
}
