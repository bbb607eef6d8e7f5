// `flockctl doctor`: says what is wrong and the way out of it.
import type { Command } from 'commander';
import { hostAbilities } from '../../host/probe.ts';
import { FlockError, messageOf } from '../../model/errors.ts';
import { counted } from '../../model/quantity.ts';
import { chosenServer } from '../connection.ts';
import { line, type Context } from '../context.ts';
import { authorityFinding, certificateFinding, machineFindings, recordFindings } from '../doctor.ts';
import { ok, wrong, type Finding } from '../finding.ts';
import { harmless, paintFor, type Paint } from '../format.ts';
import { localFindings } from '../local/findings.ts';
import { asking, clientFor, type Common } from '../options.ts';

const COLOURS: { [S in Finding['state']]: Parameters<Paint>[0] } = { ok: 'green', note: 'yellow', wrong: 'red' };

export function doctorCommand(context: Context): Command {
  return asking('doctor', {
    what: 'look for what is wrong: this machine, the server, the nodes and their pools; each finding with the way out',
    examples: ['flockctl doctor'],
  }).action((options: Common) => doctor(context, options));
}

async function doctor(context: Context, options: Common): Promise<void> {
  const findings = [...machineFindings(await hostAbilities()), ...localFindings(context.env), ...(await serverFindings(context, options))];
  const paint = paintFor(context.out, context.env);
  for (const { state, text } of findings) line(context.out, `${paint(COLOURS[state], state.padEnd(5))} ${harmless(text)}`);
  const wrong = findings.filter(({ state }) => state === 'wrong').length;
  if (wrong > 0) throw new FlockError('Internal', `${wrong} of ${counted(findings.length, 'finding')} ${wrong === 1 ? 'is' : 'are'} wrong`);
}

async function serverFindings(context: Context, options: Common): Promise<Finding[]> {
  try {
    const { connection, by } = chosenServer(options, context.env);
    const now = context.clock.now();
    const certificate = connection.identity?.()?.certificate;
    const authority = connection.authority?.();
    return [
      ...(certificate === undefined ? [] : [certificateFinding(certificate, now)]),
      ...(authority === undefined ? [] : [authorityFinding(authority, now)]),
      ...(await asked(context, options, { server: connection.server, by })),
    ];
  } catch (error) {
    return [wrong(messageOf(error))];
  }
}

async function asked(context: Context, options: Common, { server, by }: { server: string; by: string }): Promise<Finding[]> {
  try {
    const found = await recordFindings(await clientFor(context, options), context.clock);
    return [ok(`server ${server}, named by ${by}, answers`), ...found];
  } catch (error) {
    return [wrong(`${messageOf(error)} (that server is named by ${by})`)];
  }
}
