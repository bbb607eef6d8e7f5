// What an agent offers on its own machine: to the local socket, and to what runs in its process beside it. Knows neither.
import type { Stored } from '../model/meta.ts';
import type { Volume } from '../model/volume.ts';
import type { InUse, Published, PublishOrder } from './publishing.ts';

export interface LocalNode {
  node: string;
  /** Names of the configured pools, whether they can be used now or not. */
  pools(): string[];
  /** As last heard of. */
  volume(name: string): Stored<Volume> | null;
  publish(order: PublishOrder): Promise<Published>;
  unpublish(order: { volume: string; target?: string }): Promise<void>;
  /** Where and as what it is published here; null: nowhere. */
  published(volume: string): Promise<InUse | null>;
  /** The filesystem of a volume in use fills its device. Throws NotFound when it is not in use here. */
  fill(volume: string): Promise<void>;
}

/** Begun once the agent runs, closed before it stops. */
export type Alongside = (local: LocalNode) => Promise<{ close(): Promise<void> }>;
