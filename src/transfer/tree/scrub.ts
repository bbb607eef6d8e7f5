// After the commit, a directory has no point to be compared at: its application goes on at once. What both sides agreed on is kept as the
// committed manifest. Against it the source's kept copy is read whole, and of the target every file that nobody has changed since; what is
// wrong there is pulled anew. Runs beside the application.
import { closeSync, constants } from 'node:fs';
import { link as makeLink, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beAbsent, ifThere, syncFolder, writeAtomically } from '../../host/files.ts';
import { Bursts } from '../../host/bursts.ts';
import { forgetCached, isVanished, openAt, openFileAt, readable, setModifiedAt, statOf } from '../../host/tree-calls.ts';
import { FlockError, messageOf } from '../../model/errors.ts';
import type { CopyName, Pool, TreeHandle } from '../../pools/pool.ts';
import { FRAME } from '../frame.ts';
import { parse } from '../messages.ts';
import { Meter } from '../meter.ts';
import { SourceLink } from '../source-link.ts';
import type { PullOptions, ScrubReport } from '../transfer.ts';
import { sumsOf } from './content.ts';
import { manifestOf, openTree } from './disk.ts';
import { TreeDigest, type Entry, type KnownEntry } from './entry.ts';
import { fetchLeaves } from './fetching.ts';
import { ManifestReader } from './manifest-file.ts';
import { hexOf, OpenedMessage } from './messages.ts';
import { nameOf } from './paths.ts';
import { Place } from './place.ts';
import { StreamReader } from './stream.ts';
import { differences, leafOf, runsOf } from './sums.ts';

const committedOf = (pool: Pool, copy: CopyName): string => join(pool.journals, `${copy}.committed`);

/** Names what is being written anew, a path a line: a crash may leave a file half written, and that is none of the application's doing. */
const mendingOf = (pool: Pool, copy: CopyName): string => join(pool.journals, `${copy}.mending`);

/** What both sides agreed on, as it is now, whatever later looks find. It stays as long as the journal: a scrub that nobody heard of is repeated. */
export async function keepCommitted(pool: Pool, copy: CopyName): Promise<void> {
  const path = committedOf(pool, copy);
  await beAbsent(path);
  await makeLink(manifestOf(pool, copy), path);
  await syncFolder(pool.journals);
}

/** Files that are wrong at the target and right at the source are remembered up to this. */
const MOST_WRONG = 10_000;

/** Throws InUse when something is to be repaired while the volume is in use. Leaves are files here. */
export async function scrubTree(options: PullOptions): Promise<ScrubReport> {
  const { pool, copy } = options.target;
  const link = await SourceLink.dial(options);
  try {
    const tree = await openTree(pool, copy, 'read');
    try {
      return await new TreeScrub(options, link, tree).run();
    } finally {
      await tree.close();
    }
  } finally {
    await link.close();
  }
}

class TreeScrub {
  readonly #options: PullOptions;
  readonly #link: SourceLink;
  readonly #place: Place;
  readonly #meter: Meter;
  readonly #bursts = new Bursts();
  readonly #wrong: KnownEntry[] = [];
  #cutOff: ReadonlySet<string> = new Set();
  readonly #report: ScrubReport = { leaves: 0, repaired: 0, rotten: 0, unproven: 0, overwritten: 0, root: '' };

  constructor(options: PullOptions, link: SourceLink, tree: TreeHandle) {
    this.#options = options;
    this.#link = link;
    this.#place = new Place(tree.fd);
    this.#meter = new Meter(0, options.clock, options.onProgress);
  }

  async run(): Promise<ScrubReport> {
    const { pool, copy } = this.#options.target;
    this.#meter.turnTo('verifying');
    this.#cutOff = new Set(((await ifThere(readFile(mendingOf(pool, copy), 'utf8'))) ?? '').split('\n'));
    const committed = await ManifestReader.open(committedOf(pool, copy));
    const digest = new TreeDigest();
    try {
      await this.#open();
      for await (const theirs of this.#listed()) await this.#compare(theirs, committed, digest);
      for (; committed.entry; await committed.advance()) await this.#missing(committed.entry, digest);
    } finally {
      this.#place.close();
      await committed.close();
    }
    this.#report.root = digest.end();
    if (this.#wrong.length > 0) await this.#mend();
    await beAbsent(mendingOf(pool, copy));
    return this.#report;
  }

  async #open(): Promise<void> {
    const order = { round: 0, final: false, after: null, afresh: true };
    const opened = parse(OpenedMessage, await this.#link.ask(FRAME.TREE_OPEN, Buffer.from(JSON.stringify(order))), 'TREE_OPEN');
    if (!opened.settled) throw new FlockError('Conflict', 'the source does not hold its copy still: there is nothing to scrub against');
  }

  async *#listed(): AsyncGenerator<Entry> {
    const stream = new StreamReader();
    for (;;) {
      const frame = await this.#link.ask(FRAME.TREE_NEXT, Buffer.alloc(0));
      if (frame.length === 0) throw new FlockError('Corrupt', 'the list of the directory ended before its end');
      stream.push(frame);
      for (let record = stream.next(); record; record = stream.next()) {
        if (record.record === 'end') return;
        if (record.record === 'entry') yield record.entry;
      }
    }
  }

  /** What the source lists and was not committed is its own matter: the committed one counts. */
  async #compare(theirs: Entry, committed: ManifestReader, digest: TreeDigest): Promise<void> {
    while (committed.entry && committed.entry.path < theirs.path) {
      await this.#missing(committed.entry, digest);
      await committed.advance();
    }
    const agreed = committed.entry;
    if (agreed?.path !== theirs.path) {
      this.#report.rotten += 1;
      return;
    }
    digest.put(agreed);
    const kept = isSame(agreed, theirs);
    if (!kept) this.#report.rotten += 1;
    await this.#judge(agreed, kept);
    await committed.advance();
  }

  /** The source has lost it. */
  async #missing(agreed: KnownEntry, digest: TreeDigest): Promise<void> {
    digest.put(agreed);
    this.#report.rotten += 1;
    await this.#judge(agreed, false);
  }

  async #judge(agreed: KnownEntry, kept: boolean): Promise<void> {
    if (agreed.type !== 'file') return;
    if (this.#bursts.isOver) await this.#bursts.rest();
    this.#link.ended.throwIfAborted();
    this.#report.leaves += 1;
    const verdict = await this.#look(agreed);
    if (verdict === 'mended') this.#report.repaired += 1;
    if (verdict === 'changed') this.#report.overwritten += 1;
    if (verdict === 'unknown') this.#report.unproven += 1;
    if (verdict !== 'wrong') return;
    if (kept && this.#wrong.length < MOST_WRONG) this.#wrong.push(agreed);
    else this.#report.unproven += 1;
  }

  /** unknown: changed by its application, or half mended when a crash came. */
  async #look(agreed: KnownEntry): Promise<'right' | 'wrong' | 'changed' | 'mended' | 'unknown'> {
    const fd = this.#opened(agreed);
    if (fd === null) return 'changed';
    const cutOff = this.#cutOff.has(hexOf(agreed.path));
    try {
      const untouched = isUntouched(agreed, fd);
      if (!untouched && !cutOff) return 'changed';
      forgetCached(fd);
      const sums = await sumsOf(fd, { size: agreed.size, short: 'zeros' });
      this.#meter.done += agreed.size;
      this.#meter.tell();
      if (agreed.sums?.equals(sums)) return cutOff ? 'mended' : 'right';
      if (!untouched) return 'unknown';
      // It may have been written while it was read.
      return isUntouched(agreed, fd) ? 'wrong' : 'changed';
    } finally {
      closeSync(fd);
    }
  }

  #opened({ path }: KnownEntry): number | null {
    try {
      return openFileAt(this.#place.parentOf(path), nameOf(path));
    } catch (error) {
      this.#place.close();
      if (isVanished(error)) return null;
      throw error;
    }
  }

  async #mend(): Promise<void> {
    const { target, log, crash } = this.#options;
    log.warn(
      { copy: target.copy, files: this.#wrong.length },
      'files of the moved volume read otherwise than they were written, and nobody changed them',
    );
    const tree = await this.#writable();
    const place = new Place(tree.fd);
    try {
      const paths = this.#wrong.map(({ path }) => hexOf(path));
      await writeAtomically(mendingOf(target.pool, target.copy), [...this.#cutOff, ...paths].join('\n'));
      for (const agreed of this.#wrong) {
        const mended = await this.#mendFile(agreed, place);
        this.#report[mended ? 'repaired' : 'overwritten'] += 1;
        crash('tree.scrub.repaired');
      }
    } finally {
      place.close();
      await tree.close();
    }
  }

  async #writable(): Promise<TreeHandle> {
    try {
      return await openTree(this.#options.target.pool, this.#options.target.copy, 'write');
    } catch (error) {
      if (!(error instanceof FlockError) || error.reason !== 'InUse') throw error;
      throw new FlockError(
        'InUse',
        `${this.#wrong.length} files differ from what the source kept and can only be repaired while the volume is not in use: ${messageOf(error)}`,
        { cause: error },
      );
    }
  }

  async #mendFile(agreed: KnownEntry, place: Place): Promise<boolean> {
    const { path, size, sums } = agreed;
    const dir = place.parentOf(path);
    const fd = openAt(dir, nameOf(path), constants.O_RDWR);
    try {
      if (!isUntouched(agreed, fd) || sums === null) return false;
      const lacking = differences(runsOf(sums, size), runsOf(await sumsOf(fd, { size, short: 'zeros' }), size));
      await fetchLeaves(this.#link, { fd, path, size, leaf: leafOf(size) }, lacking);
      if (!sums.equals(await sumsOf(fd, { size, short: 'refuse' })))
        throw new FlockError('Corrupt', `"${readable(path)}" stays wrong after it was written anew: check the target's disk`);
      setModifiedAt(dir, nameOf(path), agreed.mtime);
      return true;
    } finally {
      closeSync(fd);
    }
  }
}

function isSame(agreed: Entry, theirs: Entry): boolean {
  const digests = [agreed, theirs].map((entry) => {
    const digest = new TreeDigest();
    digest.put(entry);
    return digest.end();
  });
  return digests[0] === digests[1];
}

function isUntouched({ known, mtime, size }: KnownEntry, fd: number): boolean {
  const now = statOf(fd);
  const same = now.ino === known.ino && now.ctime.s === known.ctime.s && now.ctime.ns === known.ctime.ns;
  return same && now.size === size && now.mtime.s === mtime.s && now.mtime.ns === mtime.ns;
}
