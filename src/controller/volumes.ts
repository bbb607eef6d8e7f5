// Carries Volumes: adopts, places, orders the first copy, tells their state, lets them go. Observe, decide (decide/volumes.ts), write.
import { isNew, isUnfinished, withSince } from '../decide/observed.ts';
import { nextVolumeStep, type VolumeStep } from '../decide/volumes.ts';
import { timestamp } from '../model/clock.ts';
import { ifFound } from '../model/errors.ts';
import type { Stored } from '../model/meta.ts';
import { VOLUME_FINALIZER, Volumes, type Volume } from '../model/volume.ts';
import type { Again, ControllerPorts } from './ports.ts';

type Of<S extends VolumeStep['step']> = Extract<VolumeStep, { step: S }>;

export class VolumeController {
  readonly #ports: ControllerPorts;
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
      nodes: known.nodes(),
      moves: known.moves().filter((move) => move.spec.volume === name && isUnfinished(move)).length,
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

  async #place(volume: Stored<Volume>, { node, copy, pool, epoch }: Of<'place'>): Promise<Again> {
    await this.#ports.client.replace(Volumes, { ...volume, spec: { ...volume.spec, node, copy, pool, epoch } });
    this.#ports.tell(volume, 'Normal', 'VolumePlaced', `volume ${volume.metadata.name} goes to pool ${pool} of node ${node}`);
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
    const before = volume.status?.obstacle;
    await this.#status(volume, { ...rest, obstacle: withSince(obstacle, before, timestamp(this.#ports.clock)) });
    if (isNew(obstacle, before)) this.#ports.tell(volume, 'Warning', obstacle.reason, obstacle.message);
    return undefined;
  }
}
