// An OCI image archive from its layers, without a registry and without a daemon: containerd, docker and podman import it, skopeo and others
// copy it to a registry. Must not know what is in the image.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { link, mkdir, mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { run } from '../src/host/run.ts';

export interface ImageArchive {
  /** What pods and people call it, tag and all: docker.io/library/busybox:local. */
  reference: string;
  architecture: 'amd64' | 'arm64';
  /** Tar files on the disk of the archive, the lowest first. */
  layers: readonly string[];
  /** The image's configuration: Entrypoint, Cmd, Env, User, Labels and so on. */
  config: { Entrypoint?: readonly string[]; Cmd?: readonly string[]; Env?: readonly string[]; [field: string]: unknown };
}

interface Blob {
  mediaType: string;
  digest: string;
  size: number;
}

const TYPE = 'application/vnd.oci.image';

/** Writes it to `archive`, a .tar file. The same layers give the same bytes, whoever made it and when. */
export async function writeArchive(image: ImageArchive, archive: string): Promise<void> {
  const work = await mkdtemp(join(dirname(archive), '.image-'));
  try {
    await mkdir(join(work, 'oci/blobs/sha256'), { recursive: true });
    const layers: Blob[] = [];
    for (const layer of image.layers) {
      await link(layer, join(work, 'layer'));
      layers.push(await keep(work, 'layer', `${TYPE}.layer.v1.tar`));
    }
    const config = await keepJson(work, `${TYPE}.config.v1+json`, configOf(image, layers));
    const type = `${TYPE}.manifest.v1+json`;
    const manifest = await keepJson(work, type, { schemaVersion: 2, mediaType: type, config, layers });
    const annotations = {
      'io.containerd.image.name': image.reference,
      'org.opencontainers.image.ref.name': image.reference.split(':').at(-1),
    };
    await writeFile(join(work, 'oci/index.json'), JSON.stringify({ schemaVersion: 2, manifests: [{ ...manifest, annotations }] }));
    await writeFile(join(work, 'oci/oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }));
    await tarOf(join(work, 'oci'), join(work, 'archive'), ['blobs', 'index.json', 'oci-layout']);
    await rename(join(work, 'archive'), archive);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

const configOf = ({ architecture, config }: ImageArchive, layers: readonly Blob[]): object => ({
  architecture,
  os: 'linux',
  config: { Env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'], ...config },
  rootfs: { type: 'layers', diff_ids: layers.map(({ digest }) => digest) },
});

/** Of entries in a folder; everything belongs to root and is of one time. */
export async function tarOf(folder: string, archive: string, entries: readonly string[] = ['.']): Promise<void> {
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
