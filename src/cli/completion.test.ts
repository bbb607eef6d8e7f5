// What shells are told may come next; and each shell that is here takes its script.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { FlockError } from '../model/errors.ts';
import { flockctl, pool, putNode, putVolume, records } from '../testing/cli.ts';
import { temporaryFolder } from '../testing/folders.ts';
import { scriptFor, SHELLS } from './completion.ts';

const run = promisify(execFile);

const NEXT: readonly [words: string[], found: string[]][] = [
  [['vol'], ['volume']],
  [
    ['volume', 'c'],
    ['clone', 'create'],
  ],
  [
    ['volume', 'show', ''],
    ['db', 'web'],
  ],
  [['volume', 'show', 'w'], ['web']],
  [['volume', 'show', 'db', '-o', 'j'], ['json']],
  [['volume', 'show', 'db', '--w'], ['--watch']],
  [['volume', 'show', 'db', ''], []],
  [['move', 'd'], ['db']],
  [['move', 'db', '--to', 'node'], ['node-1']],
  [['move', 'db', '--to', 'node-1', '--w'], ['--wait']],
  [['volume', 'create', 'x', '--pool', ''], ['local']],
  [['explain', 'node', ''], ['node-1']],
  [['completion', 'z'], ['zsh']],
  [['comp'], ['completion']],
  [['nonsense', 'x'], []],
];

for (const [words, found] of NEXT)
  test(`after "${words.join(' ')}" may come ${found.join(', ') || 'nothing'}`, async () => {
    const client = records();
    await putNode(client, 'node-1', { pools: { local: pool() } });
    for (const name of ['db', 'web']) await putVolume(client, name);
    const ran = await flockctl(['complete', '--', ...words], { client });
    assert.deepEqual([ran.code, ran.err], [0, '']);
    assert.deepEqual(ran.out.split('\n').filter(Boolean), found);
  });

test('a server that does not answer completes no names, and says nothing', async () => {
  const connect = (): never => {
    throw new FlockError('Unavailable', 'nobody there');
  };
  assert.deepEqual(await flockctl(['complete', '--', 'volume', 'show', ''], { connect: async () => connect() }), {
    code: 0,
    out: '',
    err: '',
  });
});

test('bash asks the program with the words so far, and offers what it answers', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'flockctl'), '#!/bin/sh\nprintf "%s\\n" "$*" node-1 node-2\n');
  await chmod(join(folder, 'flockctl'), 0o755);
  const script = `${scriptFor('bash')}\nCOMP_WORDS=(flockctl move db --to no); COMP_CWORD=4; _flockctl; printf '%s|' "\${COMPREPLY[@]}"`;
  const { stdout } = await run('bash', ['-c', script], { env: { PATH: `${folder}:${process.env['PATH']}` } });
  assert.equal(stdout, 'complete -- move db --to no|node-1|node-2|');
});

test('there is a script for each shell, and for no other', async () => {
  for (const shell of SHELLS) {
    const { out, code } = await flockctl(['completion', shell], { client: records() });
    assert.equal(code, 0);
    assert.match(out, /flockctl complete --/u);
  }
  assert.equal((await flockctl(['completion', 'tcsh'], { client: records() })).code, 2);
});
