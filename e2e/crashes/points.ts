// The named places between two writes that real processes pass (src/model/crash.ts), by the story in which they do, by who passes them and in
// the order in which the story comes by. scripts/crash-points.test.ts holds that no place of the sources is missing here.
import { TRANSFER_CRASH_POINTS } from '../../src/transfer/crash-points.ts';
import { TREE_CRASH_POINTS } from '../../src/transfer/tree/crash-points.ts';

const steps = (...names: string[]): string[] => names.flatMap((name) => [`before:${name}`, `after:${name}`]);

/** In none of these stories a scrub has anything to repair. */
const passed = (points: readonly string[]): string[] => points.filter((point) => !point.endsWith('.scrub.repaired'));
const [IMAGE, TREE] = [passed(TRANSFER_CRASH_POINTS), passed(TREE_CRASH_POINTS)];
const atSource = (points: readonly string[]): string[] => points.filter((point) => point.includes('.source.'));
const atTarget = (points: readonly string[]): string[] => points.filter((point) => !point.includes('.source.'));

/** As an image pool makes a copy. */
const CREATED = ['before:create', 'create:labelled', 'create:allocated'];
const REMOVED = ['before:remove', 'remove:labelled', 'remove:wiped', 'remove:unlinked', 'remove:removed'];
/** As a pool of directories does. */
const DIRECTORY_MADE = ['create:labelled', 'create:made', 'create:limited'];
const DIRECTORY_REMOVED = ['remove:labelled', 'remove:unlimited', 'remove:emptied', 'remove:removed'];

export const ROLES = ['source', 'target', 'controller'] as const;
export type Role = (typeof ROLES)[number];
/** A volume of blocks that moves; a directory that moves, and is drained back; a volume of blocks with snapshots and clones. */
export const PLOTS = ['image', 'directory', 'snapshots'] as const;
export type Plot = (typeof PLOTS)[number];

/** source: the agent of node-1, where every volume begins. target: that of node-2, where its first move goes. */
export const POINTS: { readonly [P in Plot]: { readonly [R in Role]: readonly string[] } } = {
  image: {
    source: [
      ...CREATED,
      'after:create',
      'publish:attached',
      'publish:formatted',
      'publish:mounted',
      'before:grow',
      'grow:labelled',
      'grow:allocated',
      'after:grow',
      'freeze:cloned',
      ...atSource(IMAGE),
      'unpublish:unmounted',
      'before:fence',
      'fence:held',
      'fence:labelled',
      'after:fence',
      'before:relabel',
      'relabel:written',
      'after:relabel',
      ...steps('releasePoint'),
      ...REMOVED,
      ...steps('dropEntry'),
      'after:remove',
    ],
    target: [
      ...CREATED,
      'reserve:created',
      ...steps('reserved'),
      'before:pull',
      ...atTarget(IMAGE),
      'round:pulled',
      'after:pull',
      'before:activate',
      'activate:frozen',
      'activate:labelled',
      'after:activate',
      ...steps('scrub'),
      ...steps('releasePoint'),
      'publish:mounted',
      'unpublish:unmounted',
      ...REMOVED,
    ],
    controller: [
      ...steps('none', 'adopt', 'place', 'order', 'tell'),
      'before:accept',
      'accept:finalizer',
      'after:accept',
      ...steps('wait', 'round', 'phase', 'fence', 'finalDelta'),
      'before:unfence',
      'unfence:swapped',
      'after:unfence',
      ...steps('resume'),
      'before:commit',
      'commit:before',
      'commit:swapped',
      'after:commit',
      ...steps('published', 'release', 'cancel', 'end', 'forget', 'letGo'),
    ],
  },
  directory: {
    source: [
      ...DIRECTORY_MADE,
      'grow:labelled',
      'grow:limited',
      'publish:attached',
      'publish:mounted',
      ...atSource(TREE),
      'unpublish:unmounted',
      'hold:renamed',
      'fence:held',
      'fence:labelled',
      'relabel:written',
      ...DIRECTORY_REMOVED,
    ],
    target: [
      ...DIRECTORY_MADE,
      'reserve:created',
      'transfer.journal.made',
      ...atTarget(TREE),
      'round:pulled',
      'activate:labelled',
      ...steps('scrub'),
      'unpublish:unmounted',
      ...DIRECTORY_REMOVED,
    ],
    controller: steps('drain-order', 'drain-tell', 'drain-none'),
  },
  snapshots: {
    source: [
      ...steps('takeSnapshot'),
      'snapshot:frozen',
      'create:allocated',
      'publish:distinct',
      ...steps('dropSnapshot'),
      'snapshot:released',
    ],
    target: [],
    controller: steps('snapshot-adopt', 'snapshot-tell', 'snapshot-none', 'takeSource', 'dropSource', 'snapshot-letGo'),
  },
};

/** Where processes die at the points that no story here comes by. */
export const ELSEWHERE: { readonly [point: string]: string } = {
  // Something has to be damaged for it.
  'transfer.scrub.repaired': 'src/cli/scrub.engine.test.ts',
  'tree.scrub.repaired': 'src/cli/scrub.engine.test.ts',
  // A pool has to fill up while a volume is on its way into it.
  'before:withdraw': 'src/simulation/deaths.ts',
  'after:withdraw': 'src/simulation/deaths.ts',
};
