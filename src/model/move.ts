// Move: one volume's way from one node to another. The controller writes phase and round, the source's agent `outgoing`, the target's
// agent `incoming`; nobody writes another's part. The states are told in docs/moves.md.
import Type, { type Static } from 'typebox';
import type { Kind } from './kind.ts';
import { Condition, GROUP, Obstacle, VERSION, type ApiObject } from './meta.ts';
import { DURATION_PATTERN, NAME_PATTERN } from './names.ts';
import { QUANTITY_PATTERN } from './quantity.ts';

export const MOVE_PHASES = [
  'Pending',
  'Reserving',
  'Syncing',
  'ReadyToCutOver',
  'Fencing',
  'FinalDelta',
  'Verifying',
  'Committed',
  'Activating',
  'Published',
  'Retaining',
  'Done',
  'Cancelling',
  'Cancelled',
  'Failed',
] as const;
export type MovePhase = (typeof MOVE_PHASES)[number];

export const MoveSpec = Type.Object({
  volume: Type.String({ pattern: NAME_PATTERN, maxLength: 253 }),
  target: Type.String({ pattern: NAME_PATTERN, maxLength: 253, description: 'Node to move to.' }),
  reason: Type.Optional(Type.String({ maxLength: 256 })),
  allowedPause: Type.Optional(Type.String({ pattern: DURATION_PATTERN, maxLength: 40, description: "Overrides the volume's." })),
  retainSource: Type.Optional(
    Type.String({
      pattern: DURATION_PATTERN,
      maxLength: 40,
      description: "Overrides the volume's, also while the old copy is kept: 0s lets it go once it was compared with the new one.",
    }),
  ),
  bandwidth: Type.Optional(
    Type.String({ pattern: QUANTITY_PATTERN, maxLength: 40, description: 'Bytes a second; may be changed while the move runs.' }),
  ),
  stallPolicy: Type.Optional(
    Type.Enum(['Wait', 'CutOver', 'Abort'], { description: 'What to do when the rounds do not get small enough for the allowed pause.' }),
  ),
  cancel: Type.Optional(Type.Boolean({ description: 'Asks to end the move before its commit; cannot be taken back.' })),
});
export type MoveSpec = Static<typeof MoveSpec>;

const Place = Type.Object({ node: Type.String(), copy: Type.String() });

/** The last delta of a cut-over was read back and agreed with what was sent. */
export const Verified = Type.Object({
  round: Type.Integer(),
  epoch: Type.Integer(),
  bytes: Type.String(),
  frames: Type.Integer(),
  /** Root hash that source and target agreed on in the last round before fencing, or in this one if it compared everything. */
  root: Type.Optional(Type.String()),
});
export type Verified = Static<typeof Verified>;

/** Written by the source's agent. */
export const Outgoing = Type.Object({
  /** The source's label said `retired` at this time, and its bytes cannot change. */
  fencedAt: Type.Optional(Type.String({ format: 'date-time' })),
  fencedEpoch: Type.Optional(Type.Integer()),
  /** The label of the fenced copy said so: what arrives at the target holds a filesystem, also when it was made after the move began. */
  formatted: Type.Optional(Type.Boolean()),
  unfencedEpoch: Type.Optional(Type.Integer()),
  obstacle: Type.Optional(Obstacle),
});
export type Outgoing = Static<typeof Outgoing>;

/** Written by the target's agent. Byte counts are decimal strings, rates bytes a second. */
export const Incoming = Type.Object({
  reserved: Type.Optional(Type.Boolean()),
  /** Round that `bytes…` speak of. */
  round: Type.Optional(Type.Integer()),
  /** Last round that is whole, durable and verified. */
  completeRound: Type.Optional(Type.Integer()),
  bytesTotal: Type.Optional(Type.String()),
  bytesDone: Type.Optional(Type.String()),
  bytesLeft: Type.Optional(Type.String()),
  /** Over all rounds: payload that crossed the wire, what a resume did not have to send again. */
  bytesSent: Type.Optional(Type.String()),
  bytesResumed: Type.Optional(Type.String()),
  rate: Type.Optional(Type.Integer()),
  etaSeconds: Type.Optional(Type.Integer()),
  /** Bytes that changed at the source since the last complete round; absent: the pool cannot tell, everything must be compared. */
  dirty: Type.Optional(Type.String()),
  /** Allocated bytes at the source in round 0. */
  allocated: Type.Optional(Type.String()),
  /** Size of each complete round, bytes sent: of the first one and the last ones, for a move may wait for days. */
  rounds: Type.Optional(Type.Array(Type.String())),
  /** How many rounds are complete. */
  roundCount: Type.Optional(Type.Integer()),
  verified: Type.Optional(Verified),
  scrub: Type.Optional(
    Type.Object({
      state: Type.Enum(['Running', 'Passed', 'Repaired', 'Impossible', 'Failed']),
      message: Type.Optional(Type.String()),
      root: Type.Optional(Type.String()),
    }),
  ),
  retries: Type.Optional(Type.Integer()),
  obstacle: Type.Optional(Obstacle),
});
export type Incoming = Static<typeof Incoming>;

export const MoveStatus = Type.Object({
  phase: Type.Optional(Type.Enum([...MOVE_PHASES])),
  /** Round that the target's agent is to have complete. */
  round: Type.Optional(Type.Integer()),
  /** The volume as it was when the move was accepted. */
  volumeUid: Type.Optional(Type.String()),
  epoch: Type.Optional(Type.Integer()),
  pool: Type.Optional(Type.String()),
  source: Type.Optional(Place),
  target: Type.Optional(Place),
  /** The target copy is one that superseded or cancelled moves left there; its bytes are compared, not trusted. */
  reused: Type.Optional(Type.Boolean()),
  /** How a cancelled move is to end, and why. */
  ending: Type.Optional(Type.Object({ phase: Type.Enum(['Cancelled', 'Failed']), reason: Type.String(), message: Type.String() })),
  /** The superseded copy may be removed now: set once it is no longer kept. */
  release: Type.Optional(Type.Boolean()),
  obstacle: Type.Optional(Obstacle),
  outgoing: Type.Optional(Outgoing),
  incoming: Type.Optional(Incoming),
  attempts: Type.Optional(Type.Integer()),
  startedAt: Type.Optional(Type.String({ format: 'date-time' })),
  fencingAt: Type.Optional(Type.String({ format: 'date-time' })),
  committedAt: Type.Optional(Type.String({ format: 'date-time' })),
  finishedAt: Type.Optional(Type.String({ format: 'date-time' })),
  /** From the order to fence to the target's activation, ms: what the move itself took of the application's time. */
  pauseMs: Type.Optional(Type.Integer()),
  conditions: Type.Optional(Type.Array(Condition)),
});
export type MoveStatus = Static<typeof MoveStatus>;

export interface Move extends ApiObject {
  spec: MoveSpec;
  status?: MoveStatus;
}

/** Held until the move has ended: a deleted Move is a cancelled one first. */
export const MOVE_FINALIZER = 'flock.dev/move';

export const Moves: Kind<Move> = {
  group: GROUP,
  version: VERSION,
  kind: 'Move',
  plural: 'moves',
  singular: 'move',
  shortNames: ['fmove'],
  scope: 'Cluster',
  schema: { spec: MoveSpec, status: Type.Optional(MoveStatus) },
  statusSubresource: true,
  rules: [
    { path: 'spec.volume', rule: 'self == oldSelf', message: 'volume cannot change' },
    { path: 'spec.target', rule: 'self == oldSelf', message: 'target cannot change; cancel the move and create another' },
    { path: 'spec', rule: '!(oldSelf.?cancel.orValue(false)) || self.?cancel.orValue(false)', message: 'a cancel cannot be taken back' },
  ],
  columns: [
    { name: 'Volume', type: 'string', jsonPath: '.spec.volume' },
    { name: 'From', type: 'string', jsonPath: '.status.source.node' },
    { name: 'To', type: 'string', jsonPath: '.spec.target' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Obstacle', type: 'string', jsonPath: '.status.obstacle.reason' },
    { name: 'Round', type: 'integer', jsonPath: '.status.round' },
    { name: 'Done', type: 'string', jsonPath: '.status.incoming.bytesDone' },
    { name: 'Left', type: 'string', jsonPath: '.status.incoming.bytesLeft' },
    { name: 'Rate', type: 'integer', jsonPath: '.status.incoming.rate', priority: 1 },
    { name: 'ETA', type: 'integer', jsonPath: '.status.incoming.etaSeconds', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
};
