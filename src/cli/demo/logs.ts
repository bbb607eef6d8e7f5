// Warnings and errors in the logs of server, controller and agents, for when something went wrong. Pure.

interface Entry {
  level: string | number;
  time: string;
  component?: string;
  msg?: string;
  error?: string;
}

/** As pino numbers them. */
const WARNING = 40;

/** Oldest first. A line that is no entry was written by a process on its way out: it counts. */
export function warningsIn(lines: readonly string[]): string[] {
  const told = lines.filter((line) => line.trim() !== '').flatMap((line) => warningOf(line) ?? []);
  return told.toSorted((a, b) => (a.time < b.time ? -1 : 1)).map(({ text }) => text);
}

function warningOf(line: string): { time: string; text: string } | null {
  const entry = parsed(line);
  if (entry === null) return { time: '', text: line };
  if (Number(entry.level) < WARNING) return null;
  const { time, component = '', msg = '', error } = entry;
  return { time, text: `${time} ${component}: ${msg}${error === undefined ? '' : `: ${error}`}` };
}

function parsed(line: string): Entry | null {
  try {
    return JSON.parse(line) as Entry;
  } catch {
    return null;
  }
}
