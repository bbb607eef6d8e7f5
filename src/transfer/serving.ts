// One target's connection at the source: its HELLO is authorised by a fresh read of the record before anything is served, then its
// requests are answered in order, its reads by the pipeline beside them. Knows no listener.
import type { TLSSocket } from 'node:tls';
import { FlockError, messageOf } from '../model/errors.ts';
import { Compression } from './compressing.ts';
import { FRAME, MORE, type FrameType, type Header } from './frame.ts';
import { LEAF } from './leaves.ts';
import { decodeLeaves } from './leaf-list.ts';
import {
  controlFrame,
  CountsMessage,
  frameOf,
  HelloMessage,
  LimitMessage,
  parse,
  PrepareMessage,
  ReleaseMessage,
  RootMessage,
} from './messages.ts';
import { noise } from './measuring.ts';
import { peerOf } from './tls.ts';
import { Pacer, type SetRate } from './pacing.ts';
import type { FrameSink } from './parser.ts';
import { ReadAhead } from './read-ahead.ts';
import { ServedPace } from './served-pace.ts';
import { SourceRound, type MoveMemory, type Served } from './source-round.ts';
import type { Hello, Offer, Peer, SourceOptions } from './transfer.ts';
import { OpenMessage } from './tree/messages.ts';
import { TreeServing } from './tree/serving.ts';
import { DEAD_AFTER, Wire } from './wire.ts';

/** Requests that may wait for their answer at once. */
const WAITING = 64;

export interface ServingParts {
  options: SourceOptions;
  memoryOf: (moveUid: string) => MoveMemory;
  setRate: SetRate | undefined;
}

export class Serving implements FrameSink {
  /** Resolves when the connection has ended and everything of it is closed. */
  readonly done: Promise<void>;
  hello: Hello | null = null;
  readonly #parts: ServingParts;
  readonly #socket: TLSSocket;
  readonly #wire: Wire;
  readonly #pacer: Pacer;
  readonly #pace: ServedPace;
  readonly #onBytes: (bytes: number) => void;
  readonly #reads: ReadAhead;
  #served: Served | null = null;
  #round: SourceRound | null = null;
  #tree: TreeServing | null = null;
  #answering: Promise<void> = Promise.resolve();
  #waiting = 0;

  constructor(socket: TLSSocket, parts: ServingParts) {
    this.#parts = parts;
    this.#socket = socket;
    const { clock, restraint, onBytes = () => {} } = parts.options;
    this.#wire = new Wire(socket, clock, { sink: this, peer: `the target at ${socket.remoteAddress ?? 'an unknown address'}` });
    this.#pacer = new Pacer(socket, clock, parts.setRate);
    this.#pace = new ServedPace(this.#pacer, restraint);
    this.#onBytes = (bytes) => {
      this.#pace.work?.count(bytes);
      onBytes(bytes);
    };
    const compression = parts.options.compression === 'auto' ? new Compression(clock) : null;
    this.#reads = new ReadAhead({ wire: this.#wire, pacer: this.#pacer, round: () => this.#round, onBytes: this.#onBytes, compression });
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wire.ended.addEventListener('abort', () => resolve(this.#ended()), { once: true });
    if (this.#wire.ended.aborted) resolve(this.#ended());
    this.done = promise;
    this.#identify();
    socket.on('data', (chunk: Buffer) => this.#wire.feed(chunk));
  }

  end(why: FlockError): void {
    this.#wire.end(why);
  }

  place(of: Header): Buffer {
    if (!this.hello && of.type !== FRAME.HELLO) throw new FlockError('Forbidden', 'the first frame of a connection is HELLO');
    if (of.type !== FRAME.READ && this.#waiting >= WAITING) throw new FlockError('Corrupt', 'too many requests at once');
    return Buffer.alloc(of.wireLen);
  }

  frame(of: Header, payload: Buffer): void {
    if (of.type === FRAME.READ) return this.#reads.push(of, payload);
    this.#waiting += 1;
    this.#answering = this.#answering.then(async () => {
      try {
        if (!this.#wire.ended.aborted) await this.#answer(of, payload);
      } catch (error) {
        this.#log('warn', `refused: ${messageOf(error)}`);
        this.#wire.refuse(error);
      } finally {
        this.#waiting -= 1;
      }
    });
  }

  /** Without a certificate of the cluster not a byte of the peer is looked at. */
  #identify(): void {
    const { identity, clock } = this.#parts.options;
    try {
      peerOf(this.#socket, identity());
    } catch (error) {
      this.#log('warn', `refused ${this.#wire.peer}: ${messageOf(error)}`);
      return this.#wire.refuse(error);
    }
    clock.sleep(DEAD_AFTER, this.#wire.ended).then(
      () => !this.hello && this.#wire.refuse(new FlockError('Forbidden', 'no HELLO came')),
      () => undefined,
    );
  }

  async #answer(of: Header, payload: Buffer): Promise<void> {
    switch (of.type) {
      case FRAME.HELLO:
        return this.#welcome(of.req, payload);
      case FRAME.PREPARE:
        return this.#prepare(of.req, parse(PrepareMessage, payload, 'PREPARE'));
      case FRAME.LIMIT:
        return this.#limit(parse(LimitMessage, payload, 'LIMIT').bytesPerSecond);
      case FRAME.MEASURE:
        return this.#measured(of.req);
      default:
        if (of.type === FRAME.TREE_OPEN) this.#turn(parse(OpenMessage, payload, 'TREE_OPEN').final);
        return this.#tree ? this.#tree.answer(of, payload) : this.#answerOfRound(of, payload, this.#current());
    }
  }

  async #answerOfRound(of: Header, payload: Buffer, round: SourceRound): Promise<void> {
    const { ended } = this.#wire;
    switch (of.type) {
      case FRAME.LEAVES:
        return this.#wire.send(
          frameOf(FRAME.LEAVES, of.req, await round.hashes(decodeLeaves(payload, round.leafCount), ended, this.#pace.work)),
        );
      case FRAME.ROUND_END:
        parse(CountsMessage, payload, 'ROUND_END');
        return this.#reply(of, round.counts);
      case FRAME.ROOT:
        parse(RootMessage, payload, 'ROOT');
        return this.#reply(of, { root: await round.root(ended, this.#pace.work) });
      case FRAME.RELEASE:
        await round.releaseBefore(parse(ReleaseMessage, payload, 'RELEASE').before);
        return this.#reply(of, {});
      case FRAME.DIRTY:
        return this.#reply(of, { bytes: await round.dirty() });
      default:
        throw new FlockError('Corrupt', `a target does not send frames of type ${of.type}`);
    }
  }

  #current(): SourceRound {
    if (!this.#round) throw new FlockError('Conflict', 'no round was prepared');
    return this.#round;
  }

  #reply(of: { type: FrameType; req: number }, message: object): void {
    this.#wire.send(controlFrame(of.type, of.req, message));
  }

  async #welcome(req: number, payload: Buffer): Promise<void> {
    if (this.hello) throw new FlockError('Corrupt', 'a connection has one HELLO');
    const { identity, authorize, crash } = this.#parts.options;
    const hello = parse(HelloMessage, payload, 'HELLO');
    this.hello = hello;
    const peer = peerOf(this.#socket, identity());
    if (hello.purpose === 'measure') await this.#refuseUnlessMeasured(peer);
    else this.#offer(await authorize(hello, peer), hello, crash);
    this.#log('info', `serving ${hello.purpose} to node ${peer.node}`);
    this.#wire.send(controlFrame(FRAME.WELCOME, req, { protocol: 1 }));
  }

  async #refuseUnlessMeasured(peer: Peer): Promise<void> {
    const { authorizeMeasuring } = this.#parts.options;
    if (!authorizeMeasuring) throw new FlockError('Forbidden', 'the wire to this node is not measured');
    await authorizeMeasuring(peer);
  }

  /** One after the other: what a peer does not take is not kept for it. */
  async #measured(req: number): Promise<void> {
    if (this.hello?.purpose !== 'measure') throw new FlockError('Forbidden', 'this connection is not for measuring');
    const frame = frameOf(FRAME.MEASURE, req, noise());
    await new Promise<void>((resolve) => this.#wire.send(frame, resolve));
  }

  #offer(offer: Offer, hello: Hello, crash: SourceOptions['crash']): void {
    this.#served = { offer, hello, memory: this.#parts.memoryOf(hello.moveUid), crash };
    if (offer.pool.openTree) this.#tree = this.#treeServing(offer, hello);
  }

  #treeServing(offer: Offer, hello: Hello): TreeServing {
    const { crash, log } = this.#parts.options;
    const served = { offer, hello, crash, log, signal: this.#wire.ended };
    return new TreeServing(served, { wire: this.#wire, pacer: this.#pacer, onBytes: this.#onBytes });
  }

  /** An application waits for a final round; all others are in the background. */
  #turn(final: boolean): void {
    this.#pace.turn(final ? 'foreground' : 'background');
  }

  async #prepare(req: number, order: PrepareMessage): Promise<void> {
    const served = this.#served;
    if (!served) throw new FlockError('Forbidden', 'not authorised');
    if (this.#tree) throw new FlockError('Unsupported', 'this volume is a directory here: it has no blocks to move');
    await this.#leaveRound();
    this.#turn(order.final);
    this.#round = await SourceRound.prepare(served, order);
    const { encoded } = this.#round;
    for (let at = 0; at < encoded.length; at += LEAF) {
      const last = at + LEAF >= encoded.length;
      this.#wire.send(frameOf(FRAME.MANIFEST, req, encoded.subarray(at, at + LEAF), last ? 0 : MORE));
    }
  }

  #limit(bytesPerSecond: number | null): void {
    const by = this.#pace.limit(bytesPerSecond);
    this.#log('debug', `limit ${bytesPerSecond ?? 'none'}, held by the ${by}`);
  }

  async #leaveRound(): Promise<void> {
    const round = this.#round;
    this.#round = null;
    await this.#reads.idle();
    await round?.close();
  }

  async #ended(): Promise<void> {
    this.#pace.end();
    await this.#answering;
    await this.#reads.close();
    await this.#tree?.close();
    await this.#leaveRound();
    this.#log('debug', `ended: ${messageOf(this.#wire.ended.reason)}`);
  }

  #log(level: 'debug' | 'info' | 'warn', message: string): void {
    const { hello } = this;
    this.#parts.options.log[level]({ move: hello?.move, volumeUid: hello?.volumeUid, epoch: hello?.epoch }, message);
  }
}
