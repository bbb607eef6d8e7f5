// Images of the rig's own from a folder: one layer each. Must not know a cluster.
import { mkdir, mkdtemp, rm, symlink, copyFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { tarOf, writeArchive, type ImageArchive } from '../../container/archive.ts';
import { run } from '../../src/host/run.ts';

export interface Image {
  /** Pods name it docker.io/library/NAME:local (or NAME:local), with imagePullPolicy Never. */
  name: string;
  /** Becomes the root of its one layer; everything in it belongs to root. */
  folder: string;
  config: ImageArchive['config'];
}

/** Writes it to `archive`, a .tar file. The same folder gives the same bytes, whoever made it and when. */
export async function writeImage({ name, folder, config }: Image, archive: string): Promise<void> {
  const work = await mkdtemp(join(dirname(archive), '.layer-'));
  try {
    const layer = join(work, 'layer.tar');
    await tarOf(folder, layer);
    await writeArchive({ reference: `docker.io/library/${name}:local`, architecture: 'amd64', layers: [layer], config }, archive);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** The two images that every node has: `pause` holds a pod's namespaces, `busybox` is for tests. */
export async function writeBasicImages(busybox: string, folder: string): Promise<void> {
  const root = await mkdtemp(join(folder, '.busybox-'));
  try {
    const bin = join(root, 'bin');
    await mkdir(bin);
    await mkdir(join(root, 'tmp'));
    await copyFile(busybox, join(bin, 'busybox'));
    const { stdout } = await run(busybox, ['--list']);
    for (const name of stdout.trim().split('\n')) if (name !== 'busybox') await symlink('busybox', join(bin, name));
    await writeImage({ name: 'pause', folder: root, config: { Entrypoint: ['/bin/sleep', '2147483647'] } }, join(folder, 'pause.tar'));
    await writeImage({ name: 'busybox', folder: root, config: { Cmd: ['/bin/sh'] } }, join(folder, 'busybox.tar'));
  } finally {
    await rm(root, { recursive: true, force: true });
  }
}
