// What a peer that is none of ours could say: nothing of it reaches outside the tree, hangs, or takes more memory than a record may have.
import assert from 'node:assert/strict';
import { mkdirSync, openSync, readdirSync, closeSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { isReason } from '../../model/errors.ts';
import { temporaryFolder } from '../../testing/folders.ts';
import { hashing } from '../hashing.ts';
import type { SourceLink } from '../source-link.ts';
import { Applying } from './applying.ts';
import { BytesReader, BytesWriter } from './bytes.ts';
import { BARE, EntryReader, EntryWriter, type Entry } from './entry.ts';
import { ManifestReader, ManifestWriter } from './manifest-file.ts';
import { decodeFetch } from './messages.ts';
import { StreamReader, StreamWriter, type TreeRecord } from './stream.ts';
import { SumsWriter } from './sums.ts';

const corrupt = (error: unknown): boolean => isReason(error, 'Corrupt');
const plain = { ...BARE, mode: 0o644 };
const directory = (path: string): Entry => ({ ...plain, path, type: 'dir', mode: 0o755 });

function sumsOf(content: string): Buffer {
  const sums = new SumsWriter();
  sums.put(hashing.digest(Buffer.from(content)));
  return sums.bytes();
}

const file = (path: string, content = 'evil'): Entry => ({ ...plain, path, type: 'file', size: content.length, sums: sumsOf(content) });

test('any bytes at all give records or Corrupt, however they are cut', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400 }), fc.integer({ min: 1, max: 50 }), (noise, cut) => {
      const reader = new StreamReader();
      try {
        for (let at = 0; at < noise.length; at += cut) {
          reader.push(Buffer.from(noise.subarray(at, at + cut)));
          while (reader.next());
        }
      } catch (error) {
        assert.ok(corrupt(error), String(error));
      }
    }),
    { numRuns: 3000 },
  );
});

test('a list with a byte changed gives records, or Corrupt; never another error', () => {
  const writer = new StreamWriter();
  writer.entry(directory(''), false);
  writer.entry(file('a'), true);
  writer.leaf(0, Buffer.from('evil'));
  writer.entry({ ...plain, path: 'b', type: 'link', target: '/etc', attributes: [['user.x', Buffer.from('y')]] }, false);
  writer.end({ digest: '0'.repeat(64), entries: 3, bytes: 4 });
  const whole = writer.take(1 << 20);
  const bend = (at: number, bit: number): void => {
    const bent = Buffer.from(whole);
    bent[at] = (bent[at] as number) ^ bit;
    const reader = new StreamReader();
    try {
      reader.push(bent);
      while (reader.next());
    } catch (error) {
      assert.ok(corrupt(error), `byte ${at}: ${String(error)}`);
    }
  };
  for (let at = 0; at < whole.length; at += 1) for (const bit of [1, 0x80]) bend(at, bit);
});

test('a request for parts of a file that is garbled is Corrupt', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (noise) => {
      try {
        decodeFetch(Buffer.from(noise));
      } catch (error) {
        assert.ok(corrupt(error), String(error));
      }
    }),
    { numRuns: 3000 },
  );
});

for (const path of ['..', '../x', 'a/b', '/etc/passwd', 'a\0..', 'a\0\0b', '.', 'a\0.', `${'n'.repeat(256)}`, '\0', 'a\0'])
  test(`a path such as ${JSON.stringify(path).slice(0, 40)} is Corrupt when it is read`, () => {
    const out = new BytesWriter();
    new EntryWriter(out).put(directory(path));
    assert.throws(() => new EntryReader().take(new BytesReader(Buffer.from(out.taken()))), corrupt);
  });

/** Gives records to a tree as a link would; what was written outside of it. */
async function told(t: Parameters<typeof temporaryFolder>[0], records: TreeRecord[]): Promise<{ error: unknown; outside: string[] }> {
  const folder = await temporaryFolder(t);
  const [root, outside] = [join(folder, 'tree'), join(folder, 'outside')];
  mkdirSync(root);
  mkdirSync(outside);
  writeFileSync(join(outside, 'kept'), 'x');
  const fd = openSync(root, 'r');
  const there = await ManifestReader.open(join(folder, 'nothing'));
  const made = await ManifestWriter.create(join(folder, 'made'));
  const link = {} as SourceLink;
  const applying = new Applying({ root: fd, there, made, link, settled: true, crash: () => {}, onContent: () => {} });
  try {
    for (const record of records) await applying.take(record);
    return { error: null, outside: readdirSync(outside) };
  } catch (error) {
    return { error, outside: readdirSync(outside) };
  } finally {
    applying.close();
    await made.close();
    closeSync(fd);
  }
}

const entry = (of: Entry, content = false): TreeRecord => ({ record: 'entry', entry: of, content });
const leaf = (text: string, offset = 0): TreeRecord => ({ record: 'leaf', offset, bytes: Buffer.from(text) });

for (const [title, records] of [
  [
    'below a link',
    [entry(directory('')), entry({ ...plain, path: 'l', type: 'link', target: '../outside' }), entry(file('l\0x'), true), leaf('evil')],
  ],
  ['below nothing', [entry(directory('')), entry(file('a\0b'), true)]],
  ['without a root', [entry(file('a'), true)]],
  ['below a file', [entry(directory('')), entry(file('f'), true), leaf('evil'), entry(file('f\0x'), true)]],
  ['whose content is another than its hashes', [entry(directory('')), entry(file('f'), true), leaf('lies'), entry(directory('g'))]],
  ['beyond the end of its file', [entry(directory('')), entry(file('f'), true), leaf('evil', 65536)]],
  ['another name of a directory', [entry(directory('')), entry(directory('d')), entry({ ...plain, path: 'e', type: 'hard', target: 'd' })]],
  ['another name of what is later', [entry(directory('')), entry({ ...plain, path: 'e', type: 'hard', target: 'z' })]],
  ['as its root a file', [entry(file(''), true)]],
] as const)
  test(`a list that puts something ${title} is refused, and nothing is outside`, async (t) => {
    const { error, outside } = await told(t, [...records]);
    assert.ok(isReason(error, 'Corrupt', 'NotFound'), String(error));
    assert.deepEqual(outside, ['kept']);
  });
