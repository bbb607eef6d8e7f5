// Tells whose agent has fallen silent: a node's Lease that nobody renews makes its Ready condition Unknown. Times are judged by this
// process's own clock from when it saw the Lease change, never by the clock that wrote it.
import { timestamp } from '../model/clock.ts';
import type { Condition, Stored } from '../model/meta.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import type { Lease } from '../model/system.ts';
import type { Again, ControllerPorts } from './ports.ts';

export interface LeaseReader {
  lease(name: string): Stored<Lease> | null;
}

export class NodeController {
  readonly #ports: ControllerPorts;
  readonly #leases: LeaseReader;
  readonly #seen = new Map<string, { renewTime: string; at: number }>();

  constructor(ports: ControllerPorts, leases: LeaseReader) {
    this.#ports = ports;
    this.#leases = leases;
  }

  async reconcile(name: string): Promise<Again> {
    const node = this.#ports.known.nodes().find(({ metadata }) => metadata.name === name);
    if (!node) {
      this.#seen.delete(name);
      return undefined;
    }
    const left = this.#timeLeft(name);
    if (left > 0) return { again: left };
    await this.#tellSilent(node);
    return undefined;
  }

  /** How long the Lease still holds, ms. */
  #timeLeft(name: string): number {
    const lease = this.#leases.lease(name);
    const renewTime = lease?.spec.renewTime ?? '';
    const now = this.#ports.clock.monotonic();
    const before = this.#seen.get(name);
    const at = before?.renewTime === renewTime ? before.at : now;
    this.#seen.set(name, { renewTime, at });
    return at + (lease?.spec.leaseDurationSeconds ?? 40) * 1000 - now;
  }

  async #tellSilent(node: Stored<StorageNode>): Promise<void> {
    const conditions = node.status?.conditions ?? [];
    const ready = conditions.find(({ type }) => type === 'Ready');
    if (!ready || ready.status !== 'True') return;
    const { name, resourceVersion } = node.metadata;
    const silent: Condition = {
      type: 'Ready',
      status: 'Unknown',
      reason: 'AgentSilent',
      message: `the agent of node ${name} has not renewed its Lease; start it, or look at its log`,
      lastTransitionTime: timestamp(this.#ports.clock),
    };
    const rest = conditions.filter(({ type }) => type !== 'Ready');
    await this.#ports.client.patch(
      StorageNodes,
      name,
      { metadata: { resourceVersion }, status: { conditions: [...rest, silent] } },
      { subresource: 'status' },
    );
    this.#ports.tell(node, 'Warning', 'AgentSilent', silent.message);
  }
}
