// The source's pipeline: reads a few blocks ahead while earlier ones are sent, in the order in which they were asked for. A buffer goes
// from disk to socket and back; there are no more of them than may be under way. Knows no control frames.
import { alignedBuffer, giveBack } from '../host/aligned.ts';
import { FlockError } from '../model/errors.ts';
import { HEADROOM } from './disk.ts';
import { encodeHeader, FRAME, header, HEADER, type Header } from './frame.ts';
import { isZero, LEAF } from './leaves.ts';
import type { Pacer } from './pacing.ts';
import type { SourceRound } from './source-round.ts';
import type { Wire } from './wire.ts';

const BUFFERS = 8;
/** What a peer may have asked for and not got yet. */
const QUEUE_LIMIT = 1024;
const QUEUE_BYTES = 64 * LEAF;

interface Parts {
  wire: Wire;
  pacer: Pacer;
  round: () => SourceRound | null;
  onBytes: (bytes: number) => void;
}

export class ReadAhead {
  readonly #parts: Parts;
  readonly #free: Buffer[] = [];
  #made = 0;
  readonly #queue: Header[] = [];
  #queuedBytes = 0;
  #sent: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Throws Corrupt for more than a window, and for what no round has. */
  push(request: Header): void {
    const round = this.#parts.round();
    if (!round) throw new FlockError('Conflict', 'a block was asked for before a round was prepared');
    if (request.offset + request.rawLen > round.deviceBytes)
      throw new FlockError('Corrupt', `${request.rawLen} bytes at ${request.offset} were asked for, beyond the volume's end`);
    if (this.#queue.length >= QUEUE_LIMIT || this.#queuedBytes + request.rawLen > QUEUE_BYTES)
      throw new FlockError('Corrupt', 'more blocks were asked for at once than a window holds');
    this.#queue.push(request);
    this.#queuedBytes += request.rawLen;
    this.#advance();
  }

  /** Resolves when nothing is being read. Only then may the round be closed. */
  async idle(): Promise<void> {
    this.#queue.length = 0;
    this.#queuedBytes = 0;
    await this.#sent;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.idle();
    for (const buffer of this.#free.splice(0)) giveBack(buffer);
  }

  #advance(): void {
    while (this.#queue.length > 0 && !this.#closed) {
      const buffer = this.#free.pop() ?? this.#another();
      if (!buffer) return;
      const request = this.#queue.shift() as Header;
      this.#queuedBytes -= request.rawLen;
      this.#start(request, buffer);
    }
  }

  #another(): Buffer | null {
    if (this.#made === BUFFERS) return null;
    this.#made += 1;
    return alignedBuffer(HEADROOM + LEAF);
  }

  #start(request: Header, buffer: Buffer): void {
    const round = this.#parts.round() as SourceRound;
    const bytes = buffer.subarray(HEADROOM, HEADROOM + request.rawLen);
    const reading = round.read(bytes, request.offset);
    // Waited for in its turn below.
    reading.catch(() => undefined);
    this.#sent = this.#sent.then(async () => {
      try {
        await this.#send(request, buffer, { round, hash: await reading });
      } catch (error) {
        this.#parts.wire.refuse(error);
        this.#recycle(buffer);
      }
    });
  }

  async #send(request: Header, buffer: Buffer, read: { round: SourceRound; hash: Buffer }): Promise<void> {
    const { wire, pacer, onBytes } = this.#parts;
    const zero = isZero(buffer.subarray(HEADROOM, HEADROOM + request.rawLen));
    const wireLen = zero ? 0 : request.rawLen;
    await pacer.take(HEADER + wireLen, wire.ended);
    const { req, offset, rawLen } = request;
    encodeHeader(header(zero ? FRAME.ZERO : FRAME.DATA, { req, offset, rawLen, wireLen, hash: read.hash }), buffer, HEADROOM - HEADER);
    read.round.counts.frames += 1;
    read.round.counts.bytes += wireLen;
    onBytes(wireLen);
    wire.send(buffer.subarray(HEADROOM - HEADER, HEADROOM + wireLen), () => this.#recycle(buffer));
  }

  #recycle(buffer: Buffer): void {
    this.#free.push(buffer);
    this.#advance();
  }
}
