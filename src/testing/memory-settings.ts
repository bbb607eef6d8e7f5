// Settings that live as long as a test. Only *.test.ts import it.
import type { Settings } from '../api/settings.ts';

export function memorySettings(): Settings {
  const values = new Map<string, string>();
  return {
    get: (name) => values.get(name) ?? null,
    put: (name, value) => void values.set(name, value),
    take: (name) => {
      const value = values.get(name) ?? null;
      values.delete(name);
      return value;
    },
    names: (prefix) => [...values.keys()].filter((name) => name.startsWith(prefix)),
  };
}
