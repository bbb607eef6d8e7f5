// Progress on a screen: one line that is redrawn on a terminal, plain lines now and then elsewhere. Knows no kind.
import type { Clock } from '../model/clock.ts';
import type { Screen } from './context.ts';
import { harmless } from './format.ts';

/** Between two plain lines that differ in numbers only. */
const PLAIN_EVERY_MS = 5_000;
const BAR = 24;
const SHORTEST_BAR = 6;

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

/** Escape sequences take no room on the screen. */
// eslint-disable-next-line no-control-regex -- they begin with one
const COLOUR = /(\u001B\[[0-9;]*m)/u;

const visible = (text: string): number => text.split(COLOUR).reduce((length, part) => length + (COLOUR.test(part) ? 0 : part.length), 0);

/** The numbers are worth more than the bar: it takes what they leave. */
function bar(share: number, room: number): string {
  const percent = `${String(Math.floor(share * 100)).padStart(3)} % `;
  const width = Math.min(BAR, room - percent.length - '[] '.length);
  if (width < SHORTEST_BAR) return percent;
  const full = Math.round(share * width);
  return `[${'#'.repeat(full)}${'.'.repeat(width - full)}] ${percent}`;
}

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
    show: ({ text, share }) => {
      const width = screen.columns - 1;
      screen.write(clear + fitted(`${share === null ? '' : bar(share, width - visible(text))}${text}`, width));
    },
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
