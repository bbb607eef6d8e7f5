// `flockctl move cancel`: asks a move to end before its commit.
import type { Command } from 'commander';
import { hasEnded, isCommitted, phaseOf } from '../../decide/observed.ts';
import { FlockError } from '../../model/errors.ts';
import { Moves } from '../../model/move.ts';
import { moveArgument } from '../arguments.ts';
import { line, type Context } from '../context.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { moveNamed } from '../records.ts';

export function moveCancel(context: Context): Command {
  return asking('cancel', {
    what: 'end a move before its commit; the volume stays where it is',
    examples: ['flockctl move cancel db-x7k2m', 'flockctl move cancel db'],
  })
    .argument('<name>', 'name of the move, or of its volume', moveArgument)
    .action((name: string, options: Common) => cancel(context, name, options));
}

async function cancel(context: Context, given: string, options: Common): Promise<void> {
  const client = await clientFor(context, options);
  const move = await moveNamed(client, given);
  const { name, uid } = move.metadata;
  if (isCommitted(move))
    throw new FlockError(
      'Conflict',
      `move ${name} is committed (${phaseOf(move)}): the volume is on node ${move.spec.target}; to bring it back, move it: flockctl move ${move.spec.volume} --to ${move.status?.source?.node ?? 'NODE'}`,
    );
  if (hasEnded(move)) throw new FlockError('Conflict', `move ${name} has ended already: ${phaseOf(move)}`);
  await client.patch(Moves, name, { metadata: { uid }, spec: { cancel: true } });
  line(context.out, `move ${name} is being cancelled; flockctl move show ${name} tells when it has ended`);
}
