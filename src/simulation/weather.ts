// The network between places: who reaches whom, how long it takes, and what gets lost. Places are node names, controller names, `server`.

export interface Weather {
  /** `a>b`: what a sends to b does not arrive. */
  readonly cut: Set<string>;
  /** How likely a request or its answer is lost, and how likely a write arrives twice. */
  loss: number;
  repeats: number;
  /** How likely a message takes long, and how long then in the mean, ms. */
  slow: number;
  delay: number;
  /** How likely the list of somebody who only watches is from before, by so many versions at most. */
  oldLists: number;
}

export const fairWeather = (): Weather => ({ cut: new Set(), loss: 0, repeats: 0, slow: 0, delay: 0, oldLists: 0 });

export const reaches = ({ cut }: Weather, from: string, to: string): boolean => !cut.has(`${from}>${to}`);
