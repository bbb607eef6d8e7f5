// The source as the target sees it: one connection that it dialled, requests with their answers, and the stream of blocks, which goes to
// whoever copies at the moment. Knows no journal and no disk.
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls';
import type { Static, TSchema } from 'typebox';
import { FlockError } from '../model/errors.ts';
import { encodeHeader, FRAME, header, isAnswer, MORE, type FrameType, type Header } from './frame.ts';
import { HASH } from './hashing.ts';
import { encodeLeaves } from './leaf-list.ts';
import { decodeManifest, MANIFEST_LIMIT, manifestHash, type Manifest } from './manifest.ts';
import {
  controlFrame,
  CountsMessage,
  DirtyMessage,
  EmptyMessage,
  frameOf,
  parse,
  RootMessage,
  WelcomeMessage,
  type PrepareMessage,
} from './messages.ts';
import { dialSecurely } from './tls.ts';
import type { FrameSink } from './parser.ts';
import type { PullOptions } from './transfer.ts';
import { encodeSpans } from './span-list.ts';
import type { Span } from './spans.ts';
import { Wire } from './wire.ts';

/** What one turn of the socket brings at most, bytes. */
const READ_BUFFER = 256 * 1024;
const LIMIT_EVERY = 1000;

interface Waiting {
  type: FrameType;
  chunks: Buffer[];
  length: number;
  resolve: (payload: Buffer) => void;
  reject: (error: unknown) => void;
}

export type DialOptions = Pick<PullOptions, 'source' | 'localAddress' | 'identity' | 'hello' | 'limit' | 'signal' | 'clock'>;

export class SourceLink implements FrameSink {
  /** Who takes the answers to requests for blocks now. */
  blocks: FrameSink | null = null;
  readonly #options: DialOptions;
  readonly #socket: TLSSocket;
  readonly #wire: Wire;
  readonly #waiting = new Map<number, Waiting>();
  #requests = 0;

  private constructor(options: DialOptions) {
    this.#options = options;
    const { source, localAddress, identity, clock } = options;
    let wire: Wire | undefined;
    const buffer = Buffer.allocUnsafe(READ_BUFFER);
    const dial: ConnectionOptions = {
      host: source.host,
      port: source.port,
      ...(localAddress === undefined ? {} : { localAddress }),
      ...dialSecurely(identity(), source.node),
    };
    // One buffer for all that arrives: what 'data' events would allocate costs more than a third of the rate.
    const callback = (length: number): boolean => {
      wire?.feed(buffer.subarray(0, length));
      return true;
    };
    this.#socket = connect({ ...dial, onread: { buffer, callback } } as ConnectionOptions);
    this.#wire = wire = new Wire(this.#socket, clock, { sink: this, peer: `node ${source.node}` });
    this.ended.addEventListener('abort', () => this.#allRejected(), { once: true });
  }

  /** Connects, shows this node's certificate, checks the source's, and is authorised. Throws Unavailable, Unauthorized, what the source refuses with. */
  static async dial(options: DialOptions): Promise<SourceLink> {
    const link = new SourceLink(options);
    const stop = (): void => link.end(options.signal.reason);
    options.signal.addEventListener('abort', stop, { once: true });
    link.ended.addEventListener('abort', () => options.signal.removeEventListener('abort', stop), { once: true });
    try {
      if (options.signal.aborted) stop();
      const welcome = await link.#ask(FRAME.HELLO, Buffer.from(JSON.stringify(options.hello)), FRAME.WELCOME);
      parse(WelcomeMessage, welcome, 'WELCOME');
      void link.#followLimit();
      return link;
    } catch (error) {
      await link.close();
      throw error;
    }
  }

  /** Aborted with the reason when nothing more will come. */
  get ended(): AbortSignal {
    return this.#wire.ended;
  }

  end(reason: unknown): void {
    this.#wire.end(reason);
  }

  async close(): Promise<void> {
    this.end(new FlockError('Unavailable', 'the round is over'));
    if (!this.#socket.closed) await new Promise((resolve) => this.#socket.once('close', resolve));
  }

  async prepare(order: PrepareMessage): Promise<{ manifest: Manifest; hash: string }> {
    const encoded = await this.#ask(FRAME.PREPARE, Buffer.from(JSON.stringify(order)), FRAME.MANIFEST);
    return { manifest: decodeManifest(encoded), hash: manifestHash(encoded) };
  }

  /** Asks for blocks; the answers go to `blocks`, `req` tells which is which. */
  request(blocks: readonly { req: number; length: number; pieces: readonly Span[] }[]): void {
    const frames = blocks.flatMap(({ req, length, pieces }) => {
      const list = pieces.length === 1 ? Buffer.alloc(0) : encodeSpans(pieces);
      const { offset } = pieces[0] as Span;
      return [encodeHeader(header(FRAME.READ, { req, offset, rawLen: length, wireLen: list.length })), list];
    });
    this.#wire.send(Buffer.concat(frames));
  }

  /** Hashes of at most 32 Ki leaves, ascending, in one buffer. */
  async leaves(leaves: readonly number[]): Promise<Buffer> {
    const hashes = await this.#ask(FRAME.LEAVES, encodeLeaves(leaves));
    if (hashes.length !== leaves.length * HASH)
      throw new FlockError('Corrupt', `${this.#wire.peer} sent ${hashes.length} bytes of hashes for ${leaves.length} leaves`);
    return hashes;
  }

  /** What the source counted of this round, after all that was asked for has come. */
  counts(own: CountsMessage): Promise<CountsMessage> {
    return this.#say(FRAME.ROUND_END, own, CountsMessage);
  }

  async root(own: string): Promise<string> {
    return (await this.#say(FRAME.ROOT, { root: own }, RootMessage)).root;
  }

  async releaseBefore(round: number): Promise<void> {
    await this.#say(FRAME.RELEASE, { before: round }, EmptyMessage);
  }

  async dirty(): Promise<number | null> {
    return (await this.#say(FRAME.DIRTY, {}, DirtyMessage)).bytes;
  }

  /** Any other request, with its answer of the same type. */
  ask(type: FrameType, payload: Buffer): Promise<Buffer> {
    return this.#ask(type, payload);
  }

  place(of: Header): Buffer {
    if (isAnswer(of.type)) {
      if (!this.blocks) throw new FlockError('Corrupt', 'a block came that nobody asked for');
      return this.blocks.place(of);
    }
    const waiting = this.#waiting.get(of.req);
    if (waiting?.type !== of.type) throw new FlockError('Corrupt', `an answer of type ${of.type} came that nobody asked for`);
    waiting.length += of.wireLen;
    if (waiting.length > MANIFEST_LIMIT) throw new FlockError('Corrupt', `an answer of type ${of.type} is longer than any may be`);
    return Buffer.alloc(of.wireLen);
  }

  frame(of: Header, payload: Buffer): void {
    if (isAnswer(of.type)) return this.blocks?.frame(of, payload);
    const waiting = this.#waiting.get(of.req);
    if (!waiting) return;
    waiting.chunks.push(payload);
    if ((of.flags & MORE) !== 0) return;
    this.#waiting.delete(of.req);
    waiting.resolve(Buffer.concat(waiting.chunks));
  }

  async #say<T extends TSchema>(type: FrameType, message: object, schema: T): Promise<Static<T>> {
    return parse(schema, await this.#ask(type, Buffer.from(JSON.stringify(message))), `the answer of ${this.#wire.peer}`);
  }

  #ask(type: FrameType, payload: Buffer, answer: FrameType = type): Promise<Buffer> {
    const req = this.#requests++;
    return new Promise((resolve, reject) => {
      if (this.ended.aborted) return reject(this.ended.reason);
      this.#waiting.set(req, { type: answer, chunks: [], length: 0, resolve, reject });
      this.#wire.send(frameOf(type, req, payload));
    });
  }

  #allRejected(): void {
    for (const { reject } of this.#waiting.values()) reject(this.ended.reason);
    this.#waiting.clear();
  }

  /** The source holds the rate, for it sends; it is told whenever the limit changes. */
  async #followLimit(): Promise<void> {
    let told: number | null = null;
    try {
      while (!this.ended.aborted) {
        const limit = this.#options.limit();
        const wanted = limit === null ? null : Math.max(1, Math.floor(limit));
        if (wanted !== told) this.#wire.send(controlFrame(FRAME.LIMIT, 0, { bytesPerSecond: wanted }));
        told = wanted;
        await this.#options.clock.sleep(LIMIT_EVERY, this.ended);
      }
    } catch {
      // The connection ended.
    }
  }
}
