// A process's way to the records: every message takes its time and may get lost on the way there or back, or arrive twice, also after its
// sender's death; watches lag and break. Semantics are the registry's. Knows no kind.
import type { Client, DeleteOptions, ListOptions, MergePatch, ObjectList, WatchEvent, WatchOptions } from '../api/client.ts';
import { continueToken } from '../api/continuation.ts';
import type { Registry } from '../api/registry.ts';
import { FlockError } from '../model/errors.ts';
import type { Kind } from '../model/kind.ts';
import type { ApiObject, Stored } from '../model/meta.ts';
import type { Life } from './life.ts';
import { snapshot, type Server } from './server.ts';
import type { VirtualTime } from './time.ts';
import { reaches, type Weather } from './weather.ts';

export interface LineParts {
  life: Life;
  /** Where it is: a node's or a controller's name. */
  place: string;
  server: Server;
  weather: Weather;
  time: VirtualTime;
}

/** Until somebody who waits for an answer gives up, and until a silent watch is held for dead, ms. */
const PATIENCE = 10_000;
const SILENCE = 30_000;
const BOOKMARKS = 60_000;

type Outcome<R> = { value: R } | { error: unknown };

function attempt<R>(act: () => R): Outcome<R> {
  try {
    return { value: act() };
  } catch (error) {
    return { error };
  }
}

export class Line implements Client {
  readonly #parts: LineParts;

  constructor(parts: LineParts) {
    this.#parts = parts;
  }

  async get<T extends ApiObject>(kind: Kind<T>, name: string, namespace?: string): Promise<Stored<T>> {
    return this.#request((registry) => snapshot(registry.get(kind, name, namespace)));
  }

  async list<T extends ApiObject>(kind: Kind<T>, options: ListOptions = {}): Promise<ObjectList<T>> {
    return this.#request((registry) => {
      const { items, ...rest } = this.#listed(registry, kind, options);
      return { ...rest, items: items.map(snapshot) };
    });
  }

  /** Whoever lists page by page only wants to watch from there, and may be answered from a cache that lags. */
  #listed<T extends ApiObject>(registry: Registry, kind: Kind<T>, options: ListOptions): ObjectList<T> {
    const { weather, life } = this.#parts;
    if (options.limit !== undefined && !options.continue && life.chance.happens(weather.oldLists)) {
      const version = Number(registry.version) - life.chance.below(20);
      const old = attempt(() => registry.list(kind, { ...options, continue: continueToken({ version, after: '' }) }));
      if ('value' in old) return old.value;
    }
    return registry.list(kind, options);
  }

  async create<T extends ApiObject>(kind: Kind<T>, object: T): Promise<Stored<T>> {
    const sent = structuredClone(object);
    return this.#request((registry) => snapshot(registry.create<T>(kind, structuredClone(sent))), true);
  }

  async replace<T extends ApiObject>(kind: Kind<T>, object: Stored<T>, subresource?: 'status'): Promise<Stored<T>> {
    const sent = structuredClone(object);
    const options = subresource ? { subresource } : {};
    return this.#request((registry) => snapshot(registry.replace<T>(kind, sent.metadata.name, structuredClone(sent), options)), true);
  }

  async patch<T extends ApiObject>(
    kind: Kind<T>,
    name: string,
    patch: MergePatch,
    options: { namespace?: string; subresource?: 'status' } = {},
  ): Promise<Stored<T>> {
    const sent = structuredClone(patch);
    return this.#request((registry) => snapshot(registry.patch(kind, name, structuredClone(sent), options)), true);
  }

  async delete<T extends ApiObject>(kind: Kind<T>, name: string, options?: DeleteOptions): Promise<Stored<T>> {
    return this.#request((registry) => snapshot(registry.delete(kind, name, options)), true);
  }

  #delay(): number {
    const { weather, life } = this.#parts;
    return life.chance.happens(weather.slow) ? life.chance.around(weather.delay) : life.chance.between(0.3, 4);
  }

  async #request<R>(act: (registry: Registry) => R, writes = false): Promise<R> {
    const { life, place, server, weather, time } = this.#parts;
    // Whoever is stunned has decided what to send, and sends it when he goes on.
    await new Promise<void>((resolve) => life.awake(resolve));
    return new Promise<R>((resolve, reject) => {
      const later = (ms: number, tell: () => void): void => time.after(ms, () => life.awake(tell));
      const unanswered = (ms: number): void => later(ms, () => reject(new FlockError('Unavailable', 'the server does not answer')));
      if (life.chance.happens(weather.loss)) return unanswered(PATIENCE);
      time.after(this.#delay(), () => {
        if (!server.up || !reaches(weather, place, 'server')) return unanswered(server.up ? PATIENCE : 50);
        const outcome = attempt(() => act(server.registry));
        if (writes && life.chance.happens(weather.repeats)) this.#repeat(act);
        if (life.chance.happens(weather.loss) || !reaches(weather, 'server', place)) return unanswered(PATIENCE);
        later(this.#delay(), () => ('error' in outcome ? reject(outcome.error as Error) : resolve(outcome.value)));
      });
    });
  }

  #repeat<R>(act: (registry: Registry) => R): void {
    const { server, time } = this.#parts;
    time.after(this.#delay() * 3, () => {
      if (server.up) attempt(() => act(server.registry));
    });
  }

  async *watch<T extends ApiObject>(kind: Kind<T>, options: WatchOptions): AsyncGenerator<WatchEvent<T>> {
    const stream = new Stream<T>(this.#parts, () => this.#delay());
    options.signal?.addEventListener('abort', () => stream.end(null), { once: true });
    try {
      await this.#request((registry) => stream.open(registry, kind, options));
      yield* stream.events();
    } finally {
      stream.end(null);
    }
  }
}

/** Events on their way to one who watches: in order, each as late as it gets. */
class Stream<T extends ApiObject> {
  readonly #parts: LineParts;
  readonly #delay: () => number;
  readonly #coming: { due: number; event: WatchEvent<T> }[] = [];
  readonly #arrived: WatchEvent<T>[] = [];
  #closers: (() => void)[] = [];
  #ended: { error: Error | null } | null = null;
  #wake = (): void => {};
  #due = 0;
  #cutSince: number | null = null;

  constructor(parts: LineParts, delay: () => number) {
    this.#parts = parts;
    this.#delay = delay;
  }

  open(registry: Registry, kind: Kind<T>, options: WatchOptions): void {
    if (this.#ended) return;
    const { server, life } = this.#parts;
    const send = (event: WatchEvent<T>): void => this.#send(event);
    this.#closers = [
      registry.watch<T>(kind, options, ({ type, object }) => send({ type, object: snapshot(object) })),
      server.watched((why) => this.end(new FlockError('Unavailable', why))),
      life.whenOver(() => this.end(null)),
    ];
    this.#bookmark(registry);
  }

  #bookmark(registry: Registry): void {
    this.#parts.time.after(BOOKMARKS, () => {
      if (this.#ended) return;
      if (this.#coming.length === 0) this.#send({ type: 'BOOKMARK', resourceVersion: registry.version });
      this.#bookmark(registry);
    });
  }

  #send(event: WatchEvent<T>): void {
    this.#due = Math.max(this.#due, this.#parts.time.now + this.#delay());
    this.#coming.push({ due: this.#due, event });
    if (this.#coming.length === 1) this.#pump();
  }

  #pump(): void {
    const next = this.#coming[0];
    if (!next || this.#ended) return;
    this.#parts.time.after(next.due - this.#parts.time.now, () => this.#arrive());
  }

  #arrive(): void {
    const { weather, place, time } = this.#parts;
    if (this.#ended) return;
    if (!reaches(weather, 'server', place)) {
      this.#cutSince ??= time.now;
      if (time.now - this.#cutSince > SILENCE) return this.end(new FlockError('Unavailable', 'the watch fell silent'));
      time.after(1_000, () => this.#arrive());
      return;
    }
    this.#cutSince = null;
    const next = this.#coming.shift();
    if (next) this.#arrived.push(next.event);
    this.#parts.life.awake(() => this.#wake());
    this.#pump();
  }

  async *events(): AsyncGenerator<WatchEvent<T>> {
    for (;;) {
      yield* this.#arrived.splice(0);
      if (this.#arrived.length > 0) continue;
      if (this.#ended?.error) throw this.#ended.error;
      if (this.#ended) return;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** The dead are not told. */
  end(error: Error | null): void {
    if (this.#ended) return;
    this.#ended = { error };
    for (const close of this.#closers) close();
    this.#parts.life.awake(() => this.#wake());
  }
}
