// The two kinds of Kubernetes itself that Flock also uses: Lease and Event, as far as it uses them.
import type { Kind } from './kind.ts';
import type { ApiObject } from './meta.ts';

export interface Lease extends ApiObject {
  spec: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    /** RFC 3339 with microseconds. */
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
  };
}

export interface Event extends ApiObject {
  involvedObject: {
    apiVersion?: string;
    kind?: string;
    namespace?: string;
    name?: string;
    uid?: string;
    resourceVersion?: string;
    fieldPath?: string;
  };
  type: 'Normal' | 'Warning';
  reason: string;
  message: string;
  count?: number;
  firstTimestamp?: string;
  lastTimestamp?: string;
  source?: { component?: string; host?: string };
  reportingComponent?: string;
  reportingInstance?: string;
}

const stored = { schema: null, statusSubresource: false, rules: [], scope: 'Namespaced' } as const;

export const Leases: Kind<Lease> = {
  ...stored,
  group: 'coordination.k8s.io',
  version: 'v1',
  kind: 'Lease',
  plural: 'leases',
  singular: 'lease',
  shortNames: [],
  columns: [
    { name: 'Holder', type: 'string', jsonPath: '.spec.holderIdentity' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
};

export const Events: Kind<Event> = {
  ...stored,
  group: '',
  version: 'v1',
  kind: 'Event',
  plural: 'events',
  singular: 'event',
  shortNames: ['ev'],
  columns: [
    { name: 'Last Seen', type: 'date', jsonPath: '.lastTimestamp' },
    { name: 'Type', type: 'string', jsonPath: '.type' },
    { name: 'Reason', type: 'string', jsonPath: '.reason' },
    { name: 'Object', type: 'string', jsonPath: '.involvedObject' },
    { name: 'Source', type: 'string', jsonPath: '.source.component', priority: 1 },
    { name: 'Message', type: 'string', jsonPath: '.message' },
    { name: 'First Seen', type: 'date', jsonPath: '.firstTimestamp', priority: 1 },
    { name: 'Count', type: 'integer', jsonPath: '.count', priority: 1 },
    { name: 'Name', type: 'string', jsonPath: '.metadata.name', priority: 1 },
  ],
};
