// GetCapacity: of one node, as the provisioner asks for each, or of all together. What counts as room is what placement counts.
import type { Client } from '../api/client.ts';
import { listAll } from '../api/list-all.ts';
import { holdsDirectories, usualPool, whyNot, type Need } from '../decide/placement.ts';
import { SMALLEST } from '../decide/filesystem-size.ts';
import type { Stored } from '../model/meta.ts';
import { nodeName } from '../model/names.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { USUAL_FILESYSTEM, type Filesystem } from '../model/volume.ts';
import { commonAccess } from './access.ts';
import type { GetCapacityRequest, GetCapacityResponse, VolumeCapability } from './generated/csi.ts';
import { NODE_KEY } from './names.ts';
import { parametersOf } from './parameters.ts';

export async function capacityOf(client: Client, asked: GetCapacityRequest): Promise<GetCapacityResponse> {
  const { spec } = parametersOf(asked.parameters);
  const filesystem = filesystemOf(asked.volumeCapabilities, spec.filesystem ?? USUAL_FILESYSTEM);
  const { items: nodes } = await listAll(client, StorageNodes);
  const pool = spec.pool ?? usualPool(nodes);
  if (typeof pool !== 'string') return { availableCapacity: 0n, maximumVolumeSize: 0n, minimumVolumeSize: undefined };
  const minimumVolumeSize = filesystem === null || holdsDirectories(nodes, pool) ? undefined : SMALLEST[filesystem];
  const rooms = wanted(nodes, asked).map((node) => roomOf(node, { pool, size: 0n, filesystem }));
  return {
    availableCapacity: rooms.reduce((sum, room) => sum + room, 0n),
    maximumVolumeSize: rooms.reduce((largest, room) => (room > largest ? room : largest), 0n),
    minimumVolumeSize,
  };
}

/** null: raw block. */
function filesystemOf(capabilities: readonly VolumeCapability[], usual: Filesystem): Filesystem | null {
  if (capabilities.length === 0) return usual;
  const { volumeMode, filesystem } = commonAccess(capabilities);
  return volumeMode === 'Block' ? null : (filesystem ?? usual);
}

function wanted(nodes: readonly Stored<StorageNode>[], { accessibleTopology }: GetCapacityRequest): readonly Stored<StorageNode>[] {
  const name = accessibleTopology?.segments[NODE_KEY];
  return name === undefined ? nodes : nodes.filter(({ metadata }) => metadata.name === nodeName(name));
}

/** What could be made there now, bytes. */
function roomOf(node: Stored<StorageNode>, need: Need): bigint {
  if (whyNot(node.metadata.name, node, need)) return 0n;
  return BigInt(node.status?.pools?.[need.pool]?.free ?? 0);
}
