// An OCI image archive from a folder, without a registry and without a daemon; containerd imports it. Must not know a cluster.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, stat, symlink, writeFile, copyFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { run } from '../../src/host/run.ts';

export interface Image {
  /** Pods name it docker.io/library/NAME:local (or NAME:local), with imagePullPolicy Never. */
  name: string;
  /** Becomes the root of its one layer; everything in it belongs to root. */
  folder: string;
  /** The image's configuration: Entrypoint, Cmd, Env, User, Labels and so on. */
  config: { Entrypoint?: readonly string[]; Cmd?: readonly string[]; Env?: readonly string[]; [field: string]: unknown };
}

interface Blob {
  mediaType: string;
  digest: string;
  size: number;
}

const TYPE = 'application/vnd.oci.image';

/** Writes it to `archive`, a .tar file. The same folder gives the same bytes, whoever made it and when. */
export async function writeImage(image: Image, archive: string): Promise<void> {
  const work = await mkdtemp(join(dirname(archive), '.image-'));
  try {
    await mkdir(join(work, 'oci/blobs/sha256'), { recursive: true });
    await tar(image.folder, join(work, 'layer'), '.');
    const layer = await keep(work, 'layer', `${TYPE}.layer.v1.tar`);
    const config = await keepJson(work, `${TYPE}.config.v1+json`, configOf(image, layer));
    const type = `${TYPE}.manifest.v1+json`;
    const manifest = await keepJson(work, type, { schemaVersion: 2, mediaType: type, config, layers: [layer] });
    const annotations = {
      'io.containerd.image.name': `docker.io/library/${image.name}:local`,
      'org.opencontainers.image.ref.name': 'local',
    };
    await writeFile(join(work, 'oci/index.json'), JSON.stringify({ schemaVersion: 2, manifests: [{ ...manifest, annotations }] }));
    await writeFile(join(work, 'oci/oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }));
    await tar(join(work, 'oci'), join(work, 'archive'), 'blobs', 'index.json', 'oci-layout');
    await rename(join(work, 'archive'), archive);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

const configOf = (image: Image, layer: Blob): object => ({
  architecture: 'amd64',
  os: 'linux',
  config: { Env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'], ...image.config },
  rootfs: { type: 'layers', diff_ids: [layer.digest] },
});

async function tar(folder: string, archive: string, ...entries: string[]): Promise<void> {
  const same = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner'];
  await run('tar', [...same, '-C', folder, '-cf', archive, ...entries], { timeout: 600_000 });
}

/** Moves the file to its place among the blobs. */
async function keep(work: string, file: string, mediaType: string): Promise<Blob> {
  const path = join(work, file);
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  const digest = hash.digest('hex');
  const { size } = await stat(path);
  await rename(path, join(work, 'oci/blobs/sha256', digest));
  return { mediaType, digest: `sha256:${digest}`, size };
}

async function keepJson(work: string, mediaType: string, object: object): Promise<Blob> {
  await writeFile(join(work, 'json'), JSON.stringify(object));
  return await keep(work, 'json', mediaType);
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
