// What a process is threatened with when it starts: a named point, a time, or nothing. Chosen in order, so that every point is visited; or by
// chance from a seed. Knows no process.
import type { Chance } from '../../src/simulation/chance.ts';
import { POINTS, ROLES, type Plot, type Role } from './points.ts';

export type Threat = { at: string } | { afterMs: number };

export interface Threats {
  /** For the process that starts now; null: it is left alone. */
  next(role: Role | 'server'): Threat | null;
  /** It came true. */
  done(role: Role | 'server', threat: Threat): void;
  /** A whole story did not come by. */
  passed(role: Role | 'server', threat: Threat): void;
}

export const told = (threat: Threat): string => ('at' in threat ? threat.at : `after ${threat.afterMs} ms`);

/** Each point of a plot once: whoever died at one goes on with the next that nobody died at. */
export class Visits implements Threats {
  readonly #left: { [R in Role]: string[] };

  constructor(plot: Plot, isWanted: (point: string, index: number) => boolean) {
    const wanted = (role: Role): string[] => POINTS[plot][role].filter(isWanted);
    this.#left = { source: wanted('source'), target: wanted('target'), controller: wanted('controller') };
  }

  get left(): string[] {
    return ROLES.flatMap((role) => this.#left[role].map((point) => `${role} ${point}`));
  }

  next(role: Role | 'server'): Threat | null {
    const at = role === 'server' ? undefined : this.#left[role][0];
    return at === undefined ? null : { at };
  }

  done(role: Role | 'server', threat: Threat): void {
    // What lies behind comes first now: a story does not come by again at what it has passed.
    this.#without(role, threat, (left, index) => [...left.slice(index + 1), ...left.slice(0, index)]);
  }

  passed(role: Role | 'server', threat: Threat): void {
    this.#without(role, threat, (left, index) => [...left.toSpliced(index, 1), ...left.slice(index, index + 1)]);
  }

  /** Nothing happens for a threat of the plot before. */
  #without(role: Role | 'server', threat: Threat, rest: (left: readonly string[], index: number) => string[]): void {
    if (role === 'server' || !('at' in threat)) return;
    const left = this.#left[role];
    const index = left.indexOf(threat.at);
    if (index >= 0) this.#left[role] = rest(left, index);
  }
}

/** So often in one story, at most: then everybody is left alone until its end. */
const MOST = 24;
/** ms; about as long as a process needs to start and a move to end. */
const SOON = { least: 300, most: 6_000 };
/** A point is one of the next so many of its list. */
const NEAR = 10;

export class Chances implements Threats {
  readonly #chance: Chance;
  readonly #plot: Plot;
  #deaths = 0;
  /** Where in the lists a story is about now. */
  readonly #at: { [R in Role]: number };

  constructor(plot: Plot, chance: Chance) {
    this.#plot = plot;
    this.#chance = chance;
    this.#at = { source: chance.below(NEAR), target: chance.below(NEAR), controller: chance.below(NEAR) };
  }

  next(role: Role | 'server'): Threat | null {
    if (this.#deaths >= MOST) return null;
    const afterMs = Math.round(this.#chance.between(SOON.least, SOON.most));
    if (role === 'server') return this.#chance.happens(0.2) ? { afterMs } : null;
    const points = POINTS[this.#plot][role];
    const at = points[(this.#at[role] + this.#chance.below(NEAR)) % points.length];
    return at === undefined || this.#chance.happens(0.4) ? { afterMs } : { at };
  }

  done(role: Role | 'server', threat: Threat): void {
    this.#deaths += 1;
    if (role !== 'server' && 'at' in threat) this.#at[role] = POINTS[this.#plot][role].indexOf(threat.at) + 1;
  }

  passed(): void {}
}
