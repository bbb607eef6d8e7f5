// Virtual time: what is due happens in order of its time, and nothing else passes time. Between two events all that the first one started
// goes on until it waits for something. Knows nobody who lives in it.

interface Event {
  due: number;
  /** Of two that are due at once, the one that was ordered first goes first. */
  order: number;
  run: () => void;
}

const before = (one: Event, other: Event): boolean => one.due < other.due || (one.due === other.due && one.order < other.order);

/** All microtasks are done when it resolves. */
const drained = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export class VirtualTime {
  /** ms since the beginning. */
  now = 0;
  /** Events that have happened. */
  happened = 0;
  #ordered = 0;
  readonly #heap: Event[] = [];

  after(ms: number, run: () => void): void {
    this.#ordered += 1;
    this.#push({ due: this.now + Math.max(0, ms), order: this.#ordered, run });
  }

  /** Until that time, or until `over` says so after an event. */
  async runUntil(until: number, over: () => boolean): Promise<void> {
    await drained();
    while (!over()) {
      const next = this.#heap[0];
      if (!next || next.due > until) break;
      this.#pop();
      this.now = next.due;
      this.happened += 1;
      next.run();
      await drained();
    }
    if (!over()) this.now = Math.max(this.now, until);
  }

  #push(event: Event): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent] as Event;
      if (!before(event, above)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = event;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop() as Event;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      const least = this.#lesserChild(at);
      if (least === null || !before(heap[least] as Event, last)) break;
      heap[at] = heap[least] as Event;
      at = least;
    }
    heap[at] = last;
  }

  #lesserChild(at: number): number | null {
    const [left, right] = [2 * at + 1, 2 * at + 2];
    if (left >= this.#heap.length) return null;
    return right < this.#heap.length && before(this.#heap[right] as Event, this.#heap[left] as Event) ? right : left;
  }
}
