// What is proven of the copy that a move left behind: it is what the target was at its commit, its label on the disk says that it is
// superseded, a directory lies where its fence put it, and its node refuses to serve it. Reads the pool's files as they lie, not through
// the agent.
import { closeSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { FlockError, messageOf } from '../../model/errors.ts';
import { copyName, type CopyLabel } from '../../model/label.ts';
import type { Stored } from '../../model/meta.ts';
import type { Incoming, Move } from '../../model/move.ts';
import type { Volume } from '../../model/volume.ts';
import { openedTree, RETIRED } from '../../pools/directory-place.ts';
import { openBlocks } from '../../pools/image-blocks.ts';
import { CopyFiles, readSidecar } from '../../pools/image-layout.ts';
import { everyLeaf } from '../../transfer/comparing.ts';
import { hashLeaves, using } from '../../transfer/disk.ts';
import { LeafTable } from '../../transfer/leaves.ts';
import { digestOfTree } from '../../transfer/tree/look.ts';
import { placesOf, type NodePlaces } from '../local/layout.ts';
import { eventually, type Play } from './following.ts';

/** Which of a node's pools is shown. */
export type DemoPool = keyof NodePlaces['pools'];

export interface Left {
  pool: DemoPool;
  move: Stored<Move>;
  volume: Stored<Volume>;
  source: string;
}

export async function proveSource(play: Play, left: Left): Promise<void> {
  const { stage, telling, context } = play;
  const { pool, move, volume, source } = left;
  const copy = move.status?.source?.copy ?? '';
  const { folder } = placesOf(stage.layout, source).pools[pool];
  const files = new CopyFiles(folder, copyName({ volumeUid: volume.metadata.uid, copy }));
  const agreed = agreedRoot(move.status?.incoming ?? {});
  telling.claim(agreed.text, agreed.root !== null, agreed.why);
  const [served, fenced] = [join(folder, files.name), join(folder, RETIRED, files.name)];
  if (pool === 'directory')
    telling.claim(
      `the directory of the copy on ${source} is fenced: it lies in ${RETIRED}/, and nothing by its old path`,
      existsSync(fenced) && !existsSync(served),
    );
  const root = pool === 'directory' ? await treeOf(fenced, context.interrupted) : await rootOf(files.image, context.interrupted);
  telling.claim(`what still lies on ${source} has that hash, read here once more: ${root.slice(0, 16)}…`, root === agreed.root);
  const { role, epoch } = await labelWhenSuperseded(play, files);
  telling.claim(`the copy on ${source} is retired: its label on the disk says ${role}, epoch ${epoch}`, role === 'stale');
  const refusal = await refused(play, left);
  telling.claim(`${source} refuses to serve it: ${refusal.message}`, refusal.refused);
}

/** The source's agent writes it when it sees the commit, which need not be at once. */
const labelWhenSuperseded = (play: Play, files: CopyFiles): Promise<CopyLabel> =>
  eventually(
    play,
    () => `the label ${files.sidecar} still does not say that the copy is superseded`,
    async () => {
      const { label } = await readSidecar(files);
      return label.role === 'active' || label.role === 'retired' ? null : label;
    },
  );

interface Agreed {
  text: string;
  root: string | null;
  why: string;
}

/** Over names, owners, modes, times, attributes and contents of all that is in it. */
async function treeOf(path: string, stop: AbortSignal): Promise<string> {
  const root = openedTree(path);
  try {
    return await digestOfTree(root, stop);
  } finally {
    closeSync(root);
  }
}

/** The hash over the whole volume that source and target agree on as of the commit. */
function agreedRoot({ scrub, verified }: Incoming): Agreed {
  const { state = 'Impossible', message = '', root = null } = scrub ?? {};
  if (state === 'Impossible')
    return {
      text: 'the last pass compared the whole target with the retired source: one hash for both',
      root: verified?.root ?? null,
      why: 'the move tells no hash',
    };
  return {
    text: `the whole target as of the commit was read again and compared with the retired source (${message}): one hash for both`,
    root: state === 'Passed' ? root : null,
    why: `the scrub ended as ${state}`,
  };
}

async function rootOf(image: string, stop: AbortSignal): Promise<string> {
  return using(await openBlocks({ path: image, mode: 'read', thick: true, lock: null }), async (blocks) => {
    const size = Number(blocks.size);
    return new LeafTable(size, await hashLeaves(blocks, everyLeaf(new LeafTable(size)), size, stop)).root();
  });
}

async function refused({ stage }: Play, { volume, source }: Left): Promise<{ refused: boolean; message: string }> {
  try {
    const agent = await stage.agent(source);
    await agent.publish({ volume: volume.metadata.name, target: `${stage.places.target(source)}-again` });
    return { refused: false, message: 'it did not' };
  } catch (error) {
    return { refused: error instanceof FlockError && error.reason === 'NotPermitted', message: messageOf(error) };
  }
}
