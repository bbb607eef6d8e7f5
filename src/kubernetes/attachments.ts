// Whether the cluster still wants a volume on a node: its VolumeAttachment is there, and a pod on that node uses its claim. Of a pod that went
// away the attachment stays until the attach has failed, which is minutes later. Knows no move.
import { createHash } from 'node:crypto';
import type { Client } from '../api/client.ts';
import { listAll } from '../api/list-all.ts';
import { DRIVER } from '../csi/names.ts';
import { ifFound } from '../model/errors.ts';
import { PersistentVolumes, Pods, VolumeAttachments, type Pod } from './kinds.ts';

/** As the attach-detach controller names it. */
export const attachmentName = (volume: string, node: string): string =>
  `csi-${createHash('sha256').update(`${volume}${DRIVER}${node}`).digest('hex')}`;

export async function isWanted(client: Client, volume: string, node: string): Promise<boolean> {
  const attachment = await ifFound(client.get(VolumeAttachments, attachmentName(volume, node)));
  if (!attachment || attachment.metadata.deletionTimestamp !== undefined) return false;
  const record = await ifFound(client.get(PersistentVolumes, attachment.spec.source.persistentVolumeName ?? volume));
  const { namespace, name } = record?.spec.claimRef ?? {};
  if (namespace === undefined || name === undefined) return false;
  const { items } = await listAll(client, Pods, { namespace, fieldSelector: `spec.nodeName=${node}` });
  return items.some((pod) => isAlive(pod) && claimsOf(pod).includes(name));
}

const isAlive = ({ metadata, status }: Pod): boolean =>
  metadata.deletionTimestamp === undefined && status?.phase !== 'Succeeded' && status?.phase !== 'Failed';

/** A claim that was made for one pod alone is called after both. */
const claimsOf = ({ metadata, spec }: Pod): string[] =>
  (spec.volumes ?? []).flatMap((volume) => {
    if (volume.persistentVolumeClaim) return [volume.persistentVolumeClaim.claimName];
    return volume.ephemeral ? [`${metadata.name}-${volume.name}`] : [];
  });
