// The data listener of this node: open while a move needs this node's bytes, closed otherwise, so that an idle node offers nothing.
import { hasEnded, phaseOf } from '../decide/observed.ts';
import type { Move } from '../model/move.ts';
import type { SourceServer } from '../transfer/transfer.ts';

/** This node is to serve bytes for it: as the source, from the reservation until the scrub is over. */
export function needsSource(move: Move, node: string): boolean {
  if (hasEnded(move) || move.status?.source?.node !== node) return false;
  const scrub = move.status.incoming?.scrub?.state;
  return phaseOf(move) !== 'Retaining' || scrub === undefined || scrub === 'Running';
}

export class Serving {
  readonly #open: () => Promise<SourceServer>;
  readonly #changed: () => void;
  #server: SourceServer | null = null;
  /** Opening and closing, one after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(open: () => Promise<SourceServer>, changed: () => void) {
    this.#open = open;
    this.#changed = changed;
  }

  get address(): { address: string; port: number } | null {
    return this.#server && { address: this.#server.address, port: this.#server.port };
  }

  /** Open exactly while some move needs it. Throws when the address cannot be listened on. */
  want(needed: boolean): Promise<void> {
    const next = this.#turn.then(
      () => this.#be(needed),
      () => this.#be(needed),
    );
    this.#turn = next;
    return next;
  }

  /** A move that ended is served no more, at once. */
  drop(moveUid: string): void {
    this.#server?.drop(moveUid);
  }

  async #be(needed: boolean): Promise<void> {
    if (needed === (this.#server !== null)) return;
    if (needed) {
      this.#server = await this.#open();
    } else {
      await this.#server?.close();
      this.#server = null;
    }
    this.#changed();
  }
}
