// The messages that the driver speaks have the names, numbers and types of the specifications' own descriptors. What is compared is what
// src/csi/proto has: the specifications may have more. Needs Go's module proxy.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { temporaryFolder } from '../src/testing/folders.ts';

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, '..');

interface Field {
  name: string;
  number: number;
  label: string;
  type: string;
  typeName?: string;
  oneofIndex?: number;
}

interface Enumeration {
  name: string;
  value: { name: string; number?: number }[];
}

interface Message {
  name: string;
  field?: Field[];
  nestedType?: Message[];
  enumType?: Enumeration[];
  oneofDecl?: { name: string }[];
}

interface ProtoFile {
  name: string;
  package: string;
  messageType?: Message[];
  enumType?: Enumeration[];
  service?: { name: string; method: { name: string; inputType: string; outputType: string }[] }[];
}

/** The file's descriptor as lines, one for each thing that is on the wire. */
async function linesOf(folder: string, name: string): Promise<Set<string>> {
  const buf = join(ROOT, 'node_modules/.bin/buf');
  const { stdout } = await run(buf, ['build', folder, '-o', '-#format=json'], { maxBuffer: 2 ** 26 });
  const { file } = JSON.parse(stdout) as { file: ProtoFile[] };
  const found = file.find((one) => one.name === name);
  assert.ok(found, `${folder} has no ${name}`);
  const at = `.${found.package}`;
  return new Set([
    ...(found.messageType ?? []).flatMap((message) => ofMessage(message, at)),
    ...(found.enumType ?? []).flatMap((one) => ofEnumeration(one, at)),
    ...(found.service ?? []).flatMap((service) =>
      service.method.map(({ name: method, inputType, outputType }) => `rpc ${at}.${service.name}/${method} ${inputType} ${outputType}`),
    ),
  ]);
}

function ofMessage({ name, field = [], nestedType = [], enumType = [], oneofDecl = [] }: Message, above: string): string[] {
  const at = `${above}.${name}`;
  return [
    `message ${at}`,
    ...field.map((one) => {
      const oneof = one.oneofIndex === undefined ? '' : ` of ${oneofDecl[one.oneofIndex]?.name}`;
      return `field ${at} ${one.number} ${one.name} ${one.label} ${one.type} ${one.typeName ?? ''}${oneof}`;
    }),
    ...nestedType.flatMap((one) => ofMessage(one, at)),
    ...enumType.flatMap((one) => ofEnumeration(one, at)),
  ];
}

const ofEnumeration = ({ name, value }: Enumeration, above: string): string[] =>
  value.map((one) => `value ${above}.${name} ${one.number ?? 0} ${one.name}`);

interface Specification {
  ours: string;
  module: string;
  /** In the module. */
  path: string;
}

const SPECIFICATIONS: Specification[] = [
  { ours: 'csi.proto', module: 'github.com/container-storage-interface/spec@v1.12.0', path: 'csi.proto' },
  { ours: 'pluginregistration.proto', module: 'k8s.io/kubelet@v0.35.4', path: 'pkg/apis/pluginregistration/v1/api.proto' },
];

for (const { ours, module, path } of SPECIFICATIONS)
  test(`${ours} is what ${module} says`, async (t) => {
    const folder = await temporaryFolder(t);
    const { stdout } = await run('go', ['mod', 'download', '-json', module], { cwd: folder });
    const { Dir } = JSON.parse(stdout) as { Dir: string };
    await copyFile(join(Dir, path), join(folder, basename(path)));
    const theirs = await linesOf(folder, basename(path));
    const mine = await linesOf(join(ROOT, 'src/csi/proto'), ours);
    assert.ok(mine.size > 5);
    assert.deepEqual(
      [...mine].filter((line) => !theirs.has(line)),
      [],
    );
    // Of a message that is taken, all fields are: a field that is not known is a wish that is not heard.
    const messages = new Set([...mine].filter((line) => line.startsWith('message')).map((line) => line.split(' ')[1]));
    const left = [...theirs].filter((line) => line.startsWith('field') && messages.has(line.split(' ')[1]) && !mine.has(line));
    assert.deepEqual(left, []);
  });
