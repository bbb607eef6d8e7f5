// Taking and dropping Snapshots on this node, under their volume's lock. Order: the point on the disk, then the record; so a crash between
// the two leaves a point that is found and reported again.
import type { CopyStep } from '../decide/copies.ts';
import { timestamp } from '../model/clock.ts';
import { isReason } from '../model/errors.ts';
import type { Stored } from '../model/meta.ts';
import { snapshotPoint } from '../model/points.ts';
import { Snapshots, type Snapshot, type SnapshotStatus } from '../model/snapshot.ts';
import type { Copies } from './copies.ts';
import { nameOf, type Inventory } from './inventory.ts';
import type { AgentPorts } from './ports.ts';

type Of<S extends CopyStep['step']> = Extract<CopyStep, { step: S }>;

export class SnapshotActs {
  readonly #ports: AgentPorts;
  readonly #copies: Copies;
  readonly #inventory: Inventory;

  constructor(ports: AgentPorts, parts: { copies: Copies; inventory: Inventory }) {
    this.#ports = ports;
    this.#copies = parts.copies;
    this.#inventory = parts.inventory;
  }

  /** What was acknowledged to its application is in it: where it is mounted, it is written out first. */
  async take(uid: string, { copy, snapshot }: Of<'takeSnapshot'>): Promise<void> {
    const { found, seen } = await this.#copies.one(uid, copy);
    const { pool, name, label, size } = found;
    const { mounts, crash, clock, node, tell } = this.#ports;
    await pool.verify();
    if (label.volumeMode === 'Filesystem') for (const target of seen.published) await mounts.beFlushed(target);
    await pool.freeze(name, snapshotPoint(snapshot.metadata.uid));
    this.#inventory.touched(pool.name);
    crash('snapshot:frozen');
    const { volumeMode, filesystem, formatted } = label;
    const takenAt = timestamp(clock);
    const holds = { phase: 'Ready', size: String(size), takenAt, volumeMode, filesystem, formatted } as const;
    await this.#report(snapshot, { ...holds, obstacle: null });
    tell(snapshot, 'Normal', 'SnapshotTaken', `copy ${copy} of volume ${label.volume} on node ${node} at ${takenAt}`);
  }

  async drop(uid: string, { copy, snapshot }: Of<'dropSnapshot'>): Promise<void> {
    const point = snapshotPoint(snapshot.metadata.uid);
    const pool = this.#ports.pools.get(snapshot.status?.pool ?? '');
    try {
      await pool?.release(nameOf(uid, copy), point);
    } catch (error) {
      // A copy that is gone took its points along.
      if (!isReason(error, 'NotFound')) throw error;
    }
    if (pool) this.#inventory.touched(pool.name);
    this.#ports.crash('snapshot:released');
    await this.#report(snapshot, { phase: 'Released', obstacle: null });
  }

  /** Only as long as the record is the one that was decided by: the controller may name another copy meanwhile. */
  async #report({ metadata }: Stored<Snapshot>, status: { [F in keyof SnapshotStatus]: SnapshotStatus[F] | null }): Promise<void> {
    const { uid, resourceVersion } = metadata;
    await this.#ports.client.patch(Snapshots, metadata.name, { metadata: { uid, resourceVersion }, status }, { subresource: 'status' });
  }
}
