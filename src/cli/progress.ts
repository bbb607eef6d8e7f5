// Progress on a screen: one line that is redrawn on a terminal, plain lines now and then elsewhere. Knows no kind.
import type { Clock } from '../model/clock.ts';
import type { Screen } from './context.ts';
import { harmless } from './format.ts';

/** Between two plain lines that differ in numbers only. */
const PLAIN_EVERY_MS = 5_000;
const BAR = 24;

export interface Step {
  /** Stays the same while only numbers change; another one is always told. */
  key: string;
  text: string;
  /** 0 to 1, or null: no bar. */
  share: number | null;
}

export interface Progress {
  show(step: Step): void;
  /** A line that stays. */
  note(text: string): void;
  /** Leaves the screen as if nothing had been redrawn. */
  end(): void;
}

export function progressOn(screen: Screen, clock: Clock): Progress {
  return screen.isTerminal ? redrawn(screen) : plain(screen, clock);
}

const bar = (share: number): string => {
  const full = Math.round(share * BAR);
  return `[${'#'.repeat(full)}${'.'.repeat(BAR - full)}] ${String(Math.floor(share * 100)).padStart(3)} % `;
};

/** Escape sequences take no room on the screen. */
// eslint-disable-next-line no-control-regex -- they begin with one
const COLOUR = /(\u001B\[[0-9;]*m)/u;

/** The text cut to so many visible characters. */
function fitted(text: string, width: number): string {
  let left = width;
  const kept = text.split(COLOUR).map((part) => {
    if (COLOUR.test(part)) return part;
    const shown = part.slice(0, Math.max(0, left));
    left -= shown.length;
    return shown;
  });
  return kept.join('');
}

function redrawn(screen: Screen): Progress {
  const clear = '\r\u001B[K';
  return {
    show: ({ text, share }) => screen.write(clear + fitted(`${share === null ? '' : bar(share)}${text}`, screen.columns - 1)),
    note: (text) => screen.write(`${clear}${harmless(text)}\n`),
    end: () => screen.write(clear),
  };
}

function plain(screen: Screen, clock: Clock): Progress {
  let last: { key: string; text: string; at: number } | null = null;
  return {
    show: ({ key, text }) => {
      const now = clock.monotonic();
      if (last !== null && (last.text === text || (last.key === key && now - last.at < PLAIN_EVERY_MS))) return;
      last = { key, text, at: now };
      screen.write(`${text}\n`);
    },
    note: (text) => screen.write(`${harmless(text)}\n`),
    end: () => {},
  };
}
