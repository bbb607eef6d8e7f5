// Holds a socket's sending to a rate that may change at any moment: by the kernel where it can (SO_MAX_PACING_RATE), else by a bucket of
// tokens that every block takes its bytes from. Knows no frames.
import type { TLSSocket } from 'node:tls';
import { setPacing } from '../host/syscalls.ts';
import type { Clock } from '../model/clock.ts';

export class TokenBucket {
  readonly #clock: Clock;
  /** Bytes a second; null: no limit. */
  #rate: number | null = null;
  /** Bytes that may go now; below 0 there is a debt to wait for. */
  #tokens = 0;
  #filledAt: number;
  #changed = new AbortController();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#filledAt = clock.monotonic();
  }

  setRate(rate: number | null): void {
    this.#fill();
    this.#rate = rate;
    this.#changed.abort();
    this.#changed = new AbortController();
    // A debt was made at the old rate: it is paid at the new one, a credit is not kept.
    this.#tokens = Math.min(this.#tokens, 0);
  }

  /** Resolves when `bytes` may be sent. Rejects with the signal's reason. */
  async take(bytes: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      this.#fill();
      if (this.#rate === null) return;
      if (this.#tokens >= 0) break;
      await this.#wait(Math.max(1, Math.ceil((-this.#tokens / this.#rate) * 1000)), signal);
    }
    this.#tokens -= bytes;
  }

  /** Ends early when the rate changes: a wait at the old one would be too long or too short. */
  async #wait(ms: number, signal: AbortSignal): Promise<void> {
    try {
      await this.#clock.sleep(ms, AbortSignal.any([signal, this.#changed.signal]));
    } catch (error) {
      if (signal.aborted) throw error;
    }
  }

  #fill(): void {
    const now = this.#clock.monotonic();
    if (this.#rate === null) this.#tokens = 0;
    // A tenth of a second may be caught up, so that a late timer does not slow the whole down.
    else this.#tokens = Math.min(this.#tokens + ((now - this.#filledAt) * this.#rate) / 1000, this.#rate / 10);
    this.#filledAt = now;
  }
}

/** Sets a descriptor's pacing rate; throws where that is not possible. Replaced by tests. */
export type SetRate = (descriptor: number, bytesPerSecond: number | null) => void;

export class Pacer {
  readonly #socket: TLSSocket;
  readonly #bucket: TokenBucket;
  readonly #setRate: SetRate;

  constructor(socket: TLSSocket, clock: Clock, setRate: SetRate = setPacing) {
    this.#socket = socket;
    this.#bucket = new TokenBucket(clock);
    this.#setRate = setRate;
  }

  limit(bytesPerSecond: number | null): 'kernel' | 'bucket' {
    try {
      // Looked up each time: the number of a socket that is closed may be that of another one already.
      const descriptor = descriptorOf(this.#socket);
      if (descriptor === undefined) throw new Error('the socket has no descriptor');
      this.#setRate(descriptor, bytesPerSecond);
      this.#bucket.setRate(null);
      return 'kernel';
    } catch {
      this.#bucket.setRate(bytesPerSecond);
      return 'bucket';
    }
  }

  take(bytes: number, signal: AbortSignal): Promise<void> {
    return this.#bucket.take(bytes, signal);
  }
}

/** A TLS socket's own descriptor: not in Node's documented interface, so its absence is borne. */
function descriptorOf(socket: TLSSocket): number | undefined {
  const handle = (socket as unknown as { _handle?: { fd?: unknown } })._handle;
  return typeof handle?.fd === 'number' && handle.fd >= 0 ? handle.fd : undefined;
}
