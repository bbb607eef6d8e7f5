// Carries Snapshots: adopts them, names the copy that they are of, tells their state, lets them go. Observe, decide (decide/snapshots.ts),
// write.
import { isDeleting, isNew, servedCopy, withSince } from '../decide/observed.ts';
import { nextSnapshotStep, sourceSnapshot, type SnapshotStep } from '../decide/snapshots.ts';
import { timestamp } from '../model/clock.ts';
import { ifFound } from '../model/errors.ts';
import type { Stored } from '../model/meta.ts';
import { SNAPSHOT_FINALIZER, Snapshots, type Snapshot } from '../model/snapshot.ts';
import type { Volume } from '../model/volume.ts';
import { Volumes } from '../model/volume.ts';
import type { Again, ControllerPorts } from './ports.ts';

type Of<S extends SnapshotStep['step']> = Extract<SnapshotStep, { step: S }>;

export class SnapshotController {
  readonly #ports: ControllerPorts;
  readonly #acts: { [S in SnapshotStep['step']]: (snapshot: Stored<Snapshot>, step: Of<S>) => Promise<void> };

  constructor(ports: ControllerPorts) {
    this.#ports = ports;
    this.#acts = {
      none: async () => undefined,
      adopt: ({ metadata }) => this.#finalizers(metadata, [...(metadata.finalizers ?? []), SNAPSHOT_FINALIZER]),
      letGo: ({ metadata }) =>
        this.#finalizers(
          metadata,
          (metadata.finalizers ?? []).filter((one) => one !== SNAPSHOT_FINALIZER),
        ),
      tell: (snapshot, step) => this.#tell(snapshot, step),
    };
  }

  /** One step of the Snapshot of that name. Throws when it is to be tried again. */
  async reconcile(name: string): Promise<Again> {
    const { client, known, crash } = this.#ports;
    const snapshot = await ifFound(client.get(Snapshots, name));
    if (!snapshot) return undefined;
    const volume = await ifFound(client.get(Volumes, snapshot.spec.volume));
    const node = snapshot.status?.phase === 'Deleting' || !volume ? snapshot.status?.node : volume.spec.node;
    const step = nextSnapshotStep({
      snapshot,
      volume,
      node: known.nodes().find(({ metadata }) => metadata.name === node) ?? null,
      makes: isDeleting(snapshot) ? await this.#makes(name) : [],
    });
    crash(`before:snapshot-${step.step}`);
    // The table has one act for each step; the compiler cannot see that key and argument belong together.
    const act = this.#acts[step.step] as (snapshot: Stored<Snapshot>, step: SnapshotStep) => Promise<void>;
    await act(snapshot, step);
    crash(`after:snapshot-${step.step}`);
    return step.step === 'none' || step.step === 'letGo' ? undefined : { again: 0 };
  }

  /** Read afresh: a volume that no watch has told of yet may need the point. */
  async #makes(name: string): Promise<string[]> {
    const { items } = await this.#ports.client.list(Volumes);
    return items.filter((volume) => isMaking(volume, name)).map(({ metadata }) => metadata.name);
  }

  async #finalizers({ name, resourceVersion }: Stored<Snapshot>['metadata'], finalizers: string[]): Promise<void> {
    await this.#ports.client.patch(Snapshots, name, { metadata: { resourceVersion, finalizers } });
  }

  async #tell(snapshot: Stored<Snapshot>, { status, obstacle }: Of<'tell'>): Promise<void> {
    const { name, uid, resourceVersion } = snapshot.metadata;
    const before = snapshot.status?.obstacle;
    const change = { ...status, obstacle: withSince(obstacle, before, timestamp(this.#ports.clock)) };
    await this.#ports.client.patch(Snapshots, name, { metadata: { uid, resourceVersion }, status: change }, { subresource: 'status' });
    if (isNew(obstacle, before)) this.#ports.tell(snapshot, 'Warning', obstacle.reason, obstacle.message);
  }
}

const isMaking = (volume: Stored<Volume>, snapshot: string): boolean =>
  sourceSnapshot(volume) === snapshot && servedCopy(volume)?.created !== true && !isDeleting(volume);
