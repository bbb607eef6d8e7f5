// What a server keeps that is no object: its authority's key, invitations. Beside the objects, so that one backup holds both.

export interface Settings {
  get(name: string): string | null;
  put(name: string, value: string): void;
  /** Reads and removes in one step: of two callers one gets it. */
  take(name: string): string | null;
  names(prefix: string): string[];
}
