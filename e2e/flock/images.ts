// The images that Flock's chart names, made on this machine and brought to the nodes of a cluster. Must not know the chart.
import { copyFile, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { writeFlockImage } from '../../container/image.ts';
import { loadImage, type Cluster } from '../rig/cluster.ts';
import { writeImage } from '../rig/image.ts';

/** As the chart calls it. */
export const FLOCK_IMAGE = { repository: 'docker.io/library/flock', tag: 'local' };
export const SIDECARS = ['provisioner', 'attacher', 'resizer', 'snapshotter'] as const;
export const sidecarImage = (sidecar: string): string => `docker.io/library/csi-${sidecar}:local`;

/** Flock of this checkout, under a tag. */
export async function loadFlock(cluster: Cluster, tag: string = FLOCK_IMAGE.tag): Promise<void> {
  const archive = join(cluster.place.host, 'images', `flock-${tag}.tar`);
  await writeFlockImage(archive, `${FLOCK_IMAGE.repository}:${tag}`, 'amd64');
  await loadImage(cluster, archive);
}

/** Each is a folder with one static program. */
export async function loadSidecars(cluster: Cluster): Promise<void> {
  for (const sidecar of SIDECARS) {
    const archive = join(cluster.place.host, 'images', `csi-${sidecar}.tar`);
    if (!existsSync(archive)) await writeSidecar(cluster, sidecar, archive);
    await loadImage(cluster, archive);
  }
}

async function writeSidecar(cluster: Cluster, sidecar: string, archive: string): Promise<void> {
  const folder = await mkdtemp(join(cluster.place.folder, 'sidecar-'));
  try {
    const program = `csi-${sidecar}`;
    await mkdir(join(folder, 'tmp'));
    await copyFile(join(cluster.built.tools, program), join(folder, program));
    await writeImage({ name: program, folder, config: { Entrypoint: [`/${program}`] } }, archive);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
