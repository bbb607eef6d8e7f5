// The log of the long-running commands, on standard output.
import { pino } from 'pino';
import type { Log } from '../api/log.ts';
import { Invalid } from '../model/errors.ts';
import type { Context } from './context.ts';

const LEVELS = ['debug', 'info', 'warn', 'error'];

/** One JSON object a line; FLOCK_LOG sets the level. */
export function logFor(context: Context, component: string): Log {
  const level = context.env['FLOCK_LOG'] || 'info';
  if (!LEVELS.includes(level)) throw new Invalid(`FLOCK_LOG=${level} is no level: use ${LEVELS.join(', ')}`);
  const write = context.log ?? ((text: string): void => context.out.write(text));
  return pino({ level, base: { component }, timestamp: pino.stdTimeFunctions.isoTime }, { write });
}
