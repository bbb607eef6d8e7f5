// Carries Volumes: adopts, places, orders the first copy, tells their state, lets them go. Observe, decide (decide/volumes.ts), write.
import { keptCopies } from '../decide/kept.ts';
import { conditionSince, isNew, isUnfinished, withSince } from '../decide/observed.ts';
import { lessPromised } from '../decide/placement.ts';
import { sourceSnapshot, TAKEN_FOR } from '../decide/snapshots.ts';
import { nextVolumeStep, type VolumeStep } from '../decide/volumes.ts';
import { timestamp } from '../model/clock.ts';
import { ifFound } from '../model/errors.ts';
import { GROUP_VERSION, type Condition, type Stored } from '../model/meta.ts';
import { Snapshots, type Snapshot } from '../model/snapshot.ts';
import { REFUSED_BY, VOLUME_FINALIZER, Volumes, type Volume } from '../model/volume.ts';
import type { Again, ControllerPorts } from './ports.ts';

type Of<S extends VolumeStep['step']> = Extract<VolumeStep, { step: S }>;

export class VolumeController {
  readonly #ports: ControllerPorts;
  /** Placed a moment ago, by name: the watch may not have told of it, and several are placed at once. */
  readonly #placed = new Map<string, Stored<Volume>>();
  readonly #acts: { [S in VolumeStep['step']]: (volume: Stored<Volume>, step: Of<S>) => Promise<Again> };

  constructor(ports: ControllerPorts) {
    this.#ports = ports;
    this.#acts = {
      none: async () => undefined,
      adopt: (volume) => this.#finalizers(volume, [...(volume.metadata.finalizers ?? []), VOLUME_FINALIZER]),
      letGo: (volume) =>
        this.#finalizers(
          volume,
          (volume.metadata.finalizers ?? []).filter((one) => one !== VOLUME_FINALIZER),
        ),
      place: (volume, step) => this.#place(volume, step),
      withdraw: (volume, step) => this.#withdraw(volume, step),
      takeSource: (volume, step) => this.#takeSource(volume, step),
      dropSource: (_volume, { snapshot }) => this.#dropSource(snapshot),
      order: (volume, { copy, entry }) => this.#status(volume, { copies: { [copy]: entry } }),
      tell: (volume, step) => this.#tell(volume, step),
    };
  }

  /** One step of the Volume of that name. Throws when it is to be tried again. */
  async reconcile(name: string): Promise<Again> {
    const { client, known, crash } = this.#ports;
    const volume = await ifFound(client.get(Volumes, name));
    if (!volume) return undefined;
    const step = nextVolumeStep({
      volume,
      nodes: lessPromised(known.nodes(), this.#volumes(name)),
      // Only who waits for room is told of it.
      kept: volume.spec.copy === undefined ? keptCopies(known.volumes(), known.moves()) : [],
      moves: known.moves().filter((move) => move.spec.volume === name && isUnfinished(move)).length,
      source: await this.#source(volume),
    });
    crash(`before:${step.step}`);
    // The table has one act for each step; the compiler cannot see that key and argument belong together.
    const act = this.#acts[step.step] as (volume: Stored<Volume>, step: VolumeStep) => Promise<Again>;
    const again = await act(volume, step);
    crash(`after:${step.step}`);
    return again;
  }

  async #finalizers({ metadata }: Stored<Volume>, finalizers: string[]): Promise<Again> {
    await this.#ports.client.patch(Volumes, metadata.name, { metadata: { resourceVersion: metadata.resourceVersion, finalizers } });
    return { again: 0 };
  }

  /** All others, as they are known or as they were just written. */
  #volumes(but: string): Stored<Volume>[] {
    const known = new Map(this.#ports.known.volumes().map((volume) => [volume.metadata.name, volume]));
    for (const [name, { metadata, spec }] of this.#placed) {
      const seen = known.get(name);
      if (seen?.metadata.uid !== metadata.uid || (seen.spec.epoch ?? 0) >= (spec.epoch ?? 0)) this.#placed.delete(name);
    }
    return [...new Map([...known, ...this.#placed]).values()].filter(({ metadata }) => metadata.name !== but);
  }

  /** Remembered before it is written: nobody else is to be promised the same room meanwhile. */
  async #place(volume: Stored<Volume>, { node, copy, pool, epoch, refusedBy }: Of<'place'>): Promise<Again> {
    const { name } = volume.metadata;
    const asked = refusedBy === undefined ? {} : { [REFUSED_BY]: refusedBy.join(',') };
    const metadata = { ...volume.metadata, annotations: { ...volume.metadata.annotations, ...asked } };
    const placed = { ...volume, metadata, spec: { ...volume.spec, node, copy, pool, epoch } };
    this.#placed.set(name, placed);
    try {
      await this.#ports.client.replace(Volumes, placed);
    } catch (error) {
      this.#placed.delete(name);
      throw error;
    }
    this.#ports.tell(volume, 'Normal', 'VolumePlaced', `volume ${name} goes to pool ${pool} of node ${node}`);
    return { again: 0 };
  }

  async #withdraw(volume: Stored<Volume>, { epoch, refusedBy }: Of<'withdraw'>): Promise<Again> {
    const { node, copy: _copy, ...spec } = volume.spec;
    const annotations = { ...volume.metadata.annotations, [REFUSED_BY]: refusedBy.join(',') };
    await this.#ports.client.replace(Volumes, { ...volume, metadata: { ...volume.metadata, annotations }, spec: { ...spec, epoch } });
    this.#ports.tell(volume, 'Normal', 'VolumeWithdrawn', `node ${node} has no room for volume ${volume.metadata.name}; another is asked`);
    return { again: 0 };
  }

  #source(volume: Stored<Volume>): Promise<Stored<Snapshot> | null> {
    const name = sourceSnapshot(volume);
    return name === null ? Promise.resolve(null) : ifFound(this.#ports.client.get(Snapshots, name));
  }

  async #takeSource({ metadata }: Stored<Volume>, { snapshot, volume }: Of<'takeSource'>): Promise<Again> {
    await this.#ports.client.create(Snapshots, {
      apiVersion: GROUP_VERSION,
      kind: Snapshots.kind,
      metadata: { name: snapshot, labels: { [TAKEN_FOR]: metadata.uid } },
      spec: { volume },
    });
    return { again: 0 };
  }

  async #dropSource(snapshot: string): Promise<Again> {
    await ifFound(this.#ports.client.delete(Snapshots, snapshot));
    return { again: 0 };
  }

  async #status(volume: Stored<Volume>, status: object): Promise<Again> {
    await this.#ports.client.patch(
      Volumes,
      volume.metadata.name,
      { metadata: { uid: volume.metadata.uid }, status },
      { subresource: 'status' },
    );
    return undefined;
  }

  async #tell(volume: Stored<Volume>, { summary }: Of<'tell'>): Promise<Again> {
    const { obstacle, ...rest } = summary;
    const { obstacle: before, conditions = [] } = volume.status ?? {};
    const now = timestamp(this.#ports.clock);
    const others = conditions.filter(({ type }) => type !== 'Ready');
    const ready = conditionSince(conditions, readiness(summary), now);
    await this.#status(volume, { ...rest, obstacle: withSince(obstacle, before, now), conditions: [...others, ready] });
    if (isNew(obstacle, before)) this.#ports.tell(volume, 'Warning', obstacle.reason, obstacle.message);
    return undefined;
  }
}

/** For whoever waits by condition (`kubectl wait`): it may be used. */
const readiness = ({ phase, obstacle }: Of<'tell'>['summary']): Omit<Condition, 'lastTransitionTime'> => ({
  type: 'Ready',
  status: phase === 'Available' || phase === 'Published' ? 'True' : 'False',
  reason: obstacle?.reason ?? phase ?? 'Pending',
  message: obstacle?.message ?? '',
});
