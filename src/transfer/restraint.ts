// Background copying of this node, all of it together: looks at the node's pressure once a second while there is any, and shares out what the
// rule of decide/restraint.ts allows. Knows neither rounds nor sockets.
import { ceilingOf, restrained, UNRESTRAINED, type Restraint as Held } from '../decide/restraint.ts';
import type { Waited } from '../host/pressure.ts';
import type { Clock } from '../model/clock.ts';
import type { BlockHandle } from '../pools/pool.ts';
import { TokenBucket } from './pacing.ts';

const EVERY = 1000;
/** What was learnt of a node is forgotten when it copied nothing for this long, ms. */
const REMEMBERED = 60_000;

/** What the node's copying is held back by. */
export interface HeldBack {
  by: 'io' | 'cpu';
  /** Of all background copying of the node together, bytes a second. */
  ceiling: number;
}

export interface RestraintOptions {
  /** null: nothing is known of the pressure. */
  waited: () => Promise<Waited | null>;
  clock: Clock;
  /** Each second: the ceiling (null: none) and the share of the time that tasks waited. */
  onSecond?: (ceiling: number | null, pressure: { io: number; cpu: number }) => void;
}

/** One piece of background work: a connection that serves, a round or a scrub. */
export interface Work {
  /** Bytes that it moved or read. */
  count(bytes: number): void;
  /** What it may move a second now; null: as much as it can. */
  ceiling(): number | null;
  /** Counts the bytes too; resolves when they may be read. Rejects with the signal's reason. */
  take(bytes: number, signal: AbortSignal): Promise<void>;
  leave(): void;
}

interface Member {
  bytes: number;
  bucket: TokenBucket;
  changed: (ceiling: number | null) => void;
}

export class Restraint {
  readonly #options: RestraintOptions;
  readonly #members = new Set<Member>();
  #held: Held = UNRESTRAINED;
  #by: HeldBack['by'] = 'io';
  #stop = new AbortController();
  #leftAt = -Infinity;

  constructor(options: RestraintOptions) {
    this.#options = options;
  }

  /** null: not by anything, or only for a short look. */
  get heldBack(): HeldBack | null {
    const ceiling = ceilingOf(this.#held);
    return this.#members.size > 0 && this.#held.state === 'yielding' && ceiling !== null ? { by: this.#by, ceiling } : null;
  }

  /** `changed` is told each ceiling that is another than before. */
  join(changed: (ceiling: number | null) => void = () => {}): Work {
    const { clock } = this.#options;
    const member: Member = { bytes: 0, bucket: new TokenBucket(clock), changed };
    if (this.#members.size === 0 && clock.monotonic() - this.#leftAt > REMEMBERED) this.#held = UNRESTRAINED;
    this.#members.add(member);
    this.#share();
    if (this.#members.size === 1) void this.#watch();
    return {
      count: (bytes) => void (member.bytes += bytes),
      ceiling: () => this.#ceiling(),
      take: (bytes, signal) => {
        member.bytes += bytes;
        return member.bucket.take(bytes, signal);
      },
      leave: () => this.#leave(member),
    };
  }

  #leave(member: Member): void {
    if (!this.#members.delete(member)) return;
    member.bucket.setRate(null);
    this.#leftAt = this.#options.clock.monotonic();
    this.#share();
    if (this.#members.size > 0) return;
    this.#stop.abort();
    this.#stop = new AbortController();
  }

  #ceiling(): number | null {
    const ceiling = ceilingOf(this.#held);
    return ceiling === null ? null : Math.max(1, Math.floor(ceiling / Math.max(1, this.#members.size)));
  }

  #share(): void {
    const ceiling = this.#ceiling();
    for (const { bucket, changed } of this.#members) {
      bucket.setRate(ceiling);
      changed(ceiling);
    }
  }

  async #watch(): Promise<void> {
    const { clock, waited } = this.#options;
    const { signal } = this.#stop;
    let [before, at] = [await waited(), clock.monotonic()];
    try {
      while (before !== null && !signal.aborted) {
        await clock.sleep(EVERY, signal);
        const [now, seen] = [await waited(), clock.monotonic()];
        if (now === null) return;
        if (!signal.aborted) this.#second({ before, now }, seen - at);
        [before, at] = [now, seen];
      }
    } catch {
      // Nothing is copied any more.
    }
  }

  #second({ before, now }: { before: Waited; now: Waited }, ms: number): void {
    if (ms <= 0) return;
    const pressure = { io: share(now.io - before.io, ms), cpu: share(now.cpu - before.cpu, ms) };
    const bytes = [...this.#members].reduce((sum, member) => sum + member.bytes, 0);
    for (const member of this.#members) member.bytes = 0;
    const ceiling = this.#ceiling();
    this.#held = restrained(this.#held, { pressure: Math.max(pressure.io, pressure.cpu), rate: (bytes * 1000) / ms });
    this.#by = pressure.cpu > pressure.io ? 'cpu' : 'io';
    if (this.#ceiling() !== ceiling) this.#share();
    this.#options.onSecond?.(ceilingOf(this.#held), pressure);
  }
}

const share = (waited: number, ms: number): number => Math.min(1, Math.max(0, waited / ms));

/** Reads that wait their turn. */
export const pacedReads = (handle: BlockHandle, work: Work, signal: AbortSignal): BlockHandle => ({
  size: handle.size,
  read: async (buffer, offset) => {
    await work.take(buffer.length, signal);
    await handle.read(buffer, offset);
  },
  write: (buffer, offset) => handle.write(buffer, offset),
  zero: (offset, length) => handle.zero(offset, length),
  sync: () => handle.sync(),
  close: () => handle.close(),
});
