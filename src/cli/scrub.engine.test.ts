// After the commit the target is compared with what the source keeps. What turned on the target's disk meanwhile is pulled again, also after
// whoever did so ended in the middle; and as long as that is not done, and where nothing proves what is right, the source is kept.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readdirSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { FlockError } from '../model/errors.ts';
import { Moves, type Move } from '../model/move.ts';
import { ON_XFS } from '../testing/behind-proxy.ts';
import { startEngine, type Engine, type EngineOptions } from '../testing/engine.ts';
import { needsRoot, type Test } from '../testing/folders.ts';
import { toldTree } from '../testing/trees.ts';

const skip = needsRoot;
const MARK = 'this is what turns on the disk';
const CONTENT = `${'before '.repeat(30_000)}${MARK}${' behind'.repeat(30_000)}`;

/** Under the filesystem of a node's pool: no time of any file tells of it. */
function rot(engine: Engine, node: string): void {
  const disk = join(dirname(engine.disk(node)), 'disk');
  const [at] = execFileSync('grep', ['--text', '--byte-offset', '--only-matching', MARK, disk], { encoding: 'utf8' }).split(':');
  const file = openSync(disk, 'r+');
  writeSync(file, 'T', Number(at));
  fsyncSync(file);
  closeSync(file);
}

/** A volume on its way to node-2 at whose points something happens; it is let go at once when all is proven. */
async function moving(t: Test, options: Partial<EngineOptions>, at: { [point: string]: (engine: Engine) => void }): Promise<Moving> {
  let engine: Engine | null = null;
  const crash = (point: string): void => {
    if (engine) at[point]?.(engine);
  };
  engine = await startEngine(t, {
    nodes: ['node-1', 'node-2'],
    filesystem: ON_XFS,
    agent: (node) => (node === 'node-2' ? { crash } : {}),
    ...options,
  });
  await engine.volume('db', { size: '64Mi', pool: 'local', node: 'node-1', retainSource: '0s' });
  const from = await engine.mount('db');
  mkdirSync(join(from, 'deep'));
  writeFileSync(join(from, 'deep', 'file'), CONTENT, { flush: true });
  writeFileSync(join(from, 'other'), 'as it was', { flush: true });
  const told = toldTree(join(from, 'deep'));
  await engine.unmount('db');
  await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
  return { engine, told };
}

interface Moving {
  engine: Engine;
  told: ReturnType<typeof toldTree>;
}

const scrubOf = ({ status }: Move): string => status?.incoming?.scrub?.state ?? '';

/** Throws the first time: as good as dead in the middle. */
function once(point: string): () => void {
  let times = 0;
  return () => {
    times += 1;
    if (times === 1) throw new FlockError('Unavailable', `the test ends it at ${point}`);
  };
}

/** What node-1 still has of the copy. */
const kept = (engine: Engine): string[] => readdirSync(join(engine.pool('node-1'), 'retired'));

test(
  'a file of a directory that turned on the disk after the commit is pulled again, and the source is kept until it is',
  { skip },
  async (t) => {
    const seen: string[][] = [];
    const end = once('tree.scrub.repaired');
    const { engine, told } = await moving(
      t,
      { pool: { type: 'directory' } },
      {
        'activate:labelled': (of) => rot(of, 'node-2'),
        'tree.scrub.repaired': (of) => {
          seen.push(kept(of));
          end();
        },
      },
    );
    const { status } = await engine.until(Moves, 'db-1', (move) => ['Passed', 'Repaired', 'Failed'].includes(scrubOf(move)));
    const { state = '', message = '' } = status?.incoming?.scrub ?? {};
    assert.match(`${state}: ${message}`, /^Repaired: .* 1 repaired, 0 overwritten/u);
    assert.deepEqual(
      seen.map(({ length }) => length),
      [1],
    );
    await engine.untilTold('db-1', ({ type, reason }) => type === 'Warning' && reason === 'ScrubRepaired');
    await engine.untilPhase('db-1', 'Done');
    assert.deepEqual(kept(engine), []);
    const to = await engine.mount('db');
    assert.deepEqual(toldTree(join(to, 'deep')), told);
    await engine.endsClean();
  },
);

test('where source and target of a directory are both wrong nothing is written, and both are kept for a person', { skip }, async (t) => {
  const { engine } = await moving(
    t,
    { pool: { type: 'directory' } },
    {
      'activate:labelled': (of) => {
        rot(of, 'node-2');
        const [copy = ''] = kept(of);
        writeFileSync(join(of.pool('node-1'), 'retired', copy, 'deep', 'file'), CONTENT.toUpperCase());
      },
    },
  );
  const failed = await engine.untilBlocked('db-1', 'ScrubFailed');
  assert.equal(scrubOf(failed), 'Failed');
  assert.match(failed.status?.obstacle?.message ?? '', /Both are kept/u);
  assert.equal(kept(engine).length, 1);
  assert.equal(readFileSync(join(await engine.mount('db'), 'other'), 'utf8'), 'as it was');
  await engine.unmount('db');
  await engine.client.delete(Moves, 'db-1');
  await engine.untilGone(Moves, 'db-1');
  await engine.endsClean();
});

test('blocks that turned on the disk after the commit are pulled again, also when that ended in the middle', { skip }, async (t) => {
  const { engine, told } = await moving(
    t,
    {},
    {
      'activate:labelled': (of) => rot(of, 'node-2'),
      'transfer.scrub.repaired': once('transfer.scrub.repaired'),
    },
  );
  await engine.untilPhase('db-1', 'Done');
  assert.ok(existsSync(engine.pool('node-1')));
  const to = await engine.mount('db');
  assert.deepEqual(toldTree(join(to, 'deep')), told);
  await engine.endsClean();
});
