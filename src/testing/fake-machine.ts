// What of a node outlives its agent, in memory: disks, mounts, journals, the file of publications; and the verbs on them. Filesystems are
// a word in a copy's first block, so that they travel with the bytes. Only *.test.ts import it.
import { ofVolume, volumesOf, type Publication, type Publications } from '../agent/publications.ts';
import type { Mounts, Transfer } from '../agent/ports.ts';
import { isLink, realPlace } from '../host/files.ts';
import { FlockError } from '../model/errors.ts';
import { roundPoint } from '../model/points.ts';
import type { MemoryDisk } from '../pools/memory.ts';
import type { CopyName, Pool } from '../pools/pool.ts';
import type { Authorize, JournalState, PullOptions, RoundOrder, RoundReport } from '../transfer/transfer.ts';

type MemoryCopy = MemoryDisk['copies'] extends Map<string, infer C> ? C : never;

const BLOCK = 4096;
const FIRST = 0n;
/** Says that the filesystem got an identity of its own. */
export const DISTINCT = 3n;

export interface Machine {
  disk: MemoryDisk;
  /** What is mounted, by path. */
  mounts: Map<string, { device: string; readOnly: boolean }>;
  journals: Map<CopyName, JournalState & { epoch: number; finals: number[] }>;
  publications: Map<CopyName, Publication[]>;
  /** How often a filesystem was made. */
  formatted: number;
  /** What a filesystem that is to grow answers instead. */
  growthError: Error | null;
}

export const machine = (disk: MemoryDisk): Machine => ({
  disk,
  mounts: new Map(),
  journals: new Map(),
  publications: new Map(),
  formatted: 0,
  growthError: null,
});

export function copyAt(disk: MemoryDisk, device: string): MemoryCopy {
  const found = [...disk.copies.values()].find((copy) => copy.device === device);
  if (!found) throw new FlockError('NotFound', `${device} is no block device: was it detached meanwhile?`);
  return found;
}

/** A block as text; '' where nothing was written. */
export const textAt = (copy: MemoryCopy, block: bigint): string => copy.live.get(block)?.toString('utf8').replaceAll('\0', '') ?? '';
export const writeText = (copy: MemoryCopy, block: bigint, text: string): void =>
  void copy.live.set(block, Buffer.concat([Buffer.from(text), Buffer.alloc(BLOCK)]).subarray(0, BLOCK));

export function fakeMounts(of: Machine): Mounts {
  const mount = (device: string, target: string, readOnly: boolean): void => {
    copyAt(of.disk, device);
    const there = of.mounts.get(target);
    if (there && (there.device !== device || there.readOnly !== readOnly))
      throw new FlockError('InUse', `${target} is where ${there.device} is mounted`);
    of.mounts.set(target, { device, readOnly });
  };
  return {
    beFormatted: async (device, filesystem, formatted) => {
      const copy = copyAt(of.disk, device);
      const found = textAt(copy, FIRST);
      if (formatted && found !== filesystem)
        throw new FlockError('Corrupt', `${device} was formatted by record, but holds ${found || 'nothing'}`);
      if (found === filesystem) return;
      of.formatted += 1;
      copy.live.clear();
      writeText(copy, FIRST, filesystem);
    },
    beDistinct: async (device) => writeText(copyAt(of.disk, device), DISTINCT, `distinct ${device}`),
    beMounted: async (device, target, filesystem, readOnly) => {
      if (textAt(copyAt(of.disk, device), FIRST) !== filesystem) throw new FlockError('Corrupt', `${device} holds no ${filesystem}`);
      mount(device, target, readOnly);
    },
    beUnmounted: async (target) => void of.mounts.delete(target),
    beBound: async (device, target) => mount(device, target, false),
    beFolderBound: async (folder, target, readOnly) => mount(folder, target, readOnly),
    beGrown: async () => {
      if (of.growthError) throw of.growthError;
    },
    beGrownUnmounted: async () => undefined,
    isMounted: async (target) => of.mounts.has(target),
    realPlace,
    isLink,
    checkTarget: async () => undefined,
    beFlushed: async () => undefined,
  };
}

/** As after the agent's start: what is not mounted is forgotten. */
export function fakePublications({ publications, mounts }: Machine): Publications {
  const keep = (copy: CopyName, list: Publication[]): void => {
    if (list.length > 0) publications.set(copy, list);
    else publications.delete(copy);
  };
  for (const [copy, list] of publications)
    keep(
      copy,
      list.filter(({ target }) => mounts.has(target)),
    );
  const of = (copy: CopyName): Publication[] => publications.get(copy) ?? [];
  return {
    of,
    volumes: () => volumesOf(publications),
    ofVolume: (volume) => ofVolume(publications, volume),
    add: async (copy, publication) => keep(copy, [...of(copy).filter(({ target }) => target !== publication.target), publication]),
    remove: async (copy, target) =>
      keep(
        copy,
        of(copy).filter((publication) => publication.target !== target),
      ),
    at: (target) => [...publications].find(([, list]) => list.some((publication) => publication.target === target))?.[0] ?? null,
  };
}

/** Whom a node reaches, and what is asked there; throws Unavailable when nobody answers. The record's uid is added on the way, as by a certificate. */
export type Dial = (from: string, to: string) => Authorize;

/** Moves the bytes themselves, by the same points and the same authority as the real one, without a wire. */
export function fakeTransfer(node: string, of: Machine, dial: Dial): Transfer {
  return {
    pullRound: (options, order) => pullRound(node, of, { dial, options, order }),
    checkCarried: async () => {},
    scrub: async (options, point) => {
      const offer = await dial(node, options.source.node)(options.hello, { node, uid: null });
      const [here, there] = await Promise.all([
        bytesOf(options.target.pool, options.target.copy, point),
        bytesOf(offer.pool, offer.copy, 'live'),
      ]);
      if (here !== there) throw new FlockError('Corrupt', `the committed bytes of ${options.target.copy} are not those of its source`);
      return { leaves: 1, repaired: 0, rotten: 0, unproven: 0, overwritten: 0, root: here };
    },
    readJournal: async (_pool, copy) => of.journals.get(copy) ?? null,
    dropJournal: async (_pool, copy) => void of.journals.delete(copy),
  };
}

async function pullRound(node: string, of: Machine, asked: { dial: Dial; options: PullOptions; order: RoundOrder }): Promise<RoundReport> {
  const { dial, options, order } = asked;
  const { hello, target, source } = options;
  const journal = journalOf(of, target.copy, hello.moveUid, hello.epoch);
  const final = journal.finals.includes(order.round);
  if (journal.completeRound === order.round && final === order.final) return reportOf(order, journal, 0n);
  const offer = await dial(node, source.node)(hello, { node, uid: null });
  if (order.final && !offer.fenced) throw new FlockError('Conflict', 'the source is not fenced');
  const point = order.final ? 'live' : roundPoint(hello.moveUid, order.round);
  if (point !== 'live') await offer.pool.freeze(offer.copy, point);
  options.crash('wire:frozen');
  const sent = await copyBytes(offer, point, target);
  options.crash('wire:copied');
  options.signal.throwIfAborted();
  journal.completeRound = order.round;
  journal.rounds = [...journal.rounds, sent];
  journal.bytesSent += sent;
  if (order.final) {
    journal.finals.push(order.round);
    journal.verified = { round: order.round, epoch: hello.epoch, bytes: String(sent), frames: 1 };
  }
  return reportOf(order, journal, order.final ? 0n : await dirtyOf(offer, point));
}

function journalOf(of: Machine, copy: CopyName, moveUid: string, epoch: number): NonNullable<ReturnType<Machine['journals']['get']>> {
  const there = of.journals.get(copy);
  if (there?.moveUid === moveUid && there.epoch === epoch) return there;
  const made = { moveUid, epoch, completeRound: null, root: null, verified: null, bytesSent: 0n, bytesResumed: 0n, rounds: [], finals: [] };
  of.journals.set(copy, made);
  return made;
}

const reportOf = (order: RoundOrder, journal: JournalState, dirty: bigint): RoundReport => ({
  round: order.round,
  bytesTotal: journal.rounds.at(-1) ?? 0n,
  bytesSent: journal.rounds.at(-1) ?? 0n,
  bytesResumed: 0n,
  frames: 1,
  allocated: journal.rounds[0] ?? 0n,
  dirty,
  root: null,
  rate: BLOCK * 100,
  verified: order.final ? journal.verified : null,
});

/** All that differs, whatever was there: as a comparison of hashes would. */
async function copyBytes(from: { pool: Pool; copy: CopyName }, point: string, to: { pool: Pool; copy: CopyName }): Promise<bigint> {
  await using reading = closing(await from.pool.open(from.copy, point, 'read'));
  await using writing = closing(await to.pool.open(to.copy, 'live', 'write'));
  const [there, here] = [Buffer.alloc(BLOCK), Buffer.alloc(BLOCK)];
  let sent = 0n;
  if (writing.handle.size < reading.handle.size)
    throw new FlockError('NoSpace', `copy ${to.copy} is smaller than the volume: grow it first`);
  for (const at of new Set([...(await used(from, point)), ...(await used(to, 'live'))])) {
    await reading.handle.read(there, at);
    await writing.handle.read(here, at);
    if (there.equals(here)) continue;
    await writing.handle.write(there, at);
    sent += BigInt(BLOCK);
  }
  return sent;
}

/** Where something was ever written. */
async function used(of: { pool: Pool; copy: CopyName }, point: string): Promise<bigint[]> {
  const blocks: bigint[] = [];
  for await (const { offset, length } of of.pool.changed(of.copy, null, point))
    for (let at = offset; at < offset + length; at += BigInt(BLOCK)) blocks.push(at);
  return blocks;
}

const closing = <T extends { close(): Promise<void> }>(handle: T): { handle: T; [Symbol.asyncDispose](): Promise<void> } => ({
  handle,
  [Symbol.asyncDispose]: () => handle.close(),
});

async function dirtyOf(from: { pool: Pool; copy: CopyName }, point: string): Promise<bigint> {
  let dirty = 0n;
  for await (const { length } of from.pool.changed(from.copy, point, 'live')) dirty += length;
  return dirty;
}

/** All that is written as one text, to compare by. */
async function bytesOf(pool: Pool, copy: CopyName, point: string): Promise<string> {
  await using reading = closing(await pool.open(copy, point, 'read'));
  const buffer = Buffer.alloc(BLOCK);
  const blocks: string[] = [];
  for (const at of await used({ pool, copy }, point)) {
    await reading.handle.read(buffer, at);
    const text = buffer.toString('utf8').replaceAll('\0', '');
    if (text !== '') blocks.push(`${at}: ${text}`);
  }
  return blocks.join('|');
}
