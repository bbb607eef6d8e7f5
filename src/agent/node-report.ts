// What this node says of itself: its StorageNode. Written when something that decisions rest on changed, and for the mere use of disks only
// now and then.
import { arch, release } from 'node:os';
import type { Client } from '../api/client.ts';
import { difference } from '../api/merge-patch.ts';
import { conditionSince } from '../decide/observed.ts';
import { timestamp, type Clock } from '../model/clock.ts';
import { isReason, messageOf } from '../model/errors.ts';
import { GROUP_VERSION, type Condition, type Stored } from '../model/meta.ts';
import {
  StorageNodes,
  HELD_BACK,
  OUTSIDE,
  UNREACHED,
  type PoolStatus,
  type PoolType,
  type StorageNode,
  type StorageNodeStatus,
} from '../model/storage-node.ts';
import type { CopyName, Pool } from '../pools/pool.ts';
import { damages, type Inventory } from './inventory.ts';

export interface NodeFacts {
  agentVersion: string;
  socket: string;
  filesystems: readonly string[];
  canMount: boolean;
  /** Why other nodes cannot fetch volume data from here, if something says so. */
  whyNotReached?: () => string | null;
  /** Why volume data goes over another network than the preferred one, if it does. */
  whyOutside?: () => string | null;
  /** What others wait for here, so that copying in the background gives way to them. */
  heldBack?: () => 'io' | 'cpu' | null;
}

export interface BrokenPool {
  type: PoolType;
  message: string;
}

/** The volume that each was a copy of, by the copy's name. */
export interface Orphans {
  [copy: CopyName]: string;
}

export interface ReportParts {
  node: string;
  client: Client;
  clock: Clock;
  facts: NodeFacts;
  pools: ReadonlyMap<string, Pool>;
  /** Pools of the configuration that could not be opened, and why. */
  broken: ReadonlyMap<string, BrokenPool>;
  inventory: Inventory;
  /** Between two writes that only tell of the disks' use, ms. */
  useMs: number;
  transfer: () => { address: string; port: number } | null;
  /** Copies on this node that no record speaks of, by pool; null: not known yet. */
  orphans: () => Promise<ReadonlyMap<string, Orphans> | null>;
}

export class NodeReport {
  readonly #parts: ReportParts;
  #lastUse = Number.NEGATIVE_INFINITY;

  constructor(parts: ReportParts) {
    this.#parts = parts;
  }

  /** Makes the record if there is none, and brings its status up to date. `ready` false: this agent is going. */
  async write(ready: boolean): Promise<void> {
    const { client, node, clock, useMs } = this.#parts;
    const record = await this.#record();
    const status = await this.#status(record, ready);
    const patch = difference(record.status, status);
    if (!patch) return;
    const urgent = difference(withoutUse(record.status), withoutUse(status));
    if (!urgent && clock.monotonic() - this.#lastUse < useMs) return;
    await client.patch(StorageNodes, node, { metadata: { uid: record.metadata.uid }, status: patch }, { subresource: 'status' });
    this.#lastUse = clock.monotonic();
  }

  /** The next write tells of the disks' use, whenever the last one did. */
  tellUse(): void {
    this.#lastUse = Number.NEGATIVE_INFINITY;
  }

  async #record(): Promise<Stored<StorageNode>> {
    const { client, node } = this.#parts;
    try {
      return await client.get(StorageNodes, node);
    } catch (error) {
      if (!isReason(error, 'NotFound')) throw error;
      return client.create(StorageNodes, { apiVersion: GROUP_VERSION, kind: 'StorageNode', metadata: { name: node }, spec: {} });
    }
  }

  async #status(record: Stored<StorageNode>, ready: boolean): Promise<StorageNodeStatus> {
    const { facts, transfer } = this.#parts;
    const address = transfer();
    const { obstacle, pools } = await this.#pools(record.status?.pools ?? {});
    return {
      agentVersion: facts.agentVersion,
      kernel: `${release()} ${arch()}`,
      socket: facts.socket,
      filesystems: [...facts.filesystems],
      canMount: facts.canMount,
      pools,
      ...(address ? { transfer: address } : {}),
      // The controller's.
      ...(record.status?.drain ? { drain: record.status.drain } : {}),
      conditions: this.#conditions(record, readiness(this.#parts.node, ready, obstacle)),
    };
  }

  /** Those of others stay. */
  #conditions(record: Stored<StorageNode>, ready: ReturnType<typeof readiness>): Condition[] {
    return [
      ...(record.status?.conditions ?? []).filter(({ type }) => !OWN.has(type)),
      this.#condition(record, { type: 'Ready', ...ready }),
      ...this.#obstacles().map((one) => this.#condition(record, { ...one, status: 'True' })),
    ];
  }

  #obstacles(): Pick<Condition, 'type' | 'reason' | 'message'>[] {
    const { node, facts } = this.#parts;
    const why = facts.whyNotReached?.() ?? null;
    const outside = facts.whyOutside?.() ?? null;
    const by = facts.heldBack?.() ?? null;
    return [
      ...(why === null ? [] : [{ type: UNREACHED, reason: 'LoopbackAddress', message: why }]),
      ...(outside === null ? [] : [{ type: OUTSIDE, reason: 'NoAddress', message: outside }]),
      ...(by === null ? [] : [{ type: HELD_BACK, ...WAITED_FOR[by](node) }]),
    ];
  }

  #condition(record: Stored<StorageNode>, condition: Omit<Condition, 'lastTransitionTime'>): Condition {
    return conditionSince(record.status?.conditions, condition, timestamp(this.#parts.clock));
  }

  /** `recorded`: which disk a pool was on stays recorded while it cannot be opened, or another disk would be taken for it. */
  async #pools(recorded: { [name: string]: PoolStatus }): Promise<{ pools: { [name: string]: PoolStatus }; obstacle: string | null }> {
    const pools: { [name: string]: PoolStatus } = {};
    const orphans = await this.#parts.orphans();
    for (const pool of this.#parts.pools.values())
      pools[pool.name] = await this.#pool(pool, orphans ? orphans.get(pool.name) : recorded[pool.name]?.orphaned);
    for (const [name, { type, message }] of this.#parts.broken) {
      const uuid = recorded[name]?.uuid;
      pools[name] = { type, ...(uuid === undefined ? {} : { uuid }), healthy: false, obstacle: { reason: 'PoolNotUsable', message } };
    }
    const sick = Object.entries(pools).filter(([, { healthy }]) => !healthy);
    return {
      pools,
      obstacle: sick.length === 0 ? null : sick.map(([name, { obstacle }]) => `pool ${name}: ${obstacle?.message}`).join('; '),
    };
  }

  async #pool(pool: Pool, orphaned: Orphans | undefined): Promise<PoolStatus> {
    const { type, uuid, thin, points, unit, budget } = pool;
    const fixed = { type, uuid, unit: String(unit), thin, points, ...(budget === undefined ? {} : { budget }) };
    const problem = (await this.#parts.inventory.problems()).get(pool.name);
    if (problem !== undefined) return { ...fixed, healthy: false, obstacle: { reason: 'PoolNotUsable', message: problem } };
    try {
      const { capacity, booked, free, size, used, warning } = await pool.room();
      const damaged = [...(await damages(this.#parts.inventory))].flatMap(([name, { pool: at }]) => (at === pool.name ? [name] : []));
      const foreign = await this.#parts.inventory.foreign(pool.name);
      return {
        ...fixed,
        ...(capacity === null ? {} : { capacity: String(capacity) }),
        booked: String(booked),
        free: String(free),
        size: String(size),
        used: String(used),
        healthy: true,
        ...(warning === undefined ? {} : { obstacle: { reason: 'PoolFull', message: warning } }),
        ...(foreign.length > 0 ? { foreign } : {}),
        ...(damaged.length > 0 ? { damaged } : {}),
        ...(orphaned ? { orphaned } : {}),
      };
    } catch (error) {
      return { ...fixed, healthy: false, obstacle: { reason: 'PoolNotUsable', message: messageOf(error) } };
    }
  }
}

/** Told at once when it changes. Use and room change with every write: they are told at their own pace, and at once where this agent booked. */
function withoutUse(status: StorageNodeStatus | undefined): StorageNodeStatus {
  const pools = Object.entries(status?.pools ?? {}).map(([name, { used: _used, free: _free, ...rest }]) => [name, rest] as const);
  return { ...status, pools: Object.fromEntries(pools) };
}

/** The conditions that this agent writes. */
const OWN: ReadonlySet<string> = new Set(['Ready', UNREACHED, OUTSIDE, HELD_BACK]);

/** Without figures: a message that changes each time would be written each time. */
const WAITED_FOR: { [by in 'io' | 'cpu']: (node: string) => Pick<Condition, 'reason' | 'message'> } = {
  io: (node) => ({
    reason: 'DiskPressure',
    message: `others on node ${node} wait for its disks: copying in the background gives way to them (flockctl agent --ignore-pressure: it does not)`,
  }),
  cpu: (node) => ({
    reason: 'ProcessorPressure',
    message: `others on node ${node} wait for its processors: copying in the background gives way to them (flockctl agent --ignore-pressure: it does not)`,
  }),
};

type State = Pick<Condition, 'status' | 'reason' | 'message'>;

function readiness(node: string, ready: boolean, obstacle: string | null): State {
  if (!ready) return { status: 'False', reason: 'AgentStopped', message: `the agent of node ${node} was stopped; start it again` };
  return {
    status: 'True',
    reason: obstacle ? 'PoolsUnhealthy' : 'AgentRuns',
    message: obstacle ?? `the agent of node ${node} runs`,
  };
}
