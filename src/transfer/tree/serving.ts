// What is asked of a tree on one connection, answered in order. Knows the frames, and no tree.
import { encodeHeader, FRAME, header, HEADER, type Header } from '../frame.ts';
import { FlockError } from '../../model/errors.ts';
import { hashing } from '../hashing.ts';
import { zeroHash } from '../leaves.ts';
import { controlFrame, frameOf, parse } from '../messages.ts';
import type { Pacer } from '../pacing.ts';
import type { Wire } from '../wire.ts';
import { decodeFetch, OpenMessage } from './messages.ts';
import { dirtyOf, TreeSource, type TreeServed } from './source.ts';

export interface TreeServingParts {
  wire: Wire;
  pacer: Pacer;
  onBytes: (bytes: number) => void;
}

/** Frames given to the socket and not yet on their way. */
const UNSENT = 4;

export class TreeServing {
  readonly #served: TreeServed;
  readonly #parts: TreeServingParts;
  #source: TreeSource | null = null;
  #unsent = 0;
  #sent: (() => void) | null = null;

  constructor(served: TreeServed, parts: TreeServingParts) {
    this.#served = served;
    this.#parts = parts;
  }

  /** Throws Corrupt for what no target asks, and whatever the tree throws. */
  async answer(of: Header, payload: Buffer): Promise<void> {
    switch (of.type) {
      case FRAME.TREE_OPEN:
        return this.#open(of.req, parse(OpenMessage, payload, 'TREE_OPEN'));
      case FRAME.TREE_NEXT:
        return this.#send(frameOf(of.type, of.req, await this.#opened().next()));
      case FRAME.TREE_FETCH:
        return this.#fetch(of.req, payload);
      case FRAME.TREE_DIRTY:
        return this.#parts.wire.send(controlFrame(of.type, of.req, await dirtyOf(this.#served)));
      case FRAME.TREE_STILL:
        await this.#opened().checkStill();
        return this.#parts.wire.send(controlFrame(of.type, of.req, {}));
      default:
        throw new FlockError('Corrupt', `a target does not send frames of type ${of.type} about a directory`);
    }
  }

  async close(): Promise<void> {
    const source = this.#source;
    this.#source = null;
    await source?.close();
  }

  async #open(req: number, order: OpenMessage): Promise<void> {
    await this.close();
    this.#source = await TreeSource.open(this.#served, order);
    this.#parts.wire.send(controlFrame(FRAME.TREE_OPEN, req, { settled: this.#source.settled }));
  }

  async #fetch(req: number, payload: Buffer): Promise<void> {
    for await (const { offset, length, bytes } of this.#opened().fetch(decodeFetch(payload))) {
      const type = bytes ? FRAME.DATA : FRAME.ZERO;
      const wireLen = bytes ? length : 0;
      const hash = bytes ? hashing.digest(bytes) : zeroHash(length);
      await this.#send(
        Buffer.concat([encodeHeader(header(type, { req, offset, rawLen: length, wireLen, hash })), bytes ?? Buffer.alloc(0)]),
      );
    }
    this.#parts.wire.send(controlFrame(FRAME.TREE_FETCH, req, {}));
  }

  #opened(): TreeSource {
    if (!this.#source) throw new FlockError('Conflict', 'no list was opened');
    return this.#source;
  }

  /** Paced, and not faster than the socket takes it. */
  async #send(frame: Buffer): Promise<void> {
    const { wire, pacer, onBytes } = this.#parts;
    await pacer.take(frame.length, wire.ended);
    onBytes(frame.length - HEADER);
    while (this.#unsent >= UNSENT && !wire.ended.aborted) await new Promise<void>((resolve) => (this.#sent = resolve));
    this.#unsent += 1;
    wire.send(frame, () => {
      this.#unsent -= 1;
      this.#sent?.();
    });
  }
}
