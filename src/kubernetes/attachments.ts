// Whether the cluster still wants a volume on a node: its VolumeAttachment says so, whose name is made from the two. Knows no move.
import { createHash } from 'node:crypto';
import type { Client } from '../api/client.ts';
import { DRIVER } from '../csi/names.ts';
import { ifFound } from '../model/errors.ts';
import { VolumeAttachments } from './kinds.ts';

/** As the attach-detach controller names it. */
export const attachmentName = (volume: string, node: string): string =>
  `csi-${createHash('sha256').update(`${volume}${DRIVER}${node}`).digest('hex')}`;

export async function isWanted(client: Client, volume: string, node: string): Promise<boolean> {
  const attachment = await ifFound(client.get(VolumeAttachments, attachmentName(volume, node)));
  return attachment !== null && attachment.metadata.deletionTimestamp === undefined;
}
