// Cuts a stream of bytes into frames, however they arrive. It holds one header and one payload at most, and the payload goes straight to
// where its receiver wants it. After an error it takes nothing more.
import { FlockError } from '../model/errors.ts';
import { decodeHeader, HEADER, type Header } from './frame.ts';

export interface FrameSink {
  /** Where this frame's payload goes: exactly `wireLen` bytes. Throws to refuse it before it is taken. */
  place(header: Header): Buffer;
  /** A whole frame. */
  frame(header: Header, payload: Buffer): void;
}

export class FrameParser {
  readonly #sink: FrameSink;
  readonly #head = Buffer.alloc(HEADER);
  #headFilled = 0;
  #header: Header | null = null;
  #payload: Buffer = this.#head;
  #payloadFilled = 0;
  #broken = false;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  /** Takes what arrived; `chunk` may be used again afterwards. Throws what the codec or the sink threw. */
  push(chunk: Buffer): void {
    if (this.#broken) throw new FlockError('Corrupt', 'what came before was no frame: nothing is taken any more');
    try {
      let at = 0;
      while (at < chunk.length) at = this.#header ? this.#takePayload(chunk, at) : this.#takeHeader(chunk, at);
    } catch (error) {
      this.#broken = true;
      throw error;
    }
  }

  #takeHeader(chunk: Buffer, at: number): number {
    const copied = chunk.copy(this.#head, this.#headFilled, at, at + HEADER - this.#headFilled);
    this.#headFilled += copied;
    if (this.#headFilled < HEADER) return at + copied;
    this.#headFilled = 0;
    const header = decodeHeader(this.#head);
    const payload = this.#sink.place(header);
    if (payload.length !== header.wireLen)
      throw new FlockError('Internal', `a place of ${payload.length} bytes for a payload of ${header.wireLen}`);
    if (header.wireLen === 0) this.#sink.frame(header, payload);
    else {
      this.#header = header;
      this.#payload = payload;
      this.#payloadFilled = 0;
    }
    return at + copied;
  }

  #takePayload(chunk: Buffer, at: number): number {
    const header = this.#header as Header;
    const copied = chunk.copy(this.#payload, this.#payloadFilled, at, at + header.wireLen - this.#payloadFilled);
    this.#payloadFilled += copied;
    if (this.#payloadFilled === header.wireLen) {
      const payload = this.#payload;
      this.#header = null;
      this.#payload = this.#head;
      this.#sink.frame(header, payload);
    }
    return at + copied;
  }
}
