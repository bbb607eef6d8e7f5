// A fenced tree in which somebody still writes, unseen: nothing of such a round is ever proof enough for a commit.
import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  openSync,
  closeSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isReason } from '../../model/errors.ts';
import { readJournal } from '../journal.ts';
import { needsRoot } from '../../testing/folders.ts';
import { TARGET } from '../../testing/transfer-rig.ts';
import { aTreeRig, fence, toldTree } from '../../testing/trees.ts';

/** Byte for byte as long as before, and the time put back. */
function overwritten(path: string): void {
  const { atime, mtime } = statSync(path);
  const fd = openSync(path, 'r+');
  writeSync(fd, 'X', 0);
  closeSync(fd);
  utimesSync(path, atime, mtime);
}

for (const [title, change, named] of [
  ['overwrites a file and puts its time back', (root) => overwritten(join(root, 'a/file')), 'a/file'],
  ['appends', (root) => writeFileSync(join(root, 'a/file'), 'more', { flag: 'a' }), 'a/file'],
  ['makes a file larger without writing', (root) => truncateSync(join(root, 'a/file'), 1 << 20), 'a/file'],
  ['makes a file', (root) => writeFileSync(join(root, 'a/new'), 'x'), 'a'],
  ['removes one', (root) => rmSync(join(root, 'a/other')), 'a'],
  ['gives a file another name', (root) => renameSync(join(root, 'z'), join(root, 'y')), '.'],
  ['changes who may', (root) => chmodSync(join(root, 'z'), 0o600), 'z'],
] as const satisfies [string, (root: string) => void, string][])
  test(`who ${title} after the fence keeps the round from being a proof, and what he did is named`, { skip: needsRoot }, async (t) => {
    const rig = await aTreeRig(t);
    mkdirSync(join(rig.from, 'a'));
    for (const name of ['a/file', 'a/other', 'z']) writeFileSync(join(rig.from, name), name.repeat(1000));
    await rig.pull({ round: 0 });
    fence(rig);
    rig.crash.target = (point) => {
      if (point === 'tree.round.applied') change(rig.from);
    };
    const refused = (error: unknown): boolean => isReason(error, 'InUse') && error.message.includes(`"${named}" of the fenced volume`);
    await assert.rejects(rig.pull({ round: 1, final: true }), refused);
    assert.equal((await readJournal(rig.target, TARGET.name))?.verified ?? null, null);
    rig.crash.target = () => {};
    const last = await rig.pull({ round: 1, final: true });
    assert.deepEqual(toldTree(rig.to), toldTree(rig.from));
    assert.match(last.verified?.root ?? '', /^[0-9a-f]{64}$/u);
  });
