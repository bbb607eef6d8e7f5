// Where processes may die by name, where they are to, and how often they did. The list is complete: passing a point that it does not name
// is an error, so that a new one cannot go without being tried. Knows no process.
import type { Chance } from './chance.ts';

const steps = (...names: string[]): string[] => names.flatMap((name) => [`before:${name}`, `after:${name}`]);

const AGENT = [
  ...steps('create', 'relabel', 'reserved', 'fence', 'pull', 'activate', 'scrub', 'grow', 'remove', 'releasePoint', 'dropEntry'),
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
  'transfer.source.freeze',
  'transfer.source.frozen',
  'transfer.source.release',
  'transfer.source.released',
  'transfer.journal.made',
  'transfer.plan.saved',
  'transfer.round.begun',
  'transfer.block.written',
  'transfer.device.synced',
  'transfer.progress.recorded',
  'transfer.round.copied',
  'transfer.round.compared',
  'transfer.leaves.saved',
  'transfer.round.completed',
].map((point) => `agent ${point}`);

const CONTROLLER = [
  ...steps('wait', 'accept', 'order', 'round', 'phase', 'fence', 'finalDelta', 'commit', 'published', 'release', 'cancel', 'unfence'),
  ...steps('resume', 'end', 'forget', 'none', 'adopt', 'place', 'tell', 'letGo'),
  'accept:finalizer',
  'commit:before',
  'commit:swapped',
  'unfence:swapped',
].map((point) => `controller ${point}`);

export const CRASH_POINTS: readonly string[] = [...AGENT, ...CONTROLLER];
const KNOWN = new Set(CRASH_POINTS);

/** How likely a point is deadly in a history; and those that few histories come by, which are deadly nearly always. */
const SHARE = 0.7;
const RARE = new Set([
  ...steps(
    'unfence',
    'resume',
    'dropEntry',
    'reserved',
    'forget',
    'release',
    'activate',
    'scrub',
    'releasePoint',
    'pull',
    'published',
    'create',
  ),
  'unfence:swapped',
  'transfer.source.release',
  'transfer.source.released',
  'transfer.journal.made',
  'transfer.round.begun',
]);

export class Deaths {
  /** Deaths by point. */
  readonly hit = new Map<string, number>();
  /** Nobody dies there any more. */
  calm = false;
  readonly #armed = new Map<string, number>();
  readonly #unknown: (point: string) => void;

  constructor(chance: Chance, unknown: (point: string) => void) {
    this.#unknown = unknown;
    for (const point of CRASH_POINTS) {
      const rare = RARE.has(point.slice(point.indexOf(' ') + 1));
      if (chance.happens(rare ? 0.9 : SHARE)) this.#armed.set(point, 1 + (rare ? 0 : Math.floor(chance.around(1))));
    }
  }

  isDue(role: string, name: string): boolean {
    const point = `${role} ${name}`;
    if (!KNOWN.has(point)) this.#unknown(point);
    const left = this.#armed.get(point);
    if (left === undefined || this.calm) return false;
    this.#armed.set(point, left - 1);
    if (left > 1) return false;
    this.#armed.delete(point);
    this.hit.set(point, (this.hit.get(point) ?? 0) + 1);
    return true;
  }
}
