// Before a directory is fenced that no round has listed yet: whether its tree can be carried at all. By a walk that reads no content.
import { Bursts } from '../../host/bursts.ts';
import type { CopyName, Pool } from '../../pools/pool.ts';
import { Walk } from './walk.ts';

/** Throws Unsupported, naming what cannot be carried. A pool without directories has nothing of the kind. */
export async function checkCarried(pool: Pool, copy: CopyName): Promise<void> {
  const tree = await pool.openTree?.(copy, 'read');
  if (!tree) return;
  const walk = new Walk(tree.fd);
  const bursts = new Bursts();
  try {
    while (walk.next()) if (bursts.isOver) await bursts.rest();
  } finally {
    walk.close();
    await tree.close();
  }
}
