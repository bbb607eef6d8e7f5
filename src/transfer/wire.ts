// One connection, either end: frames in, frames out, a heartbeat, and one reason for its end that everything waiting on it gets. Knows no
// rounds.
import { setMaxListeners } from 'node:events';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../model/clock.ts';
import { FlockError } from '../model/errors.ts';
import { encodeHeader, FRAME, header, type Header } from './frame.ts';
import { controlFrame, errorMessage, errorOf } from './messages.ts';
import { dialError } from './tls.ts';
import { FrameParser, type FrameSink } from './parser.ts';

const PING_EVERY = 5_000;
export const DEAD_AFTER = 20_000;
/** How long the peer may take to read why it was refused. */
const LAST_WORD = 2_000;

const PING = encodeHeader(header(FRAME.PING));

export class Wire implements FrameSink {
  readonly peer: string;
  readonly #socket: TLSSocket;
  readonly #clock: Clock;
  readonly #sink: FrameSink;
  readonly #parser: FrameParser;
  readonly #ended = new AbortController();
  #heardAt: number;
  #refusing = false;

  constructor(socket: TLSSocket, clock: Clock, parts: { sink: FrameSink; peer: string }) {
    this.peer = parts.peer;
    this.#socket = socket;
    this.#clock = clock;
    this.#sink = parts.sink;
    this.#parser = new FrameParser(this);
    this.#heardAt = clock.monotonic();
    setMaxListeners(0, this.#ended.signal);
    socket.setNoDelay(true);
    socket.on('error', (error) => this.end(dialError(error, this.peer)));
    socket.on('end', () => this.end(new FlockError('Unavailable', `${this.peer} closed the connection`)));
    socket.on('close', () => this.end(new FlockError('Unavailable', `the connection to ${this.peer} is closed`)));
    void this.#beat();
  }

  /** Aborted, with a FlockError as its reason, when nothing more will come. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Takes what the socket received. Never throws: a broken peer ends its connection and nothing else. */
  feed(chunk: Buffer): void {
    this.#heardAt = this.#clock.monotonic();
    if (this.#refusing || this.ended.aborted) return;
    try {
      this.#parser.push(chunk);
    } catch (error) {
      this.refuse(error);
    }
  }

  /** `frame` must stay as it is until `flushed` was called, which it always is. */
  send(frame: Buffer, flushed: () => void = () => {}): void {
    if (this.#refusing || this.#socket.destroyed || this.#socket.writableEnded) return flushed();
    this.#socket.write(frame, flushed);
  }

  /** Tells the peer why, then ends. */
  refuse(error: unknown): void {
    if (this.#refusing || this.ended.aborted) return;
    this.send(controlFrame(FRAME.ERR, 0, errorMessage(error)));
    this.#refusing = true;
    this.#socket.end();
    const reason = error instanceof FlockError ? error : new FlockError('Internal', errorMessage(error).message, { cause: error });
    this.#ended.abort(reason);
    // Closing with bytes unread would reset the connection and could take the last word with it.
    const destroy = (): void => void this.#socket.destroy();
    this.#socket.once('end', destroy);
    const closed = new AbortController();
    this.#socket.once('close', () => closed.abort());
    this.#clock.sleep(LAST_WORD, closed.signal).then(destroy, destroy);
  }

  /** At once. The first reason stands. */
  end(reason: unknown): void {
    if (!this.#refusing) this.#socket.destroy();
    if (!this.ended.aborted) this.#ended.abort(reason);
  }

  place(of: Header): Buffer {
    return of.type === FRAME.ERR || of.type === FRAME.PING ? Buffer.alloc(of.wireLen) : this.#sink.place(of);
  }

  frame(of: Header, payload: Buffer): void {
    if (of.type === FRAME.PING) return;
    if (of.type === FRAME.ERR) this.end(errorOf(payload, this.peer));
    else if (!this.ended.aborted) this.#sink.frame(of, payload);
  }

  async #beat(): Promise<void> {
    try {
      while (!this.ended.aborted) {
        await this.#clock.sleep(PING_EVERY, this.ended);
        if (this.#clock.monotonic() - this.#heardAt > DEAD_AFTER)
          this.end(new FlockError('Unavailable', `${this.peer} has been silent for ${DEAD_AFTER / 1000} s`));
        else if (!this.#socket.connecting) this.send(PING);
      }
    } catch {
      // The connection ended while this slept: that is what ends the beat.
    }
  }
}
