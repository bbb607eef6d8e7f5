// The source's pipeline: reads a few blocks ahead while earlier ones are sent, in the order in which they were asked for. A buffer goes
// from disk to socket and back; there are no more of them than may be under way. Knows no control frames.
import { alignedBuffer, giveBack } from '../host/aligned.ts';
import { FlockError } from '../model/errors.ts';
import { HEADROOM } from './disk.ts';
import type { Compression } from './compressing.ts';
import { encodeHeader, FRAME, header, HEADER, type Codec, type FrameType, type Header } from './frame.ts';
import { LEAF } from './leaves.ts';
import { pack } from './packing.ts';
import type { Pacer } from './pacing.ts';
import type { SourceRound } from './source-round.ts';
import { decodeSpans } from './span-list.ts';
import { BLOCK, endOf, type Span } from './spans.ts';
import type { Wire } from './wire.ts';

/** Of all connections together, and what each may have whatever the others do: what it holds is held once more, encrypted, by its socket. */
const BUFFERS = { all: 8, least: 3 };
/** What a peer may have asked for and not got yet. */
const QUEUE_LIMIT = 1024;
const QUEUE_BYTES = 64 * LEAF;

interface Request {
  of: Header;
  pieces: Span[];
}

interface Parts {
  wire: Wire;
  pacer: Pacer;
  round: () => SourceRound | null;
  onBytes: (bytes: number) => void;
  /** null: nothing is compressed. */
  compression: Compression | null;
}

/** A block that was read, as it leaves. */
interface Ready {
  round: SourceRound;
  hash: Buffer;
  type: FrameType;
  codec: Codec;
  wireLen: number;
}

/** Those that were asked for anything. */
const busy = new Set<ReadAhead>();

export class ReadAhead {
  readonly #parts: Parts;
  readonly #free: Buffer[] = [];
  #made = 0;
  readonly #queue: Request[] = [];
  #queuedBytes = 0;
  #sent: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Throws Corrupt for more than a window, and for what no round has. */
  push(of: Header, list: Buffer): void {
    const round = this.#parts.round();
    if (!round) throw new FlockError('Conflict', 'a block was asked for before a round was prepared');
    if (this.#queue.length >= QUEUE_LIMIT || this.#queuedBytes + of.rawLen > QUEUE_BYTES)
      throw new FlockError('Corrupt', 'more blocks were asked for at once than a window holds');
    busy.add(this);
    this.#queue.push({ of, pieces: piecesOf(of, list, round.deviceBytes) });
    this.#queuedBytes += of.rawLen;
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
    busy.delete(this);
    await this.idle();
    for (const buffer of this.#free.splice(0)) giveBack(buffer);
  }

  #advance(): void {
    while (this.#queue.length > 0 && !this.#closed) {
      const buffer = this.#free.pop() ?? this.#another();
      if (!buffer) return;
      const request = this.#queue.shift() as Request;
      this.#queuedBytes -= request.of.rawLen;
      this.#start(request, buffer);
    }
  }

  #another(): Buffer | null {
    if (this.#made >= Math.max(BUFFERS.least, Math.floor(BUFFERS.all / busy.size))) return null;
    this.#made += 1;
    return alignedBuffer(HEADROOM + LEAF);
  }

  #start({ of, pieces }: Request, buffer: Buffer): void {
    const round = this.#parts.round() as SourceRound;
    const ready = this.#ready(buffer.subarray(HEADROOM, HEADROOM + of.rawLen), round, pieces);
    // Waited for in its turn below.
    ready.catch(() => undefined);
    this.#sent = this.#sent.then(async () => {
      try {
        await this.#send(of, buffer, await ready);
      } catch (error) {
        this.#parts.wire.refuse(error);
        this.#recycle(buffer);
      }
    });
  }

  /** Several at once: reading and compressing wait for disk and threads, not for each other. */
  async #ready(block: Buffer, round: SourceRound, pieces: Span[]): Promise<Ready> {
    const hash = await round.read(block, pieces);
    const packed = pack(block);
    const type = packed === 0 ? FRAME.ZERO : packed === block.length ? FRAME.DATA : FRAME.PACKED;
    const { compression } = this.#parts;
    const smaller = packed > 0 && compression?.isWorth ? await compression.compress(block.subarray(0, packed)) : null;
    smaller?.copy(block);
    return { round, hash, type, codec: smaller ? 1 : 0, wireLen: smaller?.length ?? packed };
  }

  async #send(request: Header, buffer: Buffer, read: Ready): Promise<void> {
    const { wire, pacer, onBytes, compression } = this.#parts;
    const { req, offset, rawLen } = request;
    const { type, codec, wireLen, hash } = read;
    // A limit is a slow wire too.
    const taken = compression?.sending(HEADER + wireLen);
    await pacer.take(HEADER + wireLen, wire.ended);
    encodeHeader(header(type, { codec, req, offset, rawLen, wireLen, hash }), buffer, HEADROOM - HEADER);
    read.round.counts.frames += 1;
    read.round.counts.bytes += wireLen;
    onBytes(wireLen);
    wire.send(buffer.subarray(HEADROOM - HEADER, HEADROOM + wireLen), () => {
      taken?.();
      this.#recycle(buffer);
    });
  }

  #recycle(buffer: Buffer): void {
    this.#free.push(buffer);
    this.#advance();
  }
}

/** What a request asks for: one range, or the pieces in its list. Throws Corrupt where the two disagree, and beyond the volume's end. */
function piecesOf({ offset, rawLen, wireLen }: Header, list: Buffer, deviceBytes: number): Span[] {
  if (offset + rawLen > deviceBytes)
    throw new FlockError('Corrupt', `${rawLen} bytes at ${offset} were asked for, beyond the volume's end`);
  if (wireLen === 0) return [{ offset, length: rawLen, zero: false }];
  const pieces = decodeSpans(list, deviceBytes);
  const bytes = pieces.reduce((total, { length }) => total + length, 0);
  // Only the end of the volume, which is the end of the list too, may be no whole page.
  const uneven = pieces.slice(0, -1).some((piece) => endOf(piece) % BLOCK !== 0);
  if (bytes !== rawLen || pieces[0]?.offset !== offset || uneven)
    throw new FlockError('Corrupt', `a list of ${pieces.length} pieces with ${bytes} bytes was sent for ${rawLen} bytes at ${offset}`);
  return pieces;
}
