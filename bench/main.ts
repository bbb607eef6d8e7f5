// `npm run bench -- transfer [--quick] [--size 4Gi] [--rounds 3] [--only CASE,...] [--alone] [--json FILE] [--chart FILE]`: measures moves against
// what else moves data, in one run, interleaved. `npm run bench -- directory [--files 500000] [--size 1Gi] [--json FILE]`: trees of small files, and
// one huge file. `npm run bench -- check`: whether they got worse by much. All need root.
import { parseArgs } from 'node:util';
import { writeFile } from 'node:fs/promises';
import { parseQuantity } from '../src/model/quantity.ts';
import { chart } from './chart.ts';
import { check } from './check.ts';
import { benchDirectory } from './directory.ts';
import { resultOf } from './ratios.ts';
import { say } from './say.ts';
import { table } from './table.ts';
import { benchTransfer } from './transfer.ts';

const { values, positionals } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    size: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    files: { type: 'string', default: '500000' },
    only: { type: 'string' },
    alone: { type: 'boolean', default: false },
    json: { type: 'string' },
    chart: { type: 'string' },
  },
  allowPositionals: true,
});

async function transfer(): Promise<void> {
  const size = Number(parseQuantity(values.size ?? (values.quick ? '1Gi' : '4Gi')));
  const rounds = Number(values.rounds);
  const samples = await benchTransfer({ size, rounds, alone: values.alone, only: values.only?.split(',') ?? null });
  const result = resultOf(samples, { size, rounds });
  say(table(samples));
  say(JSON.stringify(result.ratios, null, 2));
  if (values.chart !== undefined) await writeFile(values.chart, chart(samples));
  if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify(result, null, 2)}\n`);
}

async function directory(): Promise<void> {
  const samples = await benchDirectory({ files: Number(values.files), huge: Number(parseQuantity(values.size ?? '1Gi')) });
  say(table(samples));
  if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify(samples, null, 2)}\n`);
}

if (process.getuid?.() !== 0) {
  say('not measured: needs root for loop devices, mounts and network namespaces');
} else if (positionals[0] === 'transfer') {
  await transfer();
} else if (positionals[0] === 'directory') {
  await directory();
} else if (positionals[0] === 'check') {
  if (!(await check())) process.exitCode = 1;
} else {
  say('say what to measure: npm run bench -- transfer, directory or check');
  process.exitCode = 2;
}
