// What the contract suite asks of a backend: a world to open pools in, and what the pool is to say of itself.
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { CrashPoint } from '../model/crash.ts';
import { isReason, type Reason } from '../model/errors.ts';
import type { Pool } from './pool.ts';

/** One disk with a pool on it. */
export interface PoolWorld {
  /** The pool as a process that has just started sees it. */
  open(crash?: CrashPoint): Promise<Pool>;
  /** Puts something there that is no copy; its name as the inventory tells it. */
  plantForeign(): Promise<string>;
  /** The foreign thing is as it was put there. */
  isForeignIntact(): Promise<boolean>;
  /** Names of everything on the disk that belongs to copies. */
  leftovers(): Promise<string[]>;
}

/** Makes a world with room for about so many bytes of copies; exactly so many may be booked. */
export type PoolFactory = (t: TestContext, capacity: bigint) => Promise<PoolWorld>;

/** What is promised depends on what the pool says of itself; here, what it is to say. */
export interface PoolTraits {
  points: boolean;
  attachable: boolean;
  /** Copies have blocks, true if not said; false: they are directories. */
  blocks?: boolean;
  /** Changes are told in blocks of this, bytes; 4096 if not said. */
  block?: number;
  /** Tells what it does not hold, and what was zeroed; true if not said. */
  zeros?: boolean;
  /** Histories that are tried; each takes long where a point is a command. */
  histories?: number;
  skip?: string | false;
}

export const rejects = (asked: Promise<unknown>, reason: Reason, message = /./u): Promise<void> =>
  assert.rejects(asked, (error: Error) => isReason(error, reason) && message.test(error.message));

/** Open as a transfer has it, whatever the copies are. */
export const openedAs = (pool: Pool, name: string, mode: 'read' | 'write'): Promise<{ close(): Promise<void> }> =>
  pool.openTree ? pool.openTree(name, mode) : pool.open(name, 'live', mode);
