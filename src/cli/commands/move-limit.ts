// `flockctl move limit`: changes what a running move may use of the network.
import type { Command } from 'commander';
import { hasEnded, phaseOf } from '../../decide/observed.ts';
import { FlockError } from '../../model/errors.ts';
import { Moves } from '../../model/move.ts';
import { parseQuantity } from '../../model/quantity.ts';
import { moveArgument, rateArgument } from '../arguments.ts';
import { line, type Context } from '../context.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { moveNamed } from '../records.ts';

export function moveLimit(context: Context): Command {
  return asking('limit', {
    what: 'change the bandwidth of a move while it runs',
    examples: ['flockctl move limit db 100M', 'flockctl move limit db-x7k2m 0'],
  })
    .argument('<name>', 'name of the move, or of its volume', moveArgument)
    .argument('<rate>', 'bytes a second: 100M; 0 is no limit', rateArgument)
    .action((name: string, rate: string, options: Common) => limit(context, { name, rate, options }));
}

async function limit(context: Context, given: { name: string; rate: string; options: Common }): Promise<void> {
  const client = await clientFor(context, given.options);
  const move = await moveNamed(client, given.name);
  const { name, uid } = move.metadata;
  if (hasEnded(move)) throw new FlockError('Conflict', `move ${name} has ended already: ${phaseOf(move)}`);
  await client.patch(Moves, name, { metadata: { uid }, spec: { bandwidth: given.rate } });
  const text = parseQuantity(given.rate) === 0n ? 'has no limit now' : `is limited to ${given.rate} bytes a second now`;
  line(context.out, `move ${name} ${text}`);
}
