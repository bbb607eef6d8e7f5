// A tree's move that is cut off at each named place, at either side, and goes on; and trees made at random, changed at random between rounds.
import assert from 'node:assert/strict';
import {
  appendFileSync,
  chmodSync,
  linkSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { needsRoot } from '../../testing/folders.ts';
import { pseudoRandom } from '../../testing/transfer-rig.ts';
import { aTreeRig, fence, toldTree, type TreeRig } from '../../testing/trees.ts';
import { TREE_CRASH_POINTS } from './crash-points.ts';

function bytes(length: number, seed: number): Buffer {
  const buffer = Buffer.alloc(Math.ceil(length / 4) * 4);
  pseudoRandom(buffer, seed);
  return buffer.subarray(0, length);
}

/** Numbers that look random and are the same in every run. */
function numbers(seed: number): (below: number) => number {
  let state = seed * 7919 + 17;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function plant(root: string): void {
  mkdirSync(join(root, 'a/b'), { recursive: true });
  for (let index = 0; index < 20; index += 1) writeFileSync(join(root, `a/file-${index}`), bytes(100 + index * 900, index));
  writeFileSync(join(root, 'a/b/large'), bytes(700_000, 99));
  writeFileSync(join(root, 'z'), 'last');
}

/** Passes until the point is met for the nth time; then this process is as good as dead. */
function dyingAt(point: string, times: number): (name: string) => void {
  let left = times;
  return (name) => {
    if (name === point && --left === 0) throw new Error(`died at ${point}`);
  };
}

for (const point of TREE_CRASH_POINTS.filter((name) => name !== 'tree.scrub.repaired'))
  test(
    `cut off at ${point}, the next attempt goes on, sends again only what had not arrived, and proves the whole`,
    { skip: needsRoot },
    async (t) => {
      const rig = await aTreeRig(t);
      plant(rig.from);
      const atSource = point.startsWith('tree.source.');
      rig.crash[atSource ? 'source' : 'target'] = dyingAt(point, point === 'tree.entry.made' ? 15 : 1);
      await assert.rejects(rig.pull({ round: 0 }));
      if (atSource) await rig.restartSource();
      rig.crash = { source: () => {}, target: () => {} };
      const again = await rig.pull({ round: 0 });
      assert.deepEqual(toldTree(rig.to), toldTree(rig.from));
      if (['tree.round.applied', 'tree.round.walked', 'tree.round.agreed', 'tree.round.completed'].includes(point))
        assert.ok(again.bytesSent < 500_000n || point === 'tree.round.completed', `${again.bytesSent} bytes were sent again`);
      writeFileSync(join(rig.from, 'a/file-3'), 'changed');
      fence(rig);
      rig.crash[atSource ? 'source' : 'target'] = dyingAt(point, 1);
      await rig.pull({ round: 1, final: true }).catch(() => undefined);
      rig.crash = { source: () => {}, target: () => {} };
      const last = await rig.pull({ round: 1, final: true });
      assert.deepEqual(toldTree(rig.to), toldTree(rig.from));
      assert.match(last.verified?.root ?? '', /^[0-9a-f]{64}$/u);
    },
  );

const KINDS = 10;

/** One change somewhere in the tree. */
function change(root: string, random: (below: number) => number): void {
  const directories: string[] = [root];
  const files: string[] = [];
  const visit = (path: string): void => {
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      const below = join(path, entry.name);
      if (entry.isDirectory()) {
        directories.push(below);
        visit(below);
      } else if (entry.isFile()) files.push(below);
    }
  };
  visit(root);
  const directory = directories[random(directories.length)] ?? root;
  const file = files[random(files.length)];
  const fresh = join(directory, `${['x', 'a.b', 'a', 'é', 'zz z'][random(5)]}${random(40)}`);
  const acts: (() => void)[] = [
    () => writeFileSync(fresh, bytes(random(3000), random(1000))),
    () => writeFileSync(fresh, bytes(60_000 + random(200_000), random(1000))),
    () => mkdirSync(fresh),
    () => symlinkSync(`../${random(9)}`, fresh),
    () => file && linkSync(file, fresh),
    () => file && rmSync(file),
    () => file && appendFileSync(file, bytes(random(70_000), 3)),
    () => file && truncateSync(file, random(statSync(file).size + 90_000)),
    () => file && chmodSync(file, 0o400 + random(0o377)),
    () => (random(3) === 0 && directory !== root ? rmSync(directory, { recursive: true }) : file && renameSync(file, fresh)),
  ];
  try {
    acts[random(KINDS)]?.();
  } catch (error) {
    // The name was taken, by a directory perhaps.
    assert.ok(['EEXIST', 'EISDIR', 'ENOTDIR', 'ENOTEMPTY', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? ''), String(error));
  }
}

async function roundsOf(rig: TreeRig, random: (below: number) => number, seed: number): Promise<void> {
  for (let round = 0; round < 3; round += 1) {
    for (let count = 0; count < 25; count += 1) change(rig.from, random);
    // Some attempts are cut off, and the tree changes before the next one.
    if (random(2) === 0) {
      rig.crash.target = dyingAt('tree.entry.made', 1 + random(20));
      await rig.pull({ round }).catch(() => undefined);
      rig.crash.target = () => {};
      for (let count = 0; count < 5; count += 1) change(rig.from, random);
    }
    // A round that was complete when it was cut off is told again, and the next one finds the rest.
    await rig.pull({ round });
  }
  for (let count = 0; count < 10; count += 1) change(rig.from, random);
  fence(rig);
  const last = await rig.pull({ round: 3, final: true });
  assert.deepEqual(toldTree(rig.to), toldTree(rig.from), `seed ${seed}`);
  assert.ok(last.verified?.root, `seed ${seed}`);
}

for (let seed = 1; seed <= 8; seed += 1)
  test(
    `a tree made and changed at random between rounds (seed ${seed}) ends equal, by a walker of the test's own`,
    { skip: needsRoot },
    async (t) => {
      await roundsOf(await aTreeRig(t), numbers(seed), seed);
    },
  );
