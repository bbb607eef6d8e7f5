// Kubernetes' own kinds that only an installation in a cluster uses, as far as it uses them. Our server does not serve these.
import type { Kind } from '../model/kind.ts';
import type { ApiObject } from '../model/meta.ts';

export interface CertificateSigningRequest extends ApiObject {
  spec: {
    /** A PKCS#10 request as PEM, base64. */
    request: string;
    signerName: string;
    usages: string[];
    expirationSeconds?: number;
    /** Who asks: written by the API server, whatever the object said. */
    username?: string;
    extra?: { [key: string]: string[] };
  };
  status?: {
    conditions?: { type: string; status: string; reason?: string; message?: string }[];
    /** PEM, base64. */
    certificate?: string;
  };
}

export interface Secret extends ApiObject {
  type?: string;
  /** Base64. */
  data?: { [key: string]: string };
}

export interface ConfigMap extends ApiObject {
  data?: { [key: string]: string };
}

const stored = { version: 'v1', schema: null, statusSubresource: false, rules: [], shortNames: [], columns: [] } as const;

export const CertificateSigningRequests: Kind<CertificateSigningRequest> = {
  ...stored,
  group: 'certificates.k8s.io',
  kind: 'CertificateSigningRequest',
  plural: 'certificatesigningrequests',
  singular: 'certificatesigningrequest',
  scope: 'Cluster',
  statusSubresource: true,
};

export const Secrets: Kind<Secret> = { ...stored, group: '', kind: 'Secret', plural: 'secrets', singular: 'secret', scope: 'Namespaced' };

export const ConfigMaps: Kind<ConfigMap> = {
  ...stored,
  group: '',
  kind: 'ConfigMap',
  plural: 'configmaps',
  singular: 'configmap',
  scope: 'Namespaced',
};

export interface VolumeAttachment extends ApiObject {
  spec: { source: { persistentVolumeName?: string } };
}

export interface PersistentVolume extends ApiObject {
  spec: { claimRef?: { namespace?: string; name?: string } };
}

export interface Pod extends ApiObject {
  spec: { volumes?: { name: string; persistentVolumeClaim?: { claimName: string }; ephemeral?: object }[] };
  status?: { phase?: string };
}

export const VolumeAttachments: Kind<VolumeAttachment> = {
  ...stored,
  group: 'storage.k8s.io',
  kind: 'VolumeAttachment',
  plural: 'volumeattachments',
  singular: 'volumeattachment',
  scope: 'Cluster',
};

export const PersistentVolumes: Kind<PersistentVolume> = {
  ...stored,
  group: '',
  kind: 'PersistentVolume',
  plural: 'persistentvolumes',
  singular: 'persistentvolume',
  scope: 'Cluster',
};

export const Pods: Kind<Pod> = { ...stored, group: '', kind: 'Pod', plural: 'pods', singular: 'pod', scope: 'Namespaced' };
