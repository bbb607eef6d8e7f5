// A round or a scrub that nobody waits for: it takes what its node bears. Knows no rule and no pressure.
import { atMost } from '../decide/restraint.ts';
import { pacedReads } from './restraint.ts';
import type { PullOptions } from './transfer.ts';

/** Pulls as background work: its limit is never above what the node bears, and what it reads to hash waits its turn. */
export async function inBackground<T>(options: PullOptions, act: (options: PullOptions) => Promise<T>): Promise<T> {
  const work = options.restraint?.join();
  if (!work) return act(options);
  let counted = 0n;
  const held: PullOptions = {
    ...options,
    limit: () => atMost(options.limit(), work.ceiling()),
    onProgress: (progress) => {
      if (progress.bytesSent > counted) work.count(Number(progress.bytesSent - counted));
      counted = progress.bytesSent;
      options.onProgress(progress);
    },
    target: { ...options.target, paced: (handle) => pacedReads(handle, work, options.signal) },
  };
  try {
    return await act(held);
  } finally {
    work.leave();
  }
}
