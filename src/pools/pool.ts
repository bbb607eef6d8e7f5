// One small interface, one file a backend. A pool knows copies, labels, points in time and bytes; it knows no records and no network.
// Every call is safe to repeat, and what a crash left half-made is recognised by `scan`. What is damaged is never mended on a guess: every
// call that would use such a copy throws Corrupt.
import type { CopyLabel } from '../model/label.ts';
import type { Budget, PoolType } from '../model/storage-node.ts';

/** A copy's name on the disk: `<volume uid>-<copy id>`, see copyName. */
export type CopyName = string;
/** Name of a held point in time, by the pattern of ids. */
export type PointName = string;

/** A point of a copy of the same pool. */
export interface PointOf {
  copy: CopyName;
  point: PointName;
}

/** Bytes `offset` to `offset + length`, multiples of 4096 but for the end of the volume. ZERO reads as zeros, whether allocated or not. */
export interface Extent {
  offset: bigint;
  length: bigint;
  kind: 'DATA' | 'ZERO';
}

/** All in bytes. */
export interface PoolRoom {
  /** What may be booked; null: unlimited. */
  capacity: bigint | null;
  booked: bigint;
  /** The largest new copy that would be accepted now. */
  free: bigint;
  /** The real size and use of what is underneath. */
  size: bigint;
  used: bigint;
  /** Why nothing new is taken although the pool works. */
  warning?: string;
}

export interface Copy {
  name: CopyName;
  label: CopyLabel;
  size: bigint;
  /** null: nobody counts it. */
  allocated: bigint | null;
  points: PointName[];
  /** Its device while attached. */
  device: string | null;
  /** Of a pool of directories: where it is. */
  folder?: string;
  /** Why it is not what its label says, and the way out; its size is the label's then. It is removed when asked, and nothing else. */
  damage?: string;
}

/** A copy whose label cannot be read: its name alone says whose it is. */
export interface Unlabelled {
  name: CopyName;
  /** As of a Copy. */
  damage: string;
}

export interface Inventory {
  copies: Copy[];
  unlabelled: Unlabelled[];
  /** What lies there and is nobody's copy: reported, never touched. */
  foreign: string[];
}

/** Positioned IO on one copy or point. Buffers come from `alignedBuffer`, offsets and lengths are multiples of 4096 but for the end of the volume. */
export interface BlockHandle {
  readonly size: bigint;
  /** Fills the buffer whole, or throws. */
  read(buffer: Buffer, offset: bigint): Promise<void>;
  write(buffer: Buffer, offset: bigint): Promise<void>;
  /** These bytes read as zeros from now on. */
  zero(offset: bigint, length: bigint): Promise<void>;
  /** What was written is on the disk. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** A copy's directory, opened. What is below is reached from this descriptor alone. */
export interface TreeHandle {
  readonly fd: number;
  close(): Promise<void>;
}

/** The device (or directory) held so that nobody else can open, attach or write it; survives until released or the process ends. */
export interface Hold {
  release(): Promise<void>;
}

export interface Pool {
  readonly name: string;
  readonly type: PoolType;
  readonly uuid: string;
  readonly thin: boolean;
  /** Points in time and exact change tracking: a move can copy while the application writes. */
  readonly points: boolean;
  /** Copies can be attached as block devices here (root, loop devices); else their raw files are handed out. */
  readonly attachable: boolean;
  /** Unit that sizes are rounded up to, bytes. */
  readonly unit: bigint;
  /** Of a pool of directories: what keeps a volume within its size besides the booking. */
  readonly budget?: Budget;
  /** Folder for the journals of copies being filled: on this pool's own disk where it has folders, in the agent's otherwise. */
  readonly journals: string;

  /** Throws NotPermitted when the pool is not the one it was: other mount, other UUID, gone. Called before anything that writes. */
  verify(): Promise<void>;
  room(): Promise<PoolRoom>;
  /** What is wrong with one copy is told of that copy; throws only what is wrong with the pool. */
  scan(): Promise<Inventory>;
  /** Books the room and makes the copy; the real size in bytes. Throws NoSpace. A copy of that name that is there already is finished and returned. */
  create(name: CopyName, size: bigint, label: CopyLabel): Promise<bigint>;
  /**
   * As create, with the bytes of a point that stays held meanwhile; what is beyond its end reads as zeros. Whole or not there at all, for
   * others too. Throws NotFound when the point is gone, Invalid when it is larger than `size`.
   */
  clone(name: CopyName, size: bigint, label: CopyLabel, from: PointOf): Promise<bigint>;
  /** The real size afterwards, bytes; never shrinks. An attached device grows too. Throws NoSpace. */
  grow(name: CopyName, size: bigint): Promise<bigint>;
  /** Atomic, on the disk itself when it returns. */
  relabel(name: CopyName, label: CopyLabel): Promise<void>;
  /** Afterwards nothing of it is there. Throws InUse, naming the holder. */
  remove(name: CopyName, wipe: 'none' | 'discard' | 'zero'): Promise<void>;

  /**
   * A held, named, read-only point in time; durable. Repeating it for a point that is there changes nothing. Throws Unsupported without
   * `points`; NoSpace for a snapshot's (model/points.ts), whose room is booked unless the pool is thin.
   */
  freeze(name: CopyName, point: PointName): Promise<void>;
  release(name: CopyName, point: PointName): Promise<void>;
  /** What differs between two points, or from `to` alone all that is not known to be zero; sorted, no overlaps. NotFound when `from` is gone. */
  changed(name: CopyName, from: PointName | null, to: PointName | 'live'): AsyncIterable<Extent>;
  open(name: CopyName, point: PointName | 'live', mode: 'read' | 'write'): Promise<BlockHandle>;
  /**
   * Only of pools whose copies are directories: those have no blocks, `open` and `changed` throw Unsupported. Writing throws InUse while it
   * is attached or held.
   */
  openTree?(name: CopyName, mode: 'read' | 'write'): Promise<TreeHandle>;

  /**
   * The copy as a block device; the one there already if there is one. Without `attachable` the raw file itself, which is attached as long
   * as somebody has it open for writing; of a pool of directories the directory, attached as long as anything of it is in use. Throws InUse
   * (held, or being written by a transfer).
   */
  attach(name: CopyName): Promise<string>;
  /** Proven by absence: no device, no writer. Throws InUse, naming the holder. */
  detach(name: CopyName): Promise<void>;
  /** Throws InUse while attached, open for writing or held elsewhere. Attach fails while held. */
  hold(name: CopyName): Promise<Hold>;
}
