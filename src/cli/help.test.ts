// Every command has help with an example that it would accept.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { flockctl, records } from '../testing/cli.ts';

async function helpOf(words: string[]): Promise<string> {
  const ran = await flockctl([...words, '--help'], { client: records() });
  assert.equal(ran.code, 0, ran.err);
  return ran.out;
}

const commandsIn = (help: string): string[] =>
  [...(/^Commands:\n(?<list>(?: {2}.*\n)*)/mu.exec(help)?.groups?.['list'] ?? '').matchAll(/^ {2}([a-z]\S*)/gmu)].flatMap(([, name]) =>
    name === undefined || name === 'help' ? [] : [name],
  );

/** Every command without commands of its own. */
async function leaves(words: string[]): Promise<string[][]> {
  const own = commandsIn(await helpOf(words));
  if (own.length === 0) return [words];
  const below = await Promise.all(own.map((name) => leaves([...words, name])));
  return below.flat();
}

test('the help of every command shows an example of it', async () => {
  const all = await leaves([]);
  assert.ok(all.length > 10);
  for (const words of all) {
    const help = await helpOf(words);
    const spoken = words.join(' ') === 'move start' ? 'move' : words.join(' ');
    assert.match(help, new RegExp(`Examples:\\n( {2}\\$ .*\\n)* {2}\\$ flockctl ${spoken}`, 'u'), help);
  }
});

test('help fits into 80 columns, and shows a default as it is typed', async () => {
  for (const words of [...(await leaves([])), [], ['move'], ['volume'], ['node'], ['server']]) {
    const { out } = await flockctl([...words, '--help'], { client: records(), columns: 80 });
    for (const line of out.split('\n')) assert.ok(line.length <= 80, `flockctl ${words.join(' ')} --help: ${line}`);
    assert.doesNotMatch(out, /default:\s+\{/u, out);
  }
});

test('--version is the version', async () => {
  assert.deepEqual(await flockctl(['--version'], { client: records() }), await flockctl(['version'], { client: records() }));
});

test('the exit codes are in the help', async () => {
  assert.match(await helpOf([]), /Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found,\n4 refused/u);
});
