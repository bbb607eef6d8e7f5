// A tree as the source serves it: its list, once and in order, with the content of what the target cannot have; parts of files that are asked
// for; and what changed since. Knows no sockets.
import { closeSync } from 'node:fs';
import type { CrashPoint } from '../../model/crash.ts';
import { FlockError, messageOf } from '../../model/errors.ts';
import { FORMATS, isVanished, openDirectoryAt, openFileAt, readable, statOf, type Time } from '../../host/tree-calls.ts';
import type { TreeHandle } from '../../pools/pool.ts';
import type { Log } from '../../api/log.ts';
import type { Hello, Offer } from '../transfer.ts';
import { LEAF } from '../leaves.ts';
import { Base } from './base.ts';
import { filled, Hashed, isZero, pieces, readSmall, SMALL, sumsOf, sumsOfSmall, type Short } from './content.ts';
import type { TreeCrashPoint } from './crash-points.ts';
import { diskTime, diskTimeAfter, flushTree, forgetManifests, manifestOf, openTree } from './disk.ts';
import { TreeDigest, type KnownEntry } from './entry.ts';
import { ManifestWriter } from './manifest-file.ts';
import { pathOf, type Fetch, type OpenMessage } from './messages.ts';
import { namesOf } from './paths.ts';
import { Scan, type Scanned } from './scan.ts';
import { checkStill } from './still.ts';
import { StreamWriter } from './stream.ts';
import { leafOf } from './sums.ts';

/** Bytes of the list in one frame. */
const FRAME = 1024 * 1024;

export interface TreeServed {
  offer: Offer;
  hello: Hello;
  crash: CrashPoint;
  log: Log;
  signal: AbortSignal;
}

export class TreeSource {
  /** Nothing can change while it is read. */
  readonly settled: boolean;
  readonly #served: TreeServed;
  readonly #tree: TreeHandle;
  readonly #base: Base;
  readonly #scan: Scan;
  readonly #start: Time;
  readonly #after: string | null;
  readonly #out = new StreamWriter();
  readonly #digest = new TreeDigest();
  #manifest: ManifestWriter | null;
  readonly #records: AsyncGenerator<void>;
  #over = false;
  #isWritten = false;

  private constructor(
    served: TreeServed,
    order: OpenMessage,
    parts: { tree: TreeHandle; base: Base; scan: Scan; start: Time; manifest: ManifestWriter | null },
  ) {
    this.#served = served;
    this.settled = isSettled(served, order);
    this.#after = order.after === null ? null : pathOf(order.after);
    this.#tree = parts.tree;
    this.#base = parts.base;
    this.#scan = parts.scan;
    this.#start = parts.start;
    this.#manifest = parts.manifest;
    this.#records = this.#produce();
  }

  /** Throws Conflict for a final round, or a scrub, of what is not fenced. */
  static async open(served: TreeServed, order: OpenMessage): Promise<TreeSource> {
    const { offer, hello, signal } = served;
    const { pool, copy } = offer;
    await pool.verify();
    if ((order.final || hello.purpose === 'scrub') && !offer.fenced)
      throw new FlockError('Conflict', `the copy ${copy} is not fenced here: it is not final yet; ask again once it is retired`);
    const settled = isSettled(served, order);
    if (order.afresh) await forgetManifests(pool, copy);
    await offer.flush?.();
    // What fails half-way leaves nothing open: a target tries again for days.
    await using opened = new AsyncDisposableStack();
    const tree = opened.adopt(await openTree(pool, copy, 'read'), (each) => each.close());
    if (!settled) await flushTree(tree);
    const start = settled ? await diskTimeAfter(pool, copy) : await diskTime(pool, copy);
    const base = opened.adopt(await Base.open(manifestOf(pool, copy)), (each) => each.close());
    const after = order.after === null ? null : pathOf(order.after);
    const isAsked = (path: string): boolean => hello.purpose !== 'scrub' && isBeyond(path, after);
    const scan = new Scan({ root: tree.fd, base, start, settled, signal, isAsked });
    opened.defer(() => scan.close());
    const source = new TreeSource(served, order, {
      tree,
      base,
      scan,
      start,
      manifest: await ManifestWriter.create(manifestOf(pool, copy)),
    });
    opened.move();
    return source;
  }

  /** The next part of the list; empty after its end. */
  async next(): Promise<Buffer> {
    while (!this.#over && this.#out.length < FRAME) this.#over = (await this.#records.next()).done === true;
    return this.#out.take(FRAME);
  }

  /** The parts that are asked for of one file, in pieces of a frame; null: zeros. What vanished since reads as zeros, and the next round knows better. */
  async *fetch({ path, size, leaf, ranges }: Fetch): AsyncGenerator<{ offset: number; length: number; bytes: Buffer | null }> {
    const fd = this.#opened(path);
    try {
      for (const { first, count } of ranges)
        for (let offset = first * leaf, end = Math.min(size, (first + count) * leaf); offset < end; offset += LEAF) {
          const length = Math.min(LEAF, end - offset);
          const bytes = fd === null ? null : await filled(fd, { buffer: Buffer.allocUnsafe(length), offset, short: this.#short });
          yield { offset, length, bytes: bytes && isZero(bytes) ? null : bytes };
        }
    } finally {
      if (fd !== null) closeSync(fd);
    }
  }

  /** After the list of a fenced tree, before anything rests on it. Throws InUse, naming what changed; Conflict before the list's end. */
  async checkStill(): Promise<void> {
    if (!this.settled || !this.#over) throw new FlockError('Conflict', 'no list of a fenced directory was told to its end');
    const { offer, signal } = this.#served;
    const manifest = this.#isWritten ? manifestOf(offer.pool, offer.copy) : null;
    await checkStill({ root: this.#tree.fd, since: this.#start, manifest, signal });
  }

  async close(): Promise<void> {
    await this.#records.return(undefined);
    this.#scan.close();
    await this.#manifest?.close();
    await this.#base.close();
    await this.#tree.close();
  }

  get #short(): Short {
    return this.settled ? 'refuse' : 'zeros';
  }

  async *#produce(): AsyncGenerator<void> {
    for (let scanned = await this.#scan.next(); scanned; scanned = await this.#scan.next()) {
      try {
        yield* this.#tell(scanned);
      } finally {
        if (scanned.fd !== null) closeSync(scanned.fd);
      }
      if (this.#out.length >= FRAME) yield;
    }
    this.#crash('tree.source.walked');
    await this.#remembered(async (manifest) => {
      await manifest.finish();
      this.#manifest = null;
      this.#isWritten = true;
    });
    this.#crash('tree.source.listed');
    this.#out.end({ digest: this.#digest.end(), entries: this.#digest.entries, bytes: this.#digest.bytes });
  }

  async *#tell(scanned: Scanned): AsyncGenerator<void> {
    const { entry, fd } = scanned;
    if (fd === null) {
      this.#out.entry(entry, false);
      return this.#count(entry);
    }
    const inline = this.#served.hello.purpose !== 'scrub' && (entry.size <= SMALL || isBeyond(entry.path, this.#after));
    if (entry.size <= SMALL) return this.#tellSmall(scanned, fd, inline);
    if (inline) return yield* this.#tellWhole(scanned, fd);
    const sums = await sumsOf(fd, { size: entry.size, short: this.#short });
    const known = this.#scan.after(scanned, sums);
    this.#out.entry(known, false);
    await this.#count(known);
  }

  #tellSmall(scanned: Scanned, fd: number, inline: boolean): Promise<void> {
    const bytes = readSmall(fd, scanned.entry.size, this.#short);
    const known = this.#scan.after(scanned, sumsOfSmall(bytes));
    this.#out.entry(known, inline);
    if (inline && !isZero(bytes)) this.#out.leaf(0, bytes);
    return this.#count(known);
  }

  async *#tellWhole(scanned: Scanned, fd: number): AsyncGenerator<void> {
    const { entry } = scanned;
    const leaf = leafOf(entry.size);
    const hashed = new Hashed(entry.size, leaf);
    this.#out.entry(entry, true);
    for await (const piece of pieces(fd, { size: entry.size, leaf, short: this.#short })) {
      for (const { offset, bytes } of hashed.put(piece)) this.#out.leaf(offset, bytes);
      if (this.#out.length >= FRAME) yield;
    }
    const sums = hashed.end();
    this.#out.sums(entry.size, sums);
    await this.#count(this.#scan.after(scanned, sums));
  }

  async #count(entry: KnownEntry): Promise<void> {
    this.#digest.put(entry);
    this.#manifest?.put(entry);
    if (this.#manifest?.isDue) await this.#remembered((manifest) => manifest.flush());
  }

  /** A full disk costs the source its memory of the walk, and nothing else. */
  async #remembered(act: (manifest: ManifestWriter) => Promise<void>): Promise<void> {
    const manifest = this.#manifest;
    if (!manifest) return;
    try {
      await act(manifest);
    } catch (error) {
      this.#manifest = null;
      await manifest.close().catch(() => undefined);
      this.#served.log.warn(
        { copy: this.#served.offer.copy, error: messageOf(error) },
        'the source cannot remember what it read: it will be read again',
      );
    }
  }

  #opened(path: string): number | null {
    const names = namesOf(path);
    let dir = this.#tree.fd;
    try {
      for (const name of names.slice(0, -1)) {
        const below = openDirectoryAt(dir, name);
        if (dir !== this.#tree.fd) closeSync(dir);
        dir = below;
      }
      return regular(openFileAt(dir, names.at(-1) ?? '.'));
    } catch (error) {
      if (this.settled || !isVanished(error))
        throw new FlockError('Conflict', `"${readable(path)}" was asked for and cannot be opened: ${messageOf(error)}`, { cause: error });
      return null;
    } finally {
      if (dir !== this.#tree.fd) closeSync(dir);
    }
  }

  #crash(point: TreeCrashPoint): void {
    this.#served.crash(point);
  }
}

function regular(fd: number): number {
  if (statOf(fd).format === FORMATS.file) return fd;
  closeSync(fd);
  throw new FlockError('Conflict', 'it is no file', { cause: { code: 'ESTALE' } });
}

const isSettled = ({ hello, offer }: TreeServed, { final }: OpenMessage): boolean => offer.fenced && (final || hello.purpose === 'scrub');
const isBeyond = (path: string, after: string | null): boolean => after === null || path > after;

/** Bytes of files that changed since they were last listed: a final round has to read them. */
export async function dirtyOf(served: TreeServed): Promise<{ bytes: number; walkMs: number }> {
  const { pool, copy, flush } = served.offer;
  await flush?.();
  await using opened = new AsyncDisposableStack();
  const tree = opened.adopt(await openTree(pool, copy, 'read'), (each) => each.close());
  const base = opened.adopt(await Base.open(manifestOf(pool, copy)), (each) => each.close());
  const began = performance.now();
  const scan = new Scan({ root: tree.fd, base, start: await diskTime(pool, copy), settled: false, signal: served.signal });
  opened.defer(() => scan.close());
  let bytes = 0;
  for (let scanned = await scan.next(); scanned; scanned = await scan.next()) {
    if (scanned.fd === null) continue;
    // Holes are not read.
    bytes += Math.min(scanned.entry.size, statOf(scanned.fd).allocated);
    closeSync(scanned.fd);
  }
  return { bytes, walkMs: Math.ceil(performance.now() - began) };
}
