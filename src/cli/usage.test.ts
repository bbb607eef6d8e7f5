// What people type wrong: one clear error, its exit code, and nothing written.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listAll } from '../api/list-all.ts';
import { Moves } from '../model/move.ts';
import { Volumes } from '../model/volume.ts';
import { flockctl, putMove, putNode, putVolume, records } from '../testing/cli.ts';

const CREATE = ['volume', 'create'];
const WELL = ['--size', '1Gi'];

interface Wrong {
  what: string;
  words: string[];
  code: number;
  says: RegExp;
}

const WRONG: Wrong[] = [
  { what: 'size 0', words: [...CREATE, 'x', '--size', '0'], code: 2, says: /size "0" is not valid: it must be more than 0/u },
  { what: 'a negative size', words: [...CREATE, 'x', '--size=-1'], code: 2, says: /size "-1" is not valid/u },
  { what: 'a negative size after a space', words: [...CREATE, 'x', '--size', '-1'], code: 2, says: /size "-1" is not valid/u },
  { what: 'a fraction of a byte', words: [...CREATE, 'x', '--size', '100m'], code: 2, says: /size "100m" is not valid/u },
  { what: 'a size without a number', words: [...CREATE, 'x', '--size', 'Gi'], code: 2, says: /size "Gi" is not valid/u },
  { what: 'size 16Ei', words: [...CREATE, 'x', '--size', '16Ei'], code: 2, says: /size "16Ei" is above the largest possible/u },
  {
    what: 'size 10Pi, for which no node has room',
    words: [...CREATE, 'x', '--size', '10Pi'],
    code: 4,
    says: /no node can take it.*10\.0 PiB are needed/u,
  },
  {
    what: 'size 2^63-1, for which no node has room',
    words: [...CREATE, 'x', '--size', '9223372036854775807'],
    code: 4,
    says: /8\.00 EiB are needed/u,
  },
  { what: 'no size', words: [...CREATE, 'x'], code: 2, says: /required option '--size <size>'/u },
  { what: 'a name with ..', words: [...CREATE, '../x', ...WELL], code: 2, says: /name "\.\.\/x" is not valid/u },
  { what: 'a name that is ..', words: [...CREATE, '..', ...WELL], code: 2, says: /name "\.\." is not valid/u },
  { what: 'a name with /', words: [...CREATE, 'a/b', ...WELL], code: 2, says: /name "a\/b" is not valid/u },
  { what: 'a name with a newline', words: [...CREATE, 'a\nb', ...WELL], code: 2, says: /name "a\\nb" is not valid/u },
  { what: 'a name that ends with a newline', words: [...CREATE, 'ab\n', ...WELL], code: 2, says: /name "ab\\n" is not valid/u },
  { what: 'a name of 300 characters', words: [...CREATE, 'a'.repeat(300), ...WELL], code: 2, says: /\(300 characters\) is not valid/u },
  { what: 'a name in another script', words: [...CREATE, 'данные', ...WELL], code: 2, says: /is not valid: use lower-case letters/u },
  { what: 'an empty name', words: [...CREATE, '', ...WELL], code: 2, says: /name "" is not valid/u },
  { what: 'a name in capitals', words: [...CREATE, 'Db', ...WELL], code: 2, says: /name "Db" is not valid/u },
  { what: 'a name that is there', words: [...CREATE, 'db', ...WELL], code: 4, says: /there is a volume "db" already/u },
  { what: 'an unknown pool', words: [...CREATE, 'x', ...WELL, '--pool', 'fast'], code: 3, says: /no pool "fast"; the pools are: local/u },
  { what: 'a pool name that is none', words: [...CREATE, 'x', ...WELL, '--pool', 'a/b'], code: 2, says: /pool name "a\/b" is not valid/u },
  {
    what: 'an unknown node',
    words: [...CREATE, 'x', ...WELL, '--node', 'node-9'],
    code: 3,
    says: /no node "node-9"; the nodes are: node-1, node-2/u,
  },
  {
    what: 'an unknown filesystem',
    words: [...CREATE, 'x', ...WELL, '--filesystem', 'ntfs'],
    code: 2,
    says: /Allowed choices are ext4, xfs, btrfs/u,
  },
  {
    what: 'a filesystem that no node has',
    words: [...CREATE, 'x', ...WELL, '--filesystem', 'btrfs'],
    code: 4,
    says: /cannot mount btrfs/u,
  },
  {
    what: 'a filesystem on a block volume',
    words: [...CREATE, 'x', ...WELL, '--block', '--filesystem', 'xfs'],
    code: 2,
    says: /cannot be used with/u,
  },
  { what: 'a duration without a unit', words: [...CREATE, 'x', ...WELL, '--pause', '2'], code: 2, says: /duration "2" is not valid/u },
  { what: 'a negative rate', words: ['move', 'db', '--to', 'node-2', '--limit=-5M'], code: 2, says: /"-5M" is not valid/u },
  {
    what: 'a volume that is not there',
    words: ['move', 'nope', '--to', 'node-2'],
    code: 3,
    says: /no volume "nope"; flockctl volume list/u,
  },
  { what: 'a target that is not there', words: ['move', 'db', '--to', 'node-9'], code: 3, says: /no node "node-9"; flockctl node list/u },
  { what: 'a target that is the source', words: ['move', 'db', '--to', 'node-1'], code: 4, says: /is on node node-1 already/u },
  { what: 'no target', words: ['move', 'db'], code: 2, says: /required option '--to <node>'/u },
  { what: 'a stall policy that is none', words: ['move', 'db', '--to', 'node-2', '--stall', 'hope'], code: 2, says: /Allowed choices/u },
  { what: 'a move that is not there', words: ['move', 'cancel', 'nope'], code: 3, says: /no move "nope"/u },
  { what: 'to shrink', words: ['volume', 'grow', 'db', '1Gi'], code: 2, says: /has 2Gi and cannot shrink to 1Gi/u },
  { what: 'to grow what is not there', words: ['volume', 'grow', 'nope', '4Gi'], code: 3, says: /no volume "nope"/u },
  { what: 'to delete what is not there', words: ['volume', 'delete', 'nope'], code: 3, says: /no volume "nope"/u },
  { what: 'to show what is not there', words: ['node', 'show', 'node-9'], code: 3, says: /no node "node-9"/u },
  {
    what: 'an output format that is none',
    words: ['volume', 'list', '-o', 'xml'],
    code: 2,
    says: /Allowed choices are table, json, yaml, name/u,
  },
  { what: 'an unknown command', words: ['volumes'], code: 2, says: /unknown command 'volumes'.*\n.*Did you mean volume/u },
  {
    what: 'an unknown option',
    words: ['volume', 'list', '--fast'],
    code: 2,
    says: /unknown option '--fast'\n\(flockctl volume list --help/u,
  },
  { what: 'too many words', words: ['volume', 'list', 'db'], code: 2, says: /too many arguments/u },
];

for (const { what, words, code, says } of WRONG)
  test(`${what}: exit code ${code}, one error, nothing written`, async () => {
    const client = records();
    await putNode(client, 'node-1');
    await putNode(client, 'node-2');
    await putVolume(client, 'db');
    const before = (await listAll(client, Volumes)).resourceVersion;
    const ran = await flockctl(words, { client });
    assert.equal(ran.code, code, ran.err);
    assert.match(ran.err, says);
    assert.equal(ran.out, '');
    assert.equal((await listAll(client, Volumes)).resourceVersion, before);
    assert.deepEqual((await listAll(client, Moves)).items, []);
  });

for (const [what, words, code, says] of [
  ['with a filesystem of their own', ['--filesystem', 'xfs'], 2, /volumes of pool files are directories.*leave --filesystem out/u],
  ['as raw blocks', ['--block'], 4, /pool files of each of node-1, node-2 holds directories/u],
] as const)
  test(`directories ${what} are refused: exit code ${code}`, async () => {
    const client = records();
    for (const node of ['node-1', 'node-2'])
      await putNode(client, node, { pools: { files: { type: 'directory', free: '1000000000', healthy: true } } });
    const ran = await flockctl([...CREATE, 'x', '--size', '1Mi', '--pool', 'files', ...words], { client });
    assert.equal(ran.code, code, ran.err);
    assert.match(ran.err, says);
    assert.deepEqual((await listAll(client, Volumes)).items, []);
  });

test('a size that fits nowhere is written down when nobody waits for it', async () => {
  const client = records();
  await putNode(client, 'node-1');
  const ran = await flockctl([...CREATE, 'big', '--size', '10Pi', '--no-wait'], { client });
  assert.equal(ran.code, 0, ran.err);
  assert.equal((await client.get(Volumes, 'big')).spec.size, '10Pi');
});

for (const [given, words] of [
  ['volume.flock.dev/db', ['volume', 'show', 'volume.flock.dev/db']],
  ['volumes/db', ['volume', 'show', 'volumes/db']],
  ['storagenode.flock.dev/node-1', ['node', 'show', 'storagenode.flock.dev/node-1']],
  ['a move by its volume', ['move', 'show', 'volume.flock.dev/db']],
  ['a move', ['move', 'show', 'move.flock.dev/db-1']],
] as const)
  test(`a name is taken back as -o name writes it: ${given}`, async () => {
    const client = records();
    await putNode(client, 'node-1');
    await putVolume(client, 'db');
    await putMove(client, 'db-1', { volume: 'db', target: 'node-1' }, {});
    const ran = await flockctl([...words, '-o', 'name'], { client });
    assert.equal(ran.code, 0, ran.err);
    assert.match(ran.out, /^(volume\.flock\.dev\/db|storagenode\.flock\.dev\/node-1|move\.flock\.dev\/db-1)\n$/u);
  });

test('the name of another kind is none', async () => {
  const ran = await flockctl(['volume', 'show', 'move.flock.dev/db'], { client: records() });
  assert.equal(ran.code, 2);
  assert.match(ran.err, /name "move\.flock\.dev\/db" is not valid/u);
});

test('an escape sequence in a name is shown, not obeyed', async () => {
  const ran = await flockctl(['volume', 'show', '\u001B[31mred'], { client: records() });
  assert.equal(ran.code, 2);
  assert.ok(!ran.err.includes('\u001B'));
});

for (const words of [[], ['volume'], ['node'], ['move']])
  test(`without a command the help is shown: flockctl ${words.join(' ')}`, async () => {
    const ran = await flockctl(words, { client: records() });
    assert.equal(ran.code, 2);
    assert.match(ran.err, /Usage: flockctl/u);
  });
