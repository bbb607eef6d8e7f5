// Whole numbers below 2^53 in as few bytes as they need: seven bits a byte, the lowest first. Reads nothing beyond its buffer.
import { FlockError } from '../model/errors.ts';

export class VarintWriter {
  #buffer = Buffer.allocUnsafe(1024);
  #length = 0;

  put(value: number): void {
    if (this.#length + 8 > this.#buffer.length) this.#buffer = Buffer.concat([this.#buffer], this.#buffer.length * 2);
    let rest = value;
    while (rest >= 0x80) {
      this.#buffer[this.#length++] = (rest % 0x80) | 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.#buffer[this.#length++] = rest;
  }

  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }
}

export class VarintReader {
  readonly #buffer: Buffer;
  #at = 0;
  constructor(buffer: Buffer) {
    this.#buffer = buffer;
  }

  /** Bytes read so far. */
  get at(): number {
    return this.#at;
  }

  get done(): boolean {
    return this.#at === this.#buffer.length;
  }

  /** Throws Corrupt at the end of the buffer and above 2^53 - 1. */
  take(): number {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.#buffer[this.#at];
      if (byte === undefined) throw new FlockError('Corrupt', 'a list of numbers ends in the middle of one');
      this.#at += 1;
      value += (byte & 0x7f) * scale;
      if (!Number.isSafeInteger(value)) throw new FlockError('Corrupt', 'a list of numbers holds one above 2^53');
      if (byte < 0x80) return value;
      scale *= 0x80;
    }
  }
}
