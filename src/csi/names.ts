// The names by which orchestrators know this driver. They never change: volumes that exist carry them.

export const DRIVER = 'csi.flock.dev';
/** Topology: the one node that has the volume. Its value is the node's name. */
export const NODE_KEY = `${DRIVER}/node`;
/** Topology: any node that has the pool; the value is `true`. */
export const poolKey = (pool: string): string => `pool.${DRIVER}/${pool}`;
