// What `npm test` shows: a line a file, every failure in full, every skip with its reason, and last the counts.
// A run as root that may skip nothing (CI or FLOCK_NO_SKIP) fails when something was skipped. Knows nothing of the tests themselves.
import { relative } from 'node:path';
import { inspect } from 'node:util';
import type { TestEvent } from 'node:test/reporters';

interface Counts {
  passed: number;
  failed: number;
  skipped: string[];
}

type Ended = Extract<TestEvent, { type: 'test:pass' | 'test:fail' }>['data'];

const place = (data: { file?: string; line?: number }): string =>
  data.file === undefined ? '' : ` (${relative(process.cwd(), data.file)}${data.line === undefined ? '' : `:${data.line}`})`;

/** A file or a suite that only holds other tests is no test itself; it counts when it fails for a reason of its own. */
const isContainer = (data: Ended): boolean => data.details.type === 'suite' || data.file === undefined || data.name === data.file;

function failure(data: Extract<TestEvent, { type: 'test:fail' }>['data']): string {
  const error = data.details.error;
  const cause: unknown = error.cause ?? error;
  return `FAILED ${data.name}${place(data)}\n  ${inspect(cause).replaceAll('\n', '\n  ')}\n`;
}

/** A parent fails because its children did: they were told already. */
const failedByChildren = (data: Extract<TestEvent, { type: 'test:fail' }>['data']): boolean =>
  'failureType' in data.details.error && data.details.error.failureType === 'subtestsFailed';

function passed(data: Extract<TestEvent, { type: 'test:pass' }>['data'], counts: Counts): string {
  if (data.skip !== undefined) {
    const reason = typeof data.skip === 'string' && data.skip !== '' ? data.skip : 'no reason given';
    counts.skipped.push(`${data.name}: ${reason}`);
    return `skipped ${data.name}: ${reason}\n`;
  }
  if (!isContainer(data)) counts.passed += 1;
  return '';
}

function failed(data: Extract<TestEvent, { type: 'test:fail' }>['data'], counts: Counts): string {
  if (failedByChildren(data)) return '';
  counts.failed += 1;
  return failure(data);
}

function fileEnd(data: Extract<TestEvent, { type: 'test:summary' }>['data']): string {
  if (data.file === undefined) return '';
  const seconds = (data.duration_ms / 1000).toFixed(1);
  return `${data.success ? 'ok    ' : 'FAILED'} ${relative(process.cwd(), data.file)} ${data.counts.tests} tests, ${seconds} s\n`;
}

function shown(event: TestEvent, counts: Counts): string {
  switch (event.type) {
    case 'test:pass':
      return passed(event.data, counts);
    case 'test:fail':
      return failed(event.data, counts);
    case 'test:summary':
      return fileEnd(event.data);
    case 'test:stderr':
    case 'test:stdout':
      return event.data.message;
    default:
      return '';
  }
}

function judgement(counts: Counts): string {
  const mayNotSkip = process.getuid?.() === 0 && (process.env['CI'] === 'true' || process.env['FLOCK_NO_SKIP'] === '1');
  const lines: string[] = [];
  if (counts.passed + counts.failed === 0) lines.push('no test was run');
  if (mayNotSkip && counts.skipped.length > 0)
    lines.push('as root nothing may be skipped here:', ...counts.skipped.map((one) => `  ${one}`));
  if (lines.length > 0) {
    process.exitCode = 1;
    counts.failed += 1;
  }
  return [...lines, `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped.length} skipped`, ''].join('\n');
}

export default async function* report(source: AsyncIterable<TestEvent>): AsyncGenerator<string, void> {
  const counts: Counts = { passed: 0, failed: 0, skipped: [] };
  for await (const event of source) yield shown(event, counts);
  yield judgement(counts);
}
