// The target's journal, on the pool of the copy that it speaks of: what of a move is on the disk, whatever happened since. Beside it lie
// the plan of the round under way and the leaf table of the last complete one. Knows no wire.
import { open, readFile, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { writeWhole } from '../host/direct.ts';
import { beAbsent, isCode, writeAtomically } from '../host/files.ts';
import { FlockError, isReason } from '../model/errors.ts';
import type { CopyName, Pool } from '../pools/pool.ts';
import { HASH, hashing } from './hashing.ts';
import {
  begunRecord,
  completeRecord,
  madeRecord,
  progressRecord,
  replay,
  type Begun,
  type Completed,
  type Ledger,
  type Made,
  type Proven,
} from './journal-records.ts';
import { leafCount, LeafTable } from './leaves.ts';
import type { JournalState } from './transfer.ts';

/** `committed`: what both sides agreed on of a directory, see tree/scrub.ts. */
type Kind = 'journal' | 'plan' | 'leaves' | 'committed';
const pathOf = (pool: Pool, copy: CopyName, kind: Kind): string => join(pool.journals, `${copy}.${kind}`);

async function readIfThere(path: string): Promise<Buffer | null> {
  try {
    return await readFile(path);
  } catch (error) {
    if (isCode(error, 'ENOENT')) return null;
    throw error;
  }
}

/** What the journal of a copy proves; null when it has none. Throws Corrupt when it holds what was never written there. */
export async function readJournal(pool: Pool, copy: CopyName): Promise<JournalState | null> {
  const bytes = await readIfThere(pathOf(pool, copy, 'journal'));
  return (bytes && replay(bytes)?.ledger.state) ?? null;
}

/** Forgets all that is known of a copy's filling. The journal goes first: the others alone prove nothing. */
export async function dropJournal(pool: Pool, copy: CopyName): Promise<void> {
  for (const kind of ['journal', 'plan', 'leaves', 'committed'] as const) await beAbsent(pathOf(pool, copy, kind));
}

/** The leaf table of the last round that compared one; null when there is none for this size, or it is not whole. */
export async function keptLeaves(pool: Pool, copy: CopyName, deviceBytes: number): Promise<LeafTable | null> {
  const bytes = await readIfThere(pathOf(pool, copy, 'leaves'));
  const length = leafCount(deviceBytes) * HASH;
  if (bytes?.length !== length + HASH) return null;
  const table = new LeafTable(deviceBytes, bytes.subarray(0, length));
  return table.root() === bytes.subarray(length).toString('hex') ? table : null;
}

/** The plan of the last round that was begun, encoded; null when there is none. */
export const keptPlan = (pool: Pool, copy: CopyName): Promise<Buffer | null> => readIfThere(pathOf(pool, copy, 'plan'));

export class Journal {
  readonly ledger: Ledger;
  readonly #pool: Pool;
  readonly #copy: CopyName;
  readonly #file: FileHandle;
  #length: number;

  private constructor(pool: Pool, copy: CopyName, opened: { file: FileHandle; ledger: Ledger; length: number }) {
    this.#pool = pool;
    this.#copy = copy;
    this.#file = opened.file;
    this.#length = opened.length;
    this.ledger = opened.ledger;
  }

  /** The journal of this move and epoch, made if there is none. `empty` is asked when one is made: whether the copy was never written. */
  static async open(pool: Pool, made: Omit<Made, 'version' | 'pristine'>, empty: () => Promise<boolean>): Promise<Journal> {
    const { copy } = made;
    const path = pathOf(pool, copy, 'journal');
    const there = await readUsable(path);
    if (!there.ledger || !isOf(there.ledger.made, made)) {
      const pristine = !there.exists && (await empty());
      await dropJournal(pool, copy);
      await writeAtomically(path, madeRecord({ version: 2, ...made, pristine }));
    }
    const file = await open(path, 'r+');
    try {
      const replayed = replay(await file.readFile());
      if (!replayed) throw new FlockError('Corrupt', `the journal ${path} cannot be read back; check the pool's disk`);
      await file.truncate(replayed.length);
      await file.datasync();
      return new Journal(pool, copy, { file, ...replayed });
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** Whose plan is on the disk before any of its bytes: call after `savePlan`. */
  async begin(begun: Begun): Promise<void> {
    await this.#append([begunRecord(begun)]);
  }

  /** Call after the device was synced. */
  async progress(ranges: readonly Proven[], sent: number): Promise<void> {
    const told = ranges.length > 0 ? ranges : [{ first: 0, count: 0, hashes: Buffer.alloc(0) }];
    await this.#append(told.map((range, index) => progressRecord(range, index === 0 ? sent : 0)));
  }

  async complete(completed: Completed, sent: number): Promise<void> {
    await this.#append([completeRecord(completed, sent)]);
  }

  async savePlan(encoded: Buffer): Promise<void> {
    await writeAtomically(pathOf(this.#pool, this.#copy, 'plan'), encoded);
  }

  /** The plan of that hash; null when the one there is another. */
  async plan(hash: string): Promise<Buffer | null> {
    const bytes = await keptPlan(this.#pool, this.#copy);
    return bytes && hashing.digest(bytes).toString('hex') === hash ? bytes : null;
  }

  async saveLeaves(table: LeafTable): Promise<void> {
    await writeAtomically(pathOf(this.#pool, this.#copy, 'leaves'), Buffer.concat([table.hashes, Buffer.from(table.root(), 'hex')]));
  }

  /** The table with that root; null when the one there is another. */
  async leaves(deviceBytes: number, root: string): Promise<LeafTable | null> {
    const table = await keptLeaves(this.#pool, this.#copy, deviceBytes);
    return table?.root() === root ? table : null;
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  async #append(records: Buffer[]): Promise<void> {
    const bytes = Buffer.concat(records);
    await writeWhole(this.#file, bytes, BigInt(this.#length));
    await this.#file.datasync();
    this.#length += bytes.length;
  }
}

/** What cannot be read is there all the same: the copy was written by somebody. */
async function readUsable(path: string): Promise<{ exists: boolean; ledger: Ledger | null }> {
  const bytes = await readIfThere(path);
  if (!bytes) return { exists: false, ledger: null };
  try {
    return { exists: true, ledger: replay(bytes)?.ledger ?? null };
  } catch (error) {
    if (!isReason(error, 'Corrupt')) throw error;
    return { exists: true, ledger: null };
  }
}

const isOf = (there: Made, wanted: Omit<Made, 'version' | 'pristine'>): boolean =>
  there.moveUid === wanted.moveUid && there.epoch === wanted.epoch && there.volumeUid === wanted.volumeUid;
