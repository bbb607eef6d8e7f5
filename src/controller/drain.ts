// Empties nodes that are to be drained: orders the moves one by one, so that each finds the room that the last one left, and tells what is
// left. Observe, decide (decide/drain.ts), write.
import { nextDrainStep, type DrainStep } from '../decide/drain.ts';
import { isReason } from '../model/errors.ts';
import { GROUP_VERSION, type Stored } from '../model/meta.ts';
import { Moves } from '../model/move.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { Volumes } from '../model/volume.ts';
import type { Again, ControllerPorts } from './ports.ts';

export class DrainController {
  readonly #ports: ControllerPorts;

  constructor(ports: ControllerPorts) {
    this.#ports = ports;
  }

  async reconcile(name: string): Promise<Again> {
    const { client, known, crash } = this.#ports;
    const node = known.nodes().find(({ metadata }) => metadata.name === name);
    if (!node || (!node.spec?.drain && !node.status?.drain)) return undefined;
    // Read afresh: what was ordered a moment ago is not ordered again elsewhere.
    const [volumes, moves] = await Promise.all([client.list(Volumes), client.list(Moves)]);
    const step = nextDrainStep({ node, nodes: known.nodes(), volumes: volumes.items, moves: moves.items });
    crash(`before:drain-${step.step}`);
    const again = await this.#act(node, step);
    crash(`after:drain-${step.step}`);
    return again;
  }

  async #act(node: Stored<StorageNode>, step: DrainStep): Promise<Again> {
    switch (step.step) {
      case 'none':
        return undefined;
      case 'order':
        return this.#order(node, step);
      case 'tell':
        return this.#tell(node, step);
    }
  }

  async #order(node: Stored<StorageNode>, { move, volume, target }: Extract<DrainStep, { step: 'order' }>): Promise<Again> {
    const { client, tell } = this.#ports;
    const spec = { volume, target, reason: `node ${node.metadata.name} is drained` };
    try {
      await client.create(Moves, { apiVersion: GROUP_VERSION, kind: Moves.kind, metadata: { name: move }, spec });
    } catch (error) {
      // Another replica that led a moment ago was first.
      if (!isReason(error, 'AlreadyExists')) throw error;
    }
    tell(node, 'Normal', 'DrainMoves', `volume ${volume} is ordered to node ${target}`);
    return { again: 0 };
  }

  async #tell(node: Stored<StorageNode>, { drain }: Extract<DrainStep, { step: 'tell' }>): Promise<Again> {
    const { client, tell } = this.#ports;
    const { name, uid } = node.metadata;
    await client.patch(StorageNodes, name, { metadata: { uid }, status: { drain } }, { subresource: 'status' });
    if (drain?.left === 0) tell(node, 'Normal', 'Drained', drain.message);
    return undefined;
  }
}
