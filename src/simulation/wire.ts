// Connections between agents: the target dials, calls go to the source and their answers come back, late or never; they break when one of
// both ends, the network is cut, or the source will not serve any more. What is asked and answered is in pull.ts.
import { FlockError } from '../model/errors.ts';
import type { Authorize, Hello, Offer, SourceServer } from '../transfer/transfer.ts';
import type { Life } from './life.ts';
import type { VirtualTime } from './time.ts';
import { reaches, type Weather } from './weather.ts';

/** Until a peer that says nothing is held for dead, ms. */
const DEAD_AFTER = 15_000;

interface Listener {
  node: string;
  port: number;
  life: Life;
  authorize: Authorize;
  links: Set<Link>;
}

export class Wires {
  readonly #listeners = new Map<string, Listener>();
  readonly #time: VirtualTime;
  readonly #weather: Weather;
  /** UID of the StorageNode that a node's certificate was signed for. */
  readonly #uidOf: (node: string) => string | null;
  #ports = 9_000;

  constructor(parts: { time: VirtualTime; weather: Weather; uidOf: (node: string) => string | null }) {
    this.#time = parts.time;
    this.#weather = parts.weather;
    this.#uidOf = parts.uidOf;
  }

  /** How many nodes offer bytes now. */
  get open(): number {
    return this.#listeners.size;
  }

  listen(node: string, life: Life, authorize: Authorize): SourceServer {
    this.#ports += 1;
    const listener: Listener = { node, port: this.#ports, life, authorize, links: new Set() };
    this.#listeners.set(node, listener);
    const end = (links: Iterable<Link>, why: string): void => {
      // A link that ends takes itself out.
      for (const link of Array.from(links)) link.end(new FlockError('Unavailable', why));
    };
    const close = (): void => {
      if (this.#listeners.get(node) === listener) this.#listeners.delete(node);
      end(listener.links, 'the source is stopping');
    };
    life.whenOver(close);
    return {
      address: node,
      port: listener.port,
      drop: (moveUid) =>
        end(
          [...listener.links].filter(({ hello }) => hello.moveUid === moveUid),
          'this move is not served any more',
        ),
      close: async () => close(),
    };
  }

  /** Somebody asks a source for a move that is not his; true when he is served. */
  async intrude(intruder: string, life: Life, hello: Hello & { source: string }): Promise<boolean> {
    const { source, ...said } = hello;
    const port = this.#listeners.get(source)?.port;
    if (port === undefined) return false;
    try {
      const link = await this.dial({ node: intruder, life, signal: new AbortController().signal }, { node: source, port }, said);
      link.end(null);
      return true;
    } catch {
      return false;
    }
  }

  /** Throws Unavailable when nobody answers there, and what the source refuses. */
  async dial(from: { node: string; life: Life; signal: AbortSignal }, to: { node: string; port: number }, hello: Hello): Promise<Link> {
    const listener = this.#listeners.get(to.node);
    const link = new Link({ time: this.#time, weather: this.#weather, from, to: to.node, hello });
    await link.pass(from.node, to.node);
    if (!listener || listener.port !== to.port || listener.life.over)
      throw new FlockError('Unavailable', `node ${to.node} does not answer`);
    listener.links.add(link);
    link.source = listener.life;
    link.onEnd = () => void listener.links.delete(link);
    try {
      link.offer = await link.call(() => listener.authorize(hello, { node: from.node, uid: this.#uidOf(from.node) }));
    } catch (error) {
      link.end(null);
      throw error;
    }
    return link;
  }
}

interface LinkParts {
  time: VirtualTime;
  weather: Weather;
  from: { node: string; life: Life; signal: AbortSignal };
  to: string;
  hello: Hello;
}

export class Link {
  readonly hello: Hello;
  offer: Offer | null = null;
  source: Life | null = null;
  onEnd = (): void => {};
  readonly #parts: LinkParts;
  readonly #lost: Promise<never>;
  #lose: (why: Error) => void = () => {};
  #over = false;

  constructor(parts: LinkParts) {
    this.#parts = parts;
    this.hello = parts.hello;
    this.#lost = new Promise((_, reject) => (this.#lose = reject));
    this.#lost.catch(() => {});
    const { signal } = parts.from;
    signal.addEventListener('abort', () => this.end(signal.reason as Error), { once: true });
    if (signal.aborted) this.end(signal.reason as Error);
  }

  end(why: Error | null): void {
    if (this.#over) return;
    this.#over = true;
    this.onEnd();
    this.#lose(why ?? new FlockError('Unavailable', 'the connection was closed'));
  }

  /** A message on its way; throws when it never arrives. */
  async pass(from: string, to: string): Promise<void> {
    const { weather, from: dialler } = this.#parts;
    const { life } = dialler;
    const slow = life.chance.happens(weather.slow) ? life.chance.around(weather.delay) : life.chance.between(0.2, 2);
    await Promise.race([life.wait(slow), this.#lost]);
    if (reaches(weather, from, to) && !life.chance.happens(weather.loss)) return;
    await Promise.race([life.wait(DEAD_AFTER), this.#lost]);
    const why = new FlockError('Unavailable', `node ${this.#parts.to} fell silent`);
    this.end(why);
    throw why;
  }

  /** Asks the source; what the source does meanwhile goes on when nobody waits for it any more. */
  async call<T>(act: () => Promise<T>): Promise<T> {
    const { from, to } = this.#parts;
    await this.pass(from.node, to);
    const answer = act();
    answer.catch(() => {});
    const value = await Promise.race([answer, this.#lost]);
    await this.pass(to, from.node);
    return value;
  }
}
