// Short calls that block are made in bursts; between them others have their turn: heartbeats, other volumes, the agent's own work.

const BURST_MS = 10;

export class Bursts {
  #since = performance.now();

  /** Whether it is time to wait for `rest`. */
  get isOver(): boolean {
    return performance.now() - this.#since > BURST_MS;
  }

  async rest(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    this.#since = performance.now();
  }
}
