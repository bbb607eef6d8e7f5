// People who take snapshots, make volumes of them and of volumes, and delete both in any order. Knows the records alone.
import { GROUP_VERSION, type Stored } from '../model/meta.ts';
import { Snapshots, type Snapshot } from '../model/snapshot.ts';
import type { Volume, VolumeSpec } from '../model/volume.ts';
import type { People } from './people.ts';
import { FOLDERS, type World } from './world.ts';

const MOST_SNAPSHOTS = 4;
const MOST_VOLUMES = 6;
/** What a volume waits for that will not come. */
const VAIN = new Set([
  'SnapshotNotFound',
  'SnapshotNotReady',
  'TooSmall',
  'SourceDiffers',
  'SourceElsewhere',
  'NoSpace',
  'NoNode',
  'NotFound',
]);

export class Takers {
  readonly #world: World;
  readonly #people: People;
  #taken = 0;

  constructor(world: World, people: People) {
    this.#world = world;
    this.#people = people;
  }

  snapshots(): Stored<Snapshot>[] {
    return this.#world.server.registry.list(Snapshots).items;
  }

  #snapshot(): Stored<Snapshot> | null {
    return this.#world.chance.pick(this.snapshots().filter(({ metadata, status }) => isThere(metadata) && status?.phase === 'Ready'));
  }

  /** Mostly of one that can have snapshots. */
  #volume(): Stored<Volume> | null {
    const { chance } = this.#world;
    const all = this.#world.volumes().filter(({ metadata, spec }) => isThere(metadata) && (spec.pool !== FOLDERS || chance.happens(0.1)));
    return chance.pick(all);
  }

  take(volume = this.#volume()?.metadata.name): void {
    if (volume === undefined || this.snapshots().length >= MOST_SNAPSHOTS) return;
    this.#taken += 1;
    const name = `s${this.#taken}`;
    const snapshot: Snapshot = { apiVersion: GROUP_VERSION, kind: 'Snapshot', metadata: { name }, spec: { volume } };
    this.#people.try(`takes snapshot ${name} of ${volume}`, () => this.#world.server.registry.create(Snapshots, snapshot));
  }

  drop(snapshot = this.#world.chance.pick(this.snapshots().filter(({ metadata }) => isThere(metadata)))): void {
    if (!snapshot) return;
    const { name } = snapshot.metadata;
    this.#people.try(`deletes snapshot ${name}`, () => this.#world.server.registry.delete(Snapshots, name));
  }

  /** And now and then the snapshot is deleted at once. */
  restore(): void {
    const snapshot = this.#snapshot();
    if (!snapshot || this.#world.volumes().length >= MOST_VOLUMES) return;
    const { size = '8Mi', volumeMode = 'Filesystem', pool } = snapshot.status ?? {};
    const of = this.#world.volumes().find(({ metadata }) => metadata.name === snapshot.spec.volume);
    this.#begin({ size, volumeMode, pool, filesystem: of?.spec.filesystem }, { snapshot: snapshot.metadata.name });
    if (this.#world.chance.happens(0.4)) this.drop(snapshot);
  }

  clone(): void {
    const of = this.#volume();
    if (!of || this.#world.volumes().length >= MOST_VOLUMES) return;
    const { size, volumeMode, filesystem, pool } = of.spec;
    this.#begin({ size: of.status?.capacity ?? size, volumeMode, filesystem, pool }, { volume: of.metadata.name });
  }

  #begin({ size, volumeMode, filesystem, pool }: Alike, source: NonNullable<VolumeSpec['source']>): void {
    const { chance } = this.#world;
    const larger = chance.happens(0.3) ? 1 << 20 : 0;
    const wanted = /^\d+$/u.test(size) ? String(Number(size) + larger) : size;
    this.#people.make({
      size: wanted,
      volumeMode: volumeMode ?? 'Filesystem',
      retainSource: chance.pick(['0s', '10s']) ?? '0s',
      ...(pool === undefined ? {} : { pool }),
      ...(filesystem === undefined ? {} : { filesystem }),
      source,
    });
  }

  /** What waits in vain, or lies on a copy that is to go. */
  tidy(): void {
    for (const volume of this.#world.volumes()) if (neverBegins(volume)) this.#people.remove(volume.metadata.name);
    for (const snapshot of this.snapshots()) if (isThere(snapshot.metadata) && this.#isVain(snapshot)) this.drop(snapshot);
  }

  #isVain({ spec, status }: Stored<Snapshot>): boolean {
    const volume = this.#world.volumes().find(({ metadata }) => metadata.name === spec.volume);
    if (!volume || !isThere(volume.metadata) || status?.phase !== 'Ready') return true;
    return status.copy !== volume.spec.copy || status.volumeUid !== volume.metadata.uid;
  }

  dropAll(): void {
    for (const snapshot of this.snapshots()) if (isThere(snapshot.metadata)) this.drop(snapshot);
  }
}

const neverBegins = ({ metadata, spec, status = {} }: Stored<Volume>): boolean =>
  isThere(metadata) && spec.source !== undefined && status.capacity === undefined && VAIN.has(status.obstacle?.reason ?? '');

type Alike = { [F in 'volumeMode' | 'filesystem' | 'pool']: VolumeSpec[F] | undefined } & { size: string };

const isThere = ({ deletionTimestamp }: { deletionTimestamp?: string }): boolean => deletionTimestamp === undefined;
