// A round as the source serves it: a point in time (or the live bytes), the list of what changed since the base, and the hashes of its
// leaves. Knows no sockets.
import { FlockError, ifFound } from '../model/errors.ts';
import type { CrashPoint } from '../model/crash.ts';
import { readPoint, roundPoint } from '../model/points.ts';
import type { BlockHandle, PointName } from '../pools/pool.ts';
import { hashLeaves, readPieces, type Block } from './disk.ts';
import { HASH, hashing } from './hashing.ts';
import { LEAF, leafLength, LeafTable, zeroHash } from './leaves.ts';
import { encodeManifest, type Manifest } from './manifest.ts';
import type { PrepareMessage } from './messages.ts';
import { pacedReads, type Work } from './restraint.ts';
import { dataBytes, DataMap, leavesOf, spansOf, type Span } from './spans.ts';
import type { Hello, Offer } from './transfer.ts';

/** What the source remembers of a move between its rounds. Lost with the process: it is found out again then, at the cost of reading. */
export interface MoveMemory {
  /** Roots of the last two rounds, and their leaves: the target may not have kept the newest. */
  roots: { round: number; root: string; table: LeafTable }[];
  /** Rounds whose points may be there; null: the pool was not asked yet. */
  points: Set<number> | null;
  allocated: number | null;
}

export interface Served {
  offer: Offer;
  hello: Hello;
  memory: MoveMemory;
  crash: CrashPoint;
}

export class SourceRound {
  readonly manifest: Manifest;
  readonly encoded: Buffer;
  readonly counts = { frames: 0, bytes: 0 };
  readonly #handle: BlockHandle;
  readonly #served: Served;
  readonly #table: LeafTable;

  private constructor(served: Served, manifest: Manifest, parts: { handle: BlockHandle; table: LeafTable }) {
    this.#served = served;
    this.manifest = manifest;
    this.encoded = encodeManifest(manifest);
    this.#handle = parts.handle;
    this.#table = parts.table;
  }

  /** Freezes the round's point (again, if that was done) and finds out what changed. Throws Conflict for live bytes that are not fenced. */
  static async prepare(served: Served, order: PrepareMessage): Promise<SourceRound> {
    const point = await freeze(served, order);
    const handle = await served.offer.pool.open(served.offer.copy, point, 'read');
    try {
      const deviceBytes = sizeOf(handle);
      const found = await changes(served, order, { point, deviceBytes });
      const head = headOf(served, order, { point, deviceBytes, cbt: found.cbt, allocated: found.allocated });
      const spans = found.cbt === 'hash' ? [] : found.spans;
      return new SourceRound(served, { head, spans }, { handle, table: tableOf(served, order, { ...found, deviceBytes }) });
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  get deviceBytes(): number {
    return this.manifest.head.deviceBytes;
  }

  get leafCount(): number {
    return this.#table.count;
  }

  /** Fills `into` with these pieces; its hash. */
  async read(into: Buffer, pieces: readonly Block[]): Promise<Buffer> {
    await readPieces(this.#handle, pieces, into);
    const hash = hashing.digest(into);
    const [{ offset }] = pieces as [Block];
    const leaf = Math.floor(offset / LEAF);
    const whole = pieces.length === 1 && offset % LEAF === 0 && into.length === leafLength(leaf, this.deviceBytes);
    if (whole && this.manifest.head.settled) this.#learn(leaf, hash);
    return hash;
  }

  /** What cannot change and was read before must read the same. */
  #learn(leaf: number, hash: Buffer): void {
    if (this.#table.isKnown(leaf) && !this.#table.get(leaf).equals(hash))
      throw new FlockError(
        'Corrupt',
        `the source read two different contents of the megabyte at ${leaf * LEAF} of ${this.#served.offer.copy}, which nobody wrote: check its disk`,
      );
    this.#table.set(leaf, hash);
  }

  /** The hashes of these leaves; read, unless they were hashed when they were sent and cannot have changed. */
  async hashes(leaves: readonly number[], stop: AbortSignal, work: Work | null = null): Promise<Buffer> {
    const missing = this.manifest.head.settled ? leaves.filter((leaf) => !this.#table.isKnown(leaf)) : leaves;
    const handle = work ? pacedReads(this.#handle, work, stop) : this.#handle;
    const read = await hashLeaves(handle, missing, this.deviceBytes, stop);
    missing.forEach((leaf, index) => this.#table.set(leaf, read.subarray(index * HASH, (index + 1) * HASH)));
    return Buffer.concat(leaves.map((leaf) => this.#table.get(leaf)));
  }

  async root(stop: AbortSignal, work: Work | null = null): Promise<string> {
    const { head } = this.manifest;
    if (!head.settled) throw new FlockError('Conflict', `round ${head.round} reads bytes that change: it has no root`);
    await this.hashes(this.#table.unknown(), stop, work);
    const root = this.#table.root();
    const { memory } = this.#served;
    memory.roots = [...memory.roots.filter(({ round }) => round !== head.round).slice(-1), { round: head.round, root, table: this.#table }];
    return root;
  }

  /** Bytes that changed since the round's point, null where the pool cannot tell. */
  async dirty(): Promise<number | null> {
    const { point } = this.manifest.head;
    const { pool, copy, flush } = this.#served.offer;
    if (point === 'live') return null;
    await flush?.();
    const spans = await spansOf(pool.changed(copy, point, 'live'), Number.MAX_SAFE_INTEGER);
    return spans.reduce((total, { length }) => total + length, 0);
  }

  /** Lets the points of earlier rounds go. */
  async releaseBefore(round: number): Promise<void> {
    const { offer, hello, memory, crash } = this.#served;
    memory.points ??= await pointsOf(offer, hello.moveUid);
    for (const earlier of [...memory.points].filter((candidate) => candidate < round)) {
      crash('transfer.source.release');
      await offer.pool.release(offer.copy, roundPoint(hello.moveUid, earlier));
      memory.points.delete(earlier);
      crash('transfer.source.released');
    }
  }

  close(): Promise<void> {
    return this.#handle.close();
  }
}

async function freeze({ offer, hello, memory, crash }: Served, order: PrepareMessage): Promise<PointName | 'live'> {
  await offer.pool.verify();
  if ((order.final || hello.purpose === 'scrub') && !offer.fenced)
    throw new FlockError(
      'Conflict',
      `the copy ${offer.copy} is not fenced here: its bytes are not final yet; ask again once it is retired`,
    );
  if (order.final || hello.purpose === 'scrub') return 'live';
  await offer.flush?.();
  if (!offer.pool.points) return 'live';
  const point = roundPoint(hello.moveUid, order.round);
  crash('transfer.source.freeze');
  await offer.pool.freeze(offer.copy, point);
  memory.points?.add(order.round);
  crash('transfer.source.frozen');
  return point;
}

function sizeOf(handle: BlockHandle): number {
  const size = Number(handle.size);
  if (!Number.isSafeInteger(size) || size <= 0) throw new FlockError('Unsupported', `a volume of ${handle.size} bytes cannot be moved`);
  return size;
}

interface Changes {
  cbt: 'fiemap' | 'hash' | 'full';
  spans: Span[];
  /** All that is allocated, where that was asked. */
  allocation: Span[] | null;
  allocated: number;
}

interface At {
  point: PointName | 'live';
  deviceBytes: number;
}

async function changes(served: Served, order: PrepareMessage, at: At): Promise<Changes> {
  const { memory } = served;
  const delta = await deltaOf(served, order, at);
  // In the pause the allocation is not asked for again: it is a figure to show.
  if (delta && order.final && memory.allocated !== null)
    return { cbt: 'fiemap', spans: delta, allocation: null, allocated: memory.allocated };
  const allocation = await spansOf(served.offer.pool.changed(served.offer.copy, null, at.point), at.deviceBytes);
  memory.allocated = dataBytes(allocation);
  const common = { allocation, allocated: memory.allocated };
  if (delta) return { cbt: 'fiemap', spans: delta, ...common };
  const full = order.base === null && !order.compare && served.hello.purpose === 'round';
  return full ? { cbt: 'full', spans: allocation, ...common } : { cbt: 'hash', spans: [], ...common };
}

/** What changed since the base; null when that cannot be known: leaves are compared then, and nothing is lost. */
async function deltaOf({ offer, hello, memory }: Served, order: PrepareMessage, at: At): Promise<Span[] | null> {
  const { base } = order;
  if (base === null || order.compare || !offer.pool.points || base.deviceBytes !== at.deviceBytes) return null;
  const known = memory.roots.find(({ round }) => round === base.round);
  if (known && known.root !== base.root) return null;
  return ifFound(spansOf(offer.pool.changed(offer.copy, roundPoint(hello.moveUid, base.round), at.point), at.deviceBytes));
}

function headOf({ offer, hello }: Served, order: PrepareMessage, found: At & { cbt: Changes['cbt']; allocated: number }): Manifest['head'] {
  const { point, deviceBytes, cbt, allocated } = found;
  return {
    version: 1,
    moveUid: hello.moveUid,
    volumeUid: hello.volumeUid,
    epoch: hello.epoch,
    deviceBytes,
    leafBytes: LEAF,
    hash: hashing.name,
    cbt,
    poolUuid: offer.pool.uuid,
    point,
    settled: point !== 'live' || offer.fenced,
    base: cbt === 'fiemap' && order.base ? { round: order.base.round, root: order.base.root } : null,
    round: order.round,
    final: order.final,
    allocated,
  };
}

/** The leaves whose hashes are known before anything is read: those of the base that did not change, and holes. */
function tableOf({ memory }: Served, order: PrepareMessage, found: Changes & { deviceBytes: number }): LeafTable {
  const base = memory.roots.find(({ round }) => round === order.base?.round);
  if (found.cbt === 'fiemap' && base) {
    const table = base.table.copy();
    for (const leaf of leavesOf(found.spans)) table.forget(leaf);
    return table;
  }
  const table = new LeafTable(found.deviceBytes);
  if (!found.allocation) return table;
  const data = new DataMap(found.allocation);
  for (let leaf = 0; leaf < table.count; leaf += 1) {
    const length = leafLength(leaf, found.deviceBytes);
    if (!data.meets(leaf * LEAF, length)) table.set(leaf, zeroHash(length));
  }
  return table;
}

async function pointsOf(offer: Offer, moveUid: string): Promise<Set<number>> {
  const { copies } = await offer.pool.scan();
  const points = copies.find(({ name }) => name === offer.copy)?.points ?? [];
  return new Set(points.flatMap((point) => roundOf(point, moveUid) ?? []));
}

function roundOf(point: PointName, moveUid: string): number | null {
  const read = readPoint(point);
  return read?.isOf(moveUid) ? read.round : null;
}
