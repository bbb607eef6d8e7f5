// Where things are told to the operator: structured fields and a sentence. pino fits it; so does a test's list.

export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}
