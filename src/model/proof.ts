// What a journal on the target's disk proves of an incoming copy, as far as decisions need it.
import type { Verified } from './move.ts';

export interface JournalProof {
  moveUid: string;
  verified: Verified | null;
}
