// JSON merge patch, RFC 7386: null removes, objects merge, everything else replaces. Knows no kind.
import type { MergePatch } from './client.ts';

export const isRecord = (value: unknown): value is { [key: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** What `target` becomes under `patch`. Neither is changed; parts that stay the same are shared. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const merged = new Map(Object.entries(isRecord(target) ? target : {}));
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) merged.delete(key);
    else merged.set(key, mergePatch(merged.get(key), value));
  }
  return Object.fromEntries(merged);
}

const sameRecord = (a: { [key: string]: unknown }, b: { [key: string]: unknown }): boolean => {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && sameJson(a[key], b[key]));
};

/** Equality of JSON values; the order of keys does not count. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) return Array.isArray(b) && a.length === b.length && a.every((item, index) => sameJson(item, b[index]));
  return isRecord(a) && isRecord(b) && sameRecord(a, b);
}

/** The patch that turns `from` into `to`, at every depth; null when there is nothing to change. */
export function difference(from: object | undefined, to: object): MergePatch | null {
  const [before, after] = [new Map<string, unknown>(Object.entries(from ?? {})), new Map<string, unknown>(Object.entries(to))];
  const keys = [...new Set([...before.keys(), ...after.keys()])];
  const changes = keys.flatMap((key) => changeOf(before.get(key), after.get(key)).map((change) => [key, change] as const));
  return changes.length === 0 ? null : Object.fromEntries(changes);
}

/** What a patch says of one field; nothing when it stays. */
function changeOf(before: unknown, after: unknown): unknown[] {
  if (sameJson(before, after)) return [];
  if (!isRecord(before) || !isRecord(after)) return [after ?? null];
  const within = difference(before, after);
  return within === null ? [] : [within];
}
