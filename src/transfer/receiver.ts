// The target's side of a round: opens the journal, dials the source, and lets the round be pulled. Every handle and socket is closed on
// every path; what was written stays proven by the journal. Trying again is the caller's.
import { FlockError } from '../model/errors.ts';
import { inBackground } from './background.ts';
import { Journal } from './journal.ts';
import type { Ledger } from './journal-records.ts';
import { Round } from './round.ts';
import { SourceLink } from './source-link.ts';
import { TreeRound } from './tree/round.ts';
import type { PullOptions, RoundOrder, RoundReport } from './transfer.ts';

/**
 * Brings the target's copy to the source's state of this round. Resumes what an earlier attempt began; a round that is complete is
 * reported again without asking anybody. Throws Unavailable (wire, silence), Unauthorized and Forbidden (who may), Conflict (not fenced,
 * another round), NoSpace, Corrupt (bytes, counts or roots that do not agree), and the signal's reason.
 */
export function pullRound(options: PullOptions, order: RoundOrder): Promise<RoundReport> {
  // An application waits for the final round.
  return order.final ? pulled(options, order) : inBackground(options, (held) => pulled(held, order));
}

async function pulled(options: PullOptions, order: RoundOrder): Promise<RoundReport> {
  const { hello, target, crash, signal } = options;
  signal.throwIfAborted();
  await target.pool.verify();
  const { moveUid, volumeUid, epoch } = hello;
  const journal = await Journal.open(target.pool, { moveUid, volumeUid, epoch, copy: target.copy }, () => isEmpty(options));
  try {
    crash('transfer.journal.made');
    const before = reportedBefore(journal.ledger, order);
    if (before) return before;
    const link = await SourceLink.dial(options);
    try {
      const parts = { link, journal };
      return await (target.pool.openTree ? new TreeRound(options, order, parts) : new Round(options, order, parts)).pull();
    } finally {
      await link.close();
    }
  } finally {
    await journal.close();
  }
}

/** Fresh by the caller's word, and nothing on it by the pool's: only then may zeros be skipped. */
async function isEmpty({ target }: PullOptions): Promise<boolean> {
  // Of a directory nothing is skipped: it is looked at.
  if (!target.fresh || target.pool.openTree) return false;
  for await (const { kind } of target.pool.changed(target.copy, null, 'live')) if (kind === 'DATA') return false;
  return true;
}

function reportedBefore({ completed }: Ledger, order: RoundOrder): RoundReport | null {
  if (!completed || order.round > completed.report.round) return null;
  const same = order.round === completed.report.round;
  if (same && order.final === completed.final) return completed.report;
  if (same && order.final) return null;
  throw new FlockError(
    'Conflict',
    `round ${order.round} was asked for, but round ${completed.report.round}${completed.final ? ', the final one,' : ''} is complete already`,
  );
}
