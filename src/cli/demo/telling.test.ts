// How the demo speaks: claims, the table, warnings.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../model/clock.ts';
import { GROUP_VERSION } from '../../model/meta.ts';
import { Moves, type MoveStatus } from '../../model/move.ts';
import type { Context } from '../context.ts';
import { warningsIn } from './logs.ts';
import { byHand, summary } from './summary.ts';
import { Telling } from './telling.ts';

function onScreen(terminal: boolean, env: Context['env'] = {}): { telling: Telling; written: () => string } {
  let text = '';
  const screen = { write: (more: string) => void (text += more), isTerminal: terminal, columns: 80 };
  const interrupted = new AbortController().signal;
  const connect = (): never => assert.fail('the demo asks its own server');
  return {
    telling: new Telling({ out: screen, err: screen, env, clock: systemClock, interrupted, connect, leaveFolder: () => undefined }),
    written: () => text,
  };
}

test('each claim is a line with its verdict, a failed one with the reason, and both are counted', () => {
  const { telling, written } = onScreen(false);
  telling.claim('the sky is blue', true, 'never told');
  telling.claim('the moon is cheese', false, 'it is stone');
  assert.equal(written(), 'ok      the sky is blue\nFAILED  the moon is cheese: it is stone\n');
  assert.deepEqual([telling.held, telling.failed], [1, 1]);
});

for (const [name, terminal, env, colours] of [
  ['a terminal', true, {}, true],
  ['a terminal with NO_COLOR', true, { NO_COLOR: '1' }, false],
  ['a pipe', false, {}, false],
] as const)
  test(`on ${name} there are ${colours ? '' : 'no '}colours`, () => {
    const { telling, written } = onScreen(terminal, env);
    telling.claim('a', true);
    telling.step('b');
    telling.heading('c');
    assert.equal(written().includes('\u001B[3') || written().includes('\u001B[1m'), colours);
  });

test('text from elsewhere moves no cursor', () => {
  const { telling, written } = onScreen(false);
  telling.claim('it refuses: \u001B[2J', true);
  telling.step('\r\n');
  assert.equal(written().includes('\u001B') || written().includes('\r'), false);
  assert.equal(written().split('\n').length, 3);
});

const MiB = 1024 * 1024;
const moved: MoveStatus = {
  pauseMs: 640,
  incoming: {
    bytesSent: String(270 * MiB),
    allocated: String(260 * MiB),
    bytesResumed: String(96 * MiB),
    rounds: [String(260 * MiB), String(10 * MiB)],
  },
};
const table = (status: MoveStatus, pauseMs: number | null): string =>
  summary(
    { apiVersion: GROUP_VERSION, kind: Moves.kind, metadata: { name: 'demo' }, spec: { volume: 'db', target: 'node-2' }, status },
    { size: String(768 * MiB), whileCopying: 30, pauseMs, proof: { acknowledged: 50, found: 48, lost: [7], changed: [8] } },
  ).join('\n');

test('the table sets bytes sent against bytes allocated, and tells rounds, what was resumed, the pause and the commits', () => {
  const text = table(moved, 1500);
  assert.match(text, /^bytes sent +270 MiB, of 260 MiB allocated in a volume of 768 MiB$/mu);
  assert.match(text, /^rounds +2: 260 MiB, 10\.0 MiB$/mu);
  assert.match(text, /^resumed +96\.0 MiB /mu);
  assert.match(text, /^pause +1\.50 s .*the move's part 0\.64 s$/mu);
  assert.match(text, /^commits +50 acknowledged, 48 found, 2 lost; 30 while it was copied$/mu);
});

test('what nobody has told is a dash in the table', () => {
  assert.match(table({}, null), /^pause +- between .* part -$/mu);
});

for (const mount of ['/mnt/db', null])
  test(`how to try it by hand ${mount ? 'mounts' : 'mounts nothing where nothing can be mounted'}`, () => {
    const commands = byHand({ create: '--size 2Gi --node node-1', mount });
    assert.ok(commands.every((command) => /^(bin\/)?flockctl /u.test(command)));
    assert.match(commands[0] ?? '', /up --nodes 3$/u);
    assert.match(commands[1] ?? '', /volume create db --size 2Gi --node node-1$/u);
    assert.match(commands.at(-1) ?? '', /down --delete$/u);
    assert.equal(
      commands.some((command) => command.includes('mount')),
      mount !== null,
    );
  });

test('of the logs only warnings are told, oldest first, and what is no entry at all', () => {
  const entry = (level: number, time: string, more: object = {}): string =>
    JSON.stringify({ level, time, component: 'agent', msg: `at ${time}`, ...more });
  const lines = [
    entry(50, '2026-01-02', { error: 'disk on fire' }),
    entry(30, '2026-01-01'),
    entry(40, '2026-01-01'),
    '',
    'Segmentation fault',
  ];
  assert.deepEqual(warningsIn(lines), [
    'Segmentation fault',
    '2026-01-01 agent: at 2026-01-01',
    '2026-01-02 agent: at 2026-01-02: disk on fire',
  ]);
});
