// Who in this process has a copy's device open, so that it is deactivated after the last one and never under somebody else: a device that
// was active before we came is somebody's. Knows no commands.

export interface Use {
  readers: number;
  writers: number;
  held: boolean;
  /** Somebody else may have it. */
  attached: boolean;
}

const uses = new Map<string, Use>();

/** Of one LV, named by its UUIDs; a new one as long as nobody uses it. */
export function useOf(key: string): Use {
  return uses.get(key) ?? { readers: 0, writers: 0, held: false, attached: false };
}

export const isOurs = ({ readers, writers, held }: Use): boolean => readers + writers > 0 || held;

export function changeUse(key: string, change: Partial<Use>): Use {
  const use = { ...useOf(key), ...change };
  if (isOurs(use) || use.attached) uses.set(key, use);
  else uses.delete(key);
  return use;
}
