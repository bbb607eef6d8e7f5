// The named places between two writes that real processes pass (src/model/crash.ts), by who passes them and in the order in which a story
// (story.ts) comes by. scripts/crash-points.test.ts holds that no place of the sources is missing here.

const steps = (...names: string[]): string[] => names.flatMap((name) => [`before:${name}`, `after:${name}`]);

/** As an image pool makes a copy. */
const CREATED = ['before:create', 'create:labelled', 'create:allocated'];
const REMOVED = ['before:remove', 'remove:labelled', 'remove:wiped', 'remove:unlinked', 'remove:removed'];

/** The agent of node-1, where every volume of a story begins. */
const SOURCE = [
  ...CREATED,
  'after:create',
  'publish:attached',
  'publish:formatted',
  'publish:mounted',
  'before:grow',
  'grow:labelled',
  'grow:allocated',
  'after:grow',
  'transfer.source.freeze',
  'freeze:cloned',
  'transfer.source.frozen',
  'transfer.source.release',
  'transfer.source.released',
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
];

/** The agent of node-2, where the story's first move goes. */
const TARGET = [
  ...CREATED,
  'reserve:created',
  ...steps('reserved'),
  'before:pull',
  'transfer.journal.made',
  'transfer.plan.saved',
  'transfer.round.begun',
  'transfer.block.written',
  'transfer.device.synced',
  'transfer.progress.recorded',
  'transfer.round.copied',
  'transfer.round.compared',
  'transfer.leaves.saved',
  'transfer.round.completed',
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
];

const CONTROLLER = [
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
];

/**
 * Beginnings of those that no story here comes by: a scrub that has something to repair (src/transfer/scrub.test.ts), snapshots and clones
 * (src/controller/snapshots.test.ts), pools of directories (src/transfer/tree*.test.ts).
 */
export const ELSEWHERE: readonly string[] = ['transfer.scrub.repaired', 'snapshot:', 'publish:distinct', 'tree.'];

export const ROLES = ['source', 'target', 'controller'] as const;
export type Role = (typeof ROLES)[number];
export const POINTS: { readonly [R in Role]: readonly string[] } = { source: SOURCE, target: TARGET, controller: CONTROLLER };
