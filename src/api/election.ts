// Leases: one leader among several, and the heartbeat of a node. Another holder's record is judged by how long it stood still here, by
// this machine's monotonic clock, never by the times written in it. Knows nothing of what a leader does.
import type { Clock } from '../model/clock.ts';
import { FlockError, ifFound, isReason, messageOf } from '../model/errors.ts';
import { SYSTEM_NAMESPACE, type Stored } from '../model/meta.ts';
import { Leases, type Lease } from '../model/system.ts';
import type { Client } from './client.ts';
import type { Log } from './log.ts';

export interface ElectionOptions {
  client: Client;
  /** Name of the Lease, in flock-system. */
  lease: string;
  /** Unique among the candidates. */
  identity: string;
  clock: Clock;
  random: () => number;
  log: Log;
  /** How long a holder may be silent before another takes over, ms; default 15 s. Whole seconds. */
  duration?: number;
  /** How often it is renewed and looked at, ms; default 2 s. */
  renew?: number;
}

/** A Lease's times have microseconds. */
const microTime = (clock: Clock): string => new Date(clock.now()).toISOString().replace('Z', '000Z');

/** What `promise` gives, unless `ms` pass first: then Unavailable, and what it gives later is nobody's. */
async function within<R>(clock: Clock, ms: number, promise: Promise<R>): Promise<R> {
  const answered = new AbortController();
  const late = clock.sleep(ms, answered.signal).then(
    () => {
      throw new FlockError('Unavailable', `no answer within ${ms} ms`);
    },
    () => new Promise<never>(() => {}),
  );
  try {
    return await Promise.race([promise, late]);
  } finally {
    answered.abort();
    promise.catch(() => {});
  }
}

/**
 * Runs `lead` whenever this candidate holds the Lease, until `signal` aborts or `lead` ends by itself. The signal given to `lead` aborts
 * when the Lease could not be renewed for two thirds of its duration, so before anybody else can hold it. While `lead` winds down after
 * `signal`, the Lease is still renewed; then it is released. An error of `lead` is thrown on.
 */
export async function leadWhenElected(
  options: ElectionOptions,
  signal: AbortSignal,
  lead: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const candidate = new Candidate(options);
  while (!signal.aborted) {
    if (!(await candidate.acquire(signal))) return;
    const ended = await candidate.reign(signal, lead);
    if (ended) return;
  }
}

class Candidate {
  readonly #options: Required<ElectionOptions>;
  /** The Lease as last seen, and since when it stands still, monotonic ms. */
  #seen: { spec: string; since: number } | null = null;
  /** The Lease as this candidate last wrote it. */
  #held: Stored<Lease> | null = null;
  /** Monotonic ms before the last write that succeeded was sent. */
  #renewedAt = 0;

  constructor(options: ElectionOptions) {
    this.#options = { duration: 15_000, renew: 2_000, ...options };
  }

  /** True once the Lease is held, false when the signal aborted first. */
  async acquire(signal: AbortSignal): Promise<boolean> {
    const { clock, log, lease, identity } = this.#options;
    while (!signal.aborted) {
      try {
        if (await this.#tryAcquire()) {
          log.info({ lease, identity }, 'leads now');
          return true;
        }
      } catch (error) {
        if (!isReason(error, 'Conflict', 'AlreadyExists')) log.warn({ lease, identity }, `cannot ask for the lease: ${messageOf(error)}`);
      }
      await clock.sleep(this.#pause(), signal).catch(() => {});
    }
    return false;
  }

  /** True when `lead` ended, false when the Lease was lost. */
  async reign(signal: AbortSignal, lead: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    const { log, lease, identity } = this.#options;
    const lost = new AbortController();
    const done = new AbortController();
    const renewing = this.#keep(lost, done.signal);
    const stop = AbortSignal.any([signal, lost.signal]);
    try {
      await lead(stop);
    } catch (error) {
      if (!stop.aborted || error !== stop.reason) throw error;
    } finally {
      done.abort();
      await renewing;
      if (!lost.signal.aborted) await this.#release();
      this.#held = null;
      log.info({ lease, identity, lost: lost.signal.aborted }, 'leads no more');
    }
    return !lost.signal.aborted;
  }

  async #tryAcquire(): Promise<boolean> {
    const { client, lease, clock } = this.#options;
    const current = await ifFound(this.#ask(client.get(Leases, lease, SYSTEM_NAMESPACE)));
    if (current !== null && !this.#isFree(current)) return false;
    const sentAt = clock.monotonic();
    this.#held = await this.#ask(
      current === null ? client.create(Leases, this.#fresh(null)) : client.replace(Leases, this.#fresh(current)),
    );
    this.#renewedAt = sentAt;
    return true;
  }

  #isFree({ spec }: Lease): boolean {
    const { identity, clock, duration } = this.#options;
    const now = clock.monotonic();
    const text = JSON.stringify(spec);
    if (this.#seen?.spec !== text) this.#seen = { spec: text, since: now };
    if (!spec.holderIdentity || spec.holderIdentity === identity) return true;
    const granted = (spec.leaseDurationSeconds ?? duration / 1000) * 1000;
    return now - this.#seen.since >= granted;
  }

  #fresh(current: Stored<Lease>): Stored<Lease>;
  #fresh(current: Stored<Lease> | null): Lease;
  #fresh(current: Stored<Lease> | null): Lease {
    const { identity, duration, clock, lease } = this.#options;
    const now = microTime(clock);
    const mine = { holderIdentity: identity, leaseDurationSeconds: Math.ceil(duration / 1000), renewTime: now };
    if (current === null) {
      const metadata = { name: lease, namespace: SYSTEM_NAMESPACE };
      return { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec: { ...mine, acquireTime: now, leaseTransitions: 0 } };
    }
    if (current.spec.holderIdentity === identity) return { ...current, spec: { ...current.spec, ...mine } };
    const leaseTransitions = (current.spec.leaseTransitions ?? 0) + 1;
    return { ...current, spec: { ...current.spec, ...mine, acquireTime: now, leaseTransitions } };
  }

  /** Renews until done; aborts `lost` when it did not succeed for two thirds of the duration, or another holds the Lease. */
  async #keep(lost: AbortController, done: AbortSignal): Promise<void> {
    const { clock, log, lease } = this.#options;
    while (!done.aborted && !lost.signal.aborted) {
      await clock.sleep(Math.min(this.#pause(), Math.max(0, this.#left())), done).catch(() => {});
      if (done.aborted) return;
      try {
        if (this.#left() <= 0) throw new FlockError('Expired', 'it could not be renewed in time');
        await this.#renewOnce();
      } catch (error) {
        log.warn({ lease, left: this.#left() }, `cannot renew the lease: ${messageOf(error)}`);
        if (this.#left() <= 0 || isReason(error, 'Conflict')) lost.abort(error);
      }
    }
  }

  /** ms until this candidate must stop leading. */
  #left(): number {
    return this.#renewedAt + (this.#options.duration * 2) / 3 - this.#options.clock.monotonic();
  }

  async #renewOnce(): Promise<void> {
    const { client, clock, lease, identity } = this.#options;
    const sentAt = clock.monotonic();
    try {
      if (this.#held === null) this.#held = await this.#ask(client.get(Leases, lease, SYSTEM_NAMESPACE));
      if (this.#held.spec.holderIdentity !== identity)
        throw new FlockError('Conflict', `${this.#held.spec.holderIdentity || 'nobody'} holds it`);
      this.#held = await this.#ask(client.replace(Leases, this.#fresh(this.#held)));
      this.#renewedAt = sentAt;
    } catch (error) {
      const known = this.#held;
      // Somebody wrote it, or an earlier try did without its answer coming back: look who holds it, at once.
      this.#held = null;
      if (known === null || !isReason(error, 'Conflict') || known.spec.holderIdentity !== identity) throw error;
      await this.#renewOnce();
    }
  }

  async #release(): Promise<void> {
    const { client, lease, log, clock } = this.#options;
    const held = this.#held;
    if (held === null) return;
    try {
      const spec = { ...held.spec, holderIdentity: '', leaseDurationSeconds: 1, renewTime: microTime(clock) };
      await this.#ask(client.replace(Leases, { ...held, spec }));
    } catch (error) {
      log.warn({ lease }, `the lease could not be released and runs out by itself: ${messageOf(error)}`);
    }
  }

  /** An answer that comes later than the Lease may live is none. */
  #ask<R>(promise: Promise<R>): Promise<R> {
    const { clock, duration } = this.#options;
    const left = this.#held === null ? duration / 2 : this.#left();
    return within(clock, Math.max(1, left), promise);
  }

  #pause(): number {
    return this.#options.renew * (0.8 + this.#options.random() * 0.4);
  }
}

export interface HeartbeatOptions {
  client: Client;
  node: string;
  clock: Clock;
  random: () => number;
  log: Log;
  /** ms; default 40 s. Whole seconds. */
  duration?: number;
  /** ms; default a quarter of the duration. */
  renew?: number;
}

export interface Heartbeat {
  /** Renews the node's Lease until the signal aborts; whatever fails is tried again. */
  start(signal: AbortSignal): Promise<void>;
  /** The Lease was renewed within its duration: nobody can hold this node for silent. */
  isFresh(): boolean;
}

/** Names of Leases in flock-system: the controllers' and each node's. */
export const CONTROLLER_LEASE = 'flock-controller';
const NODE_LEASE = 'node-';
export const nodeLease = (node: string): string => `${NODE_LEASE}${node}`;
/** The node whose Lease it is; null: nobody's. */
export const nodeOfLease = (lease: string): string | null => (lease.startsWith(NODE_LEASE) ? lease.slice(NODE_LEASE.length) : null);

export function heartbeat(options: HeartbeatOptions): Heartbeat {
  const { client, node, clock, random, log, duration = 40_000, renew = duration / 4 } = options;
  let renewedAt: number | null = null;
  const name = nodeLease(node);
  const isFresh = (): boolean => renewedAt !== null && clock.monotonic() - renewedAt < duration;

  const write = async (): Promise<void> => {
    const spec = { holderIdentity: node, leaseDurationSeconds: Math.ceil(duration / 1000), renewTime: microTime(clock) };
    try {
      await client.patch(Leases, name, { spec }, { namespace: SYSTEM_NAMESPACE });
    } catch (error) {
      if (!isReason(error, 'NotFound')) throw error;
      const metadata = { name, namespace: SYSTEM_NAMESPACE };
      await client.create(Leases, {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata,
        spec: { ...spec, acquireTime: spec.renewTime },
      });
    }
  };

  const beat = async (): Promise<number> => {
    const sentAt = clock.monotonic();
    try {
      await within(clock, renew, write());
      renewedAt = sentAt;
      return renew * (0.9 + random() * 0.2);
    } catch (error) {
      log.warn({ node, fresh: isFresh() }, `the node's lease cannot be renewed: ${messageOf(error)}`);
      return (renew / 4) * (0.5 + random() / 2);
    }
  };

  const start = async (signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) await clock.sleep(await beat(), signal).catch(() => {});
  };

  return { start, isFresh };
}
