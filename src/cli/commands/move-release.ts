// `flockctl move release`: the old copy of a move is kept no longer than its comparison with the new one takes.
import type { Command } from 'commander';
import { copiesOf, phaseOf } from '../../decide/observed.ts';
import type { Client } from '../../api/client.ts';
import { FlockError } from '../../model/errors.ts';
import type { Stored } from '../../model/meta.ts';
import { Moves, type Incoming, type Move } from '../../model/move.ts';
import { moveArgument } from '../arguments.ts';
import { line, type Context } from '../context.ts';
import { bytesOf } from '../format.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { moveNamed, movesOf, volumeNamed } from '../records.ts';

export function moveRelease(context: Context): Command {
  return asking('release', {
    what: 'let the old copy of a move go now, and not when its time is over; first it is compared with the new one all the same',
    examples: ['flockctl move release db-x7k2m', 'flockctl move release db'],
  })
    .argument('<name>', 'name of the move, or of its volume', moveArgument)
    .action((name: string, options: Common) => release(context, name, options));
}

async function release(context: Context, given: string, options: Common): Promise<void> {
  const client = await clientFor(context, options);
  const move = await keepingMove(client, given);
  refuse(move);
  const { name, uid } = move.metadata;
  await client.patch(Moves, name, { metadata: { uid }, spec: { retainSource: '0s' } });
  const { copy = '', node } = move.status?.source ?? {};
  const { size } = copiesOf(await volumeNamed(client, move.spec.volume))[copy] ?? {};
  const what = `the old copy of volume ${move.spec.volume} on node ${node} (${bytesOf(size)})`;
  line(context.out, `${what} is let go ${isCompared(move) ? 'now' : 'once it was compared with the new one'}: flockctl move show ${name}`);
}

const scrubOf = ({ status }: Move): Incoming['scrub'] => status?.incoming?.scrub;
const isCompared = (move: Move): boolean => !['Running', undefined].includes(scrubOf(move)?.state);

/** What keeps nothing, and what is kept because the two differ. */
function refuse(move: Stored<Move>): void {
  const { name } = move.metadata;
  if (phaseOf(move) !== 'Retaining')
    throw new FlockError('Conflict', `move ${name} keeps no old copy (${phaseOf(move)}); flockctl move list shows which are Retaining`);
  const scrub = scrubOf(move);
  if (scrub?.state !== 'Failed') return;
  throw new FlockError(
    'Conflict',
    `the old copy of move ${name} is not let go: its comparison with the new one failed (${scrub.message ?? 'nothing was said'}). Look at both; kubectl delete move ${name} then accepts the new one`,
  );
}

/** Of a volume the move that keeps something; another may be under way meanwhile. */
async function keepingMove(client: Client, name: string): Promise<Stored<Move>> {
  const move = await moveNamed(client, name);
  if (move.metadata.name === name) return move;
  return (await movesOf(client, name)).findLast((each) => phaseOf(each) === 'Retaining') ?? move;
}
