// Which copies are in use on this node, and where: the mounts, and a file that remembers what they were ordered as. Order of writes: the
// file says it before the mount is made and until after it is gone, so that a crash leaves too much in the file, never too little.
import { readFile } from 'node:fs/promises';
import { writeAtomically } from '../host/files.ts';
import { FlockError } from '../model/errors.ts';
import type { CopyName } from '../pools/pool.ts';
import type { Mounts } from './ports.ts';

export interface Publication {
  target: string;
  readOnly: boolean;
  /** Name of its volume, so that it can be found when the copy cannot. */
  volume?: string;
  /** By a kubelet, which alone ends it. */
  staged?: boolean;
}

export interface Publications {
  of(copy: CopyName): readonly Publication[];
  /** All of the volume, whatever has become of its copies. */
  ofVolume(volume: string): { copy: CopyName; target: string }[];
  /** Names of all volumes that are published. */
  volumes(): string[];
  add(copy: CopyName, publication: Publication): Promise<void>;
  remove(copy: CopyName, target: string): Promise<void>;
  /** Who is published at this path, if anybody. */
  at(target: string): CopyName | null;
}

type Written = { [copy: CopyName]: Publication[] };

/** Where they are kept; a save is durable when it returns. */
export interface PublicationStore {
  read(): Promise<Written>;
  save(all: Written): Promise<void>;
}

/** From the agent's own file. Throws Corrupt when it cannot be read. */
export function openPublications(file: string, mounts: Pick<Mounts, 'isMounted'>): Promise<Publications> {
  return publicationsIn({ read: () => read(file), save: (all) => writeAtomically(file, JSON.stringify(all, null, 1)) }, mounts);
}

/** Forgets what is not mounted any more: after a reboot nothing is. */
export async function publicationsIn(store: PublicationStore, mounts: Pick<Mounts, 'isMounted'>): Promise<Publications> {
  const all = new Map<CopyName, Publication[]>();
  for (const [copy, list] of Object.entries(await store.read())) {
    const mounted: Publication[] = [];
    for (const publication of list) if (await mounts.isMounted(publication.target)) mounted.push(publication);
    if (mounted.length > 0) all.set(copy, mounted);
  }
  let turn: Promise<unknown> = Promise.resolve();
  // One after the other, each with all that is known by then: of two at once the older could be the last.
  const save = (): Promise<void> => {
    const mine = turn.then(() => store.save(Object.fromEntries(all)));
    turn = mine.catch(() => undefined);
    return mine;
  };
  await save();
  return {
    of: (copy) => all.get(copy) ?? [],
    ofVolume: (volume) => ofVolume(all, volume),
    volumes: () => volumesOf(all),
    add: async (copy, publication) => {
      all.set(copy, [...(all.get(copy) ?? []).filter(({ target }) => target !== publication.target), publication]);
      await save();
    },
    remove: async (copy, target) => {
      const left = (all.get(copy) ?? []).filter((publication) => publication.target !== target);
      if (left.length > 0) all.set(copy, left);
      else all.delete(copy);
      await save();
    },
    at: (target) => [...all].find(([, list]) => list.some((publication) => publication.target === target))?.[0] ?? null,
  };
}

export const ofVolume = (all: ReadonlyMap<CopyName, readonly Publication[]>, volume: string): { copy: CopyName; target: string }[] =>
  [...all].flatMap(([copy, list]) => list.filter((each) => each.volume === volume).map(({ target }) => ({ copy, target })));

export const volumesOf = (all: ReadonlyMap<CopyName, readonly Publication[]>): string[] => [
  ...new Set([...all.values()].flatMap((list) => list.flatMap(({ volume }) => volume ?? []))),
];

/** Paths at which something is published, by the file of an agent that does not run. */
export async function publishedPaths(file: string): Promise<string[]> {
  return Object.values(await read(file)).flatMap((list) => list.map(({ target }) => target));
}

async function read(file: string): Promise<Written> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as Written;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new FlockError('Corrupt', `${file} cannot be read (${String(error)}); unmount this node's volumes and remove it`, {
      cause: error,
    });
  }
}
