// The parts that every object of the API shares: type, metadata, conditions. Shapes are those of Kubernetes.
// Knows no kind and does no I/O.
import Type, { type Static } from 'typebox';

export const GROUP = 'flock.dev';
export const VERSION = 'v1alpha1';
export const GROUP_VERSION = `${GROUP}/${VERSION}`;

/** Where Leases live. */
export const SYSTEM_NAMESPACE = 'flock-system';
/** Where Events of cluster-scoped objects live, as kube-apiserver wants it. */
export const EVENT_NAMESPACE = 'default';

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid?: string;
  /** Opaque; changes with every write. Compare for equality only. */
  resourceVersion?: string;
  /** Counts changes of the spec. */
  generation?: number;
  /** RFC 3339. */
  creationTimestamp?: string;
  /** Set when deletion was asked; the object stays until its finalizers are gone. */
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
  generateName?: string;
  managedFields?: unknown[];
}

export interface ApiObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
}

/** An object as its home returned it: identity and version are there. */
export type Stored<T extends ApiObject> = T & {
  metadata: ObjectMeta & { uid: string; resourceVersion: string; creationTimestamp: string };
};

export const Condition = Type.Object({
  type: Type.String({ maxLength: 316 }),
  status: Type.Enum(['True', 'False', 'Unknown']),
  reason: Type.String({ maxLength: 1024 }),
  message: Type.String({ maxLength: 32768 }),
  lastTransitionTime: Type.String({ format: 'date-time' }),
  observedGeneration: Type.Optional(Type.Integer()),
});
export type Condition = Static<typeof Condition>;

/** Refused or waiting: why, in a stable word and in a sentence that names the way out. */
export const Obstacle = Type.Object({
  reason: Type.String({ maxLength: 128 }),
  message: Type.String({ maxLength: 4096 }),
  since: Type.Optional(Type.String({ format: 'date-time' })),
});
export type Obstacle = Static<typeof Obstacle>;
