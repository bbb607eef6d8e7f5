// `npm run bench -- transfer [--quick] [--size 4Gi] [--rounds 3] [--only CASE,...] [--alone] [--json FILE] [--chart FILE]`: measures moves against what
// else moves data, in one run, interleaved. Needs root.
import { parseArgs } from 'node:util';
import { writeFile } from 'node:fs/promises';
import { parseQuantity } from '../src/model/quantity.ts';
import { resultOf } from './ratios.ts';
import { chart } from './chart.ts';
import { say } from './say.ts';
import { benchTransfer } from './transfer.ts';
import { table } from './table.ts';

const { values, positionals } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    size: { type: 'string' },
    rounds: { type: 'string' },
    only: { type: 'string' },
    alone: { type: 'boolean', default: false },
    json: { type: 'string' },
    chart: { type: 'string' },
  },
  allowPositionals: true,
});

if (positionals[0] !== 'transfer') throw new Error('say what to measure: npm run bench -- transfer');
if (process.getuid?.() !== 0) throw new Error('needs root: loop devices, mounts, network namespaces');
const size = Number(parseQuantity(values.size ?? (values.quick ? '1Gi' : '4Gi')));
const rounds = Number(values.rounds ?? 3);
const samples = await benchTransfer({ size, rounds, alone: values.alone, only: values.only?.split(',') ?? null });
const result = resultOf(samples, { size, rounds });
say(table(samples));
say(JSON.stringify(result.ratios, null, 2));
if (values.chart !== undefined) await writeFile(values.chart, chart(samples));
if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify(result, null, 2)}\n`);
