// Where processes may die by name, where they are to, and how often they did; and where they are stunned. The list is complete: passing a point that it does not name
// is an error, so that a new one cannot go without being tried. Knows no process.
import { TRANSFER_CRASH_POINTS } from '../transfer/crash-points.ts';
import { TREE_CRASH_POINTS } from '../transfer/tree/crash-points.ts';
import type { Chance } from './chance.ts';

const steps = (...names: string[]): string[] => names.flatMap((name) => [`before:${name}`, `after:${name}`]);

const AGENT = [
  ...steps('create', 'relabel', 'reserved', 'fence', 'pull', 'activate', 'scrub', 'grow', 'remove', 'releasePoint', 'dropEntry'),
  ...steps('takeSnapshot', 'dropSnapshot'),
  'snapshot:frozen',
  'snapshot:released',
  'clone:made',
  'publish:distinct',
  'create:made',
  'reserve:created',
  'relabel:written',
  'grow:grown',
  'freeze:frozen',
  'remove:removed',
  'fence:held',
  'fence:labelled',
  'activate:frozen',
  'activate:labelled',
  'round:pulled',
  'publish:attached',
  'publish:formatted',
  'publish:mounted',
  'unpublish:unmounted',
  ...TRANSFER_CRASH_POINTS.filter((point) => point !== 'transfer.scrub.repaired'),
  // Of directories.
  'create:labelled',
  'create:limited',
  'grow:labelled',
  'grow:limited',
  'hold:renamed',
  'remove:labelled',
  'remove:unlimited',
  'remove:emptied',
  ...TREE_CRASH_POINTS.filter((point) => point !== 'tree.scrub.repaired'),
].map((point) => `agent ${point}`);

const CONTROLLER = [
  ...steps('wait', 'accept', 'order', 'round', 'phase', 'fence', 'finalDelta', 'commit', 'published', 'release', 'cancel', 'unfence'),
  ...steps('resume', 'end', 'forget', 'none', 'adopt', 'place', 'withdraw', 'tell', 'letGo'),
  ...steps('takeSource', 'dropSource', 'snapshot-none', 'snapshot-adopt', 'snapshot-tell', 'snapshot-letGo'),
  ...steps('drain-none', 'drain-order', 'drain-tell'),
  'accept:finalizer',
  'commit:before',
  'commit:swapped',
  'unfence:swapped',
].map((point) => `controller ${point}`);

export const CRASH_POINTS: readonly string[] = [...AGENT, ...CONTROLLER];
const KNOWN = new Set(CRASH_POINTS);

/** How likely a point is deadly in a history. */
const SHARE = 0.7;
/** Those that few histories come by are so nearly always. */
const RARE = new Set([
  ...steps('resume', 'dropEntry', 'reserved', 'forget', 'scrub', 'releasePoint', 'pull', 'published', 'create'),
  ...steps('takeSnapshot', 'dropSnapshot', 'snapshot-adopt', 'snapshot-letGo'),
  'before:phase',
  'transfer.journal.made',
  'transfer.round.begun',
  'fence:labelled',
  'snapshot:frozen',
  'snapshot:released',
  'clone:made',
  'publish:distinct',
  'create:labelled',
  'create:limited',
  'hold:renamed',
]);
/** And those that only somebody comes by who has not died right before: they are deadly twice, and what is before them but once. */
const LAST = new Set([
  ...['withdraw', 'unfence', 'release', 'commit', 'activate', 'dropSource', 'drain-order'].map((step) => `after:${step}`),
  'transfer.source.released',
]);
const ONCE = new Set([
  ...['unfence', 'commit', 'activate', 'release'].map((step) => `before:${step}`),
  'unfence:swapped',
  'commit:before',
  'commit:swapped',
  'activate:frozen',
  'activate:labelled',
]);
/** One after the other, in what few histories have much of. */
const IN_A_ROW = new Set<string>([
  ...['withdraw', 'dropSource', 'drain-order'].map((step) => `before:${step}`),
  'after:takeSource',
  'transfer.source.release',
  'grow:labelled',
  'grow:limited',
  'remove:labelled',
  'remove:unlimited',
  'remove:emptied',
  ...TREE_CRASH_POINTS,
]);

/** How likely somebody is stunned at a point, in a history that has such. */
const STUNNED = 0.06;
/** Right before what must not come late, or must come only if nothing has changed since. */
const CRITICAL: { [point: string]: number } = {
  'controller commit:before': 0.6,
  'controller before:commit': 0.2,
  'controller before:unfence': 0.3,
  'controller before:phase': 0.3,
  'agent before:activate': 0.2,
  'agent before:remove': 0.3,
  'agent before:relabel': 0.2,
  'agent publish:attached': 0.2,
};

function armed(point: string, chance: Chance): Armed | null {
  if (LAST.has(point)) return { after: 0, times: 2 };
  if (IN_A_ROW.has(point)) return chance.happens(0.9) ? { after: 0, times: 1 } : null;
  if (ONCE.has(point)) return chance.happens(0.65) ? { after: 0, times: 1 } : null;
  if (RARE.has(point)) return chance.happens(0.9) ? { after: 0, times: 2 } : null;
  return chance.happens(SHARE) ? { after: Math.floor(chance.around(1)), times: 1 } : null;
}

/** How often a point is passed by before somebody dies there, and how often one may. */
interface Armed {
  after: number;
  times: number;
}

export class Deaths {
  /** Deaths by point. */
  readonly hit = new Map<string, number>();
  /** Nobody dies there any more. */
  calm = false;
  readonly #armed = new Map<string, Armed>();
  readonly #stuns = new Map<string, Armed>();
  readonly #unknown: (point: string) => void;

  constructor(chance: Chance, unknown: (point: string) => void) {
    this.#unknown = unknown;
    for (const point of CRASH_POINTS) {
      const of = armed(point.slice(point.indexOf(' ') + 1), chance);
      if (of) this.#armed.set(point, of);
    }
    if (!chance.happens(0.5)) return;
    for (const point of CRASH_POINTS)
      if (chance.happens(CRITICAL[point] ?? STUNNED)) this.#stuns.set(point, { after: Math.floor(chance.around(3)), times: 1 });
  }

  /** What happens to who passes a point now. */
  due(role: string, name: string): 'death' | 'stun' | null {
    const point = `${role} ${name}`;
    if (!KNOWN.has(point)) this.#unknown(point);
    if (this.calm) return null;
    if (isDue(this.#armed, point)) {
      this.hit.set(point, (this.hit.get(point) ?? 0) + 1);
      return 'death';
    }
    return isDue(this.#stuns, point) ? 'stun' : null;
  }
}

function isDue(all: Map<string, Armed>, point: string): boolean {
  const due = all.get(point);
  if (due === undefined) return false;
  due.after -= 1;
  if (due.after >= 0) return false;
  due.times -= 1;
  if (due.times === 0) all.delete(point);
  return true;
}
