// Messages as they may be logged: whatever they carry as secrets is left out. Knows no message by name.

/** A copy of plain values: counts as text, bytes as their number, secrets not at all. */
export function loggable(value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  if (Array.isArray(value)) return value.map(loggable);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, field]): [string, unknown][] => {
      if (key === 'secrets') return Object.keys(field as object).length > 0 ? [[key, 'left out']] : [];
      return field === undefined ? [] : [[key, loggable(field)]];
    }),
  );
}
