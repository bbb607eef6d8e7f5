// The named places between two writes of a tree's round, in the order in which it passes them (docs/decisions/0023). A crash matrix stops a
// process at each of them.

export const TREE_CRASH_POINTS = [
  // At the source.
  'tree.source.walked',
  'tree.source.listed',
  // At the target.
  'tree.round.begun',
  'tree.entry.made',
  'tree.content.written',
  'tree.checkpoint.synced',
  'tree.checkpoint.saved',
  'tree.round.applied',
  'tree.round.walked',
  'tree.round.agreed',
  'tree.round.completed',
  'tree.scrub.repaired',
] as const;
export type TreeCrashPoint = (typeof TREE_CRASH_POINTS)[number];
