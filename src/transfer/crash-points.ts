// The named places between two writes of a transfer, in the order in which a round passes them (docs/moves.md, "A round"). A crash matrix
// stops a process at each of them.

export const TRANSFER_CRASH_POINTS = [
  // At the source.
  'transfer.source.freeze',
  'transfer.source.frozen',
  'transfer.source.release',
  'transfer.source.released',
  // At the target.
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
  'transfer.scrub.repaired',
] as const;
export type TransferCrashPoint = (typeof TRANSFER_CRASH_POINTS)[number];
