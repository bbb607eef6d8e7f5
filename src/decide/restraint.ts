// How fast a node may copy in the background, by how long its tasks wait for disks and processors. A copy makes others wait and waits itself,
// and the kernel's figure does not tell which: now and then the node is looked at while copying goes at its floor. What waits then are
// others. Pure: one call a second.

/** What was seen in the last second, of all background copying of this node together. */
export interface Seen {
  /** Share of the time in which some task waited: the larger one of disks and processors, 0 to 1. */
  pressure: number;
  /** Bytes a second that were copied. */
  rate: number;
}

interface Known {
  /** The fastest second so far, bytes. */
  best: number;
  /** Seconds until the node is looked at again, when a look found that nobody else waits. */
  patience: number;
}

/**
 * free: no ceiling. `high`: seconds in a row of high pressure; `deaf`: seconds in which pressure is known to be the copy's own.
 * looking: at the floor, to see what others wait. yielding: others wait, and copying takes what they leave.
 */
export type Restraint = Known &
  (
    | { state: 'free'; high: number; deaf: number }
    | { state: 'looking'; second: number; waited: number }
    | { state: 'yielding'; ceiling: number; second: number; calm: number }
  );

/** Above this somebody is waiting most of the time. */
const HIGH = 0.6;
/** Below this nobody waits much. Between the two a ceiling stays as it is, or grows below RISE. */
const LOW = 0.25;
const RISE = 0.48;
/** A short copy is over before this; a short burst of others too. Seconds. */
const CONFIRMED = 5;
/** Length of a look, and the part of it in which what was under way runs off. Seconds. */
const LOOK = 4;
const RUNNING_OFF = 2;
/** Between two looks: as long as others wait, and at most when nobody did several times. Seconds. */
const PATIENCE = 30;
const LONGEST_PATIENCE = 480;
/** A copy is never slower than this, bytes a second. */
export const FLOOR = 1024 * 1024;
/** While the node is looked at, the part of its fastest second: so little that what waits are others. */
const LOOK_PART = 1 / 16;
/** What yields goes on with this part at least: an application that writes all the time is caught up with. */
const YIELD_PART = 1 / 8;
const DOWN = 0.7;
const UP = 1.15;

export const UNRESTRAINED: Restraint = { state: 'free', best: 0, patience: PATIENCE, high: 0, deaf: 0 };

const floorOf = ({ best }: Known, part = YIELD_PART): number => Math.max(FLOOR, best * part);

/** Bytes a second for all background copying of the node; null: no ceiling. */
export function ceilingOf(restraint: Restraint): number | null {
  if (restraint.state === 'free') return null;
  return restraint.state === 'looking' ? floorOf(restraint, LOOK_PART) : restraint.ceiling;
}

/** The lower of what somebody set and what the node bears. */
export function atMost(limit: number | null, ceiling: number | null): number | null {
  if (limit === null || ceiling === null) return limit ?? ceiling;
  return Math.min(limit, ceiling);
}

/** What follows from one more second. */
export function restrained(before: Restraint, seen: Seen): Restraint {
  const restraint = { ...before, best: Math.max(before.best, seen.rate) };
  switch (restraint.state) {
    case 'free':
      return free(restraint, seen);
    case 'looking':
      return looking(restraint, seen);
    case 'yielding':
      return yielding(restraint, seen);
  }
}

type In<S extends Restraint['state']> = Extract<Restraint, { state: S }>;

const look = ({ best, patience }: Known): Restraint => ({ state: 'looking', best, patience, second: 0, waited: 0 });

function free(now: In<'free'>, { pressure, rate }: Seen): Restraint {
  if (now.deaf > 0) return { ...now, deaf: now.deaf - 1 };
  const high = pressure >= HIGH ? now.high + 1 : 0;
  // What is at its floor anyhow has nothing to give.
  return high >= CONFIRMED && rate > floorOf(now) ? look(now) : { ...now, high };
}

function looking(now: In<'looking'>, { pressure }: Seen): Restraint {
  const { best, patience } = now;
  const second = now.second + 1;
  const waited = now.waited + (second > RUNNING_OFF ? pressure : 0);
  if (second < LOOK) return { ...now, second, waited };
  const others = waited / (LOOK - RUNNING_OFF);
  if (others < LOW) return { state: 'free', best, high: 0, deaf: patience, patience: Math.min(LONGEST_PATIENCE, 2 * patience) };
  const ceiling = others >= HIGH ? floorOf(now) : Math.max(floorOf(now), best / 2);
  return { state: 'yielding', best, patience: PATIENCE, ceiling, second: 0, calm: 0 };
}

function yielding(now: In<'yielding'>, { pressure, rate }: Seen): Restraint {
  const { best } = now;
  const floor = floorOf(now);
  const calm = pressure < LOW ? now.calm + 1 : 0;
  if (calm >= CONFIRMED) return { ...UNRESTRAINED, best };
  const ceiling = turned(Math.max(floor, now.ceiling), { pressure, rate, floor });
  if (ceiling > best) return { ...UNRESTRAINED, best };
  // At the floor every second is a look.
  const second = ceiling > floor ? now.second + 1 : 0;
  return second >= PATIENCE ? look(now) : { ...now, ceiling, second, calm };
}

/** A ceiling far above what is copied would have to fall a long way before it does anything. */
function turned(ceiling: number, { pressure, rate, floor }: Seen & { floor: number }): number {
  if (pressure >= HIGH) return Math.max(floor, Math.min(ceiling, Math.max(rate, floor)) * DOWN);
  return pressure < RISE ? ceiling * UP : ceiling;
}
