// A log that a test can look into. Only *.test.ts import it.

export interface KeptLog {
  lines: { level: string; fields: object; message: string }[];
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export function keptLog(): KeptLog {
  const lines: KeptLog['lines'] = [];
  const at =
    (level: string) =>
    (fields: object, message: string): void =>
      void lines.push({ level, fields, message });
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}
