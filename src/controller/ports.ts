// What the controller needs of the world, as parameters: the simulation and the tests give their own.
import type { Client } from '../api/client.ts';
import type { Caps } from '../decide/moves.ts';
import type { Clock } from '../model/clock.ts';
import type { CrashPoint } from '../model/crash.ts';
import type { ApiObject, Stored } from '../model/meta.ts';
import type { Move } from '../model/move.ts';
import type { StorageNode } from '../model/storage-node.ts';
import type { Volume } from '../model/volume.ts';

export interface Known {
  moves(): Stored<Move>[];
  nodes(): Stored<StorageNode>[];
  volumes(): Stored<Volume>[];
}

export interface ControllerPorts {
  client: Client;
  known: Known;
  caps: Caps;
  clock: Clock;
  crash: CrashPoint;
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
  /** An Event on the object, and a count. Never throws, never waits. */
  tell: (about: ApiObject, type: 'Normal' | 'Warning', reason: string, message: string) => void;
}

/** When to look again by itself, ms; undefined: when something changes. */
export type Again = { again: number } | undefined;
