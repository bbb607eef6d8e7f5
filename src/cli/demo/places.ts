// Where what a demo needs besides its cluster lies, in the cluster's own folder, with which it goes. Pure.
import { join } from 'node:path';

export interface DemoPlaces {
  /** Who runs: the application. */
  running: string;
  /** What the application was told to be committed. */
  acknowledged: string;
  /** The application's output. */
  output: string;
  /** Where the volume is published on a node. */
  target(node: string): string;
}

export function demoPlaces(folder: string): DemoPlaces {
  const own = join(folder, 'demo');
  return {
    running: join(own, 'run'),
    acknowledged: join(own, 'acknowledged'),
    output: join(own, 'output'),
    target: (node) => join(own, `volume-on-${node}`),
  };
}
