// Numbers and byte strings put one after the other, and taken apart again. Reads nothing beyond its buffer. No I/O.
import { FlockError } from '../../model/errors.ts';

export class BytesWriter {
  #buffer = Buffer.allocUnsafe(64 * 1024);
  length = 0;

  #room(bytes: number): void {
    if (this.length + bytes <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.length + bytes));
    this.#buffer.copy(larger, 0, 0, this.length);
    this.#buffer = larger;
  }

  byte(value: number): void {
    this.#room(1);
    this.#buffer[this.length++] = value;
  }

  /** A whole number below 2^53, not negative. */
  number(value: number): void {
    this.#room(8);
    let rest = value;
    while (rest >= 0x80) {
      this.#buffer[this.length++] = (rest % 0x80) | 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.#buffer[this.length++] = rest;
  }

  signed(value: number): void {
    this.number(value < 0 ? -value * 2 - 1 : value * 2);
  }

  /** Its length first. */
  bytes(bytes: Buffer): void {
    this.number(bytes.length);
    this.#room(bytes.length);
    bytes.copy(this.#buffer, this.length);
    this.length += bytes.length;
  }

  /** Of latin1, from `from` on; its length first. */
  text(text: string, from = 0): void {
    const length = text.length - from;
    this.number(length);
    this.#room(length);
    for (let at = from; at < text.length; at += 1) this.#buffer[this.length++] = text.charCodeAt(at);
  }

  long(value: bigint): void {
    this.#room(8);
    this.#buffer.writeBigUInt64LE(value, this.length);
    this.length += 8;
  }

  /** What was put so far; valid until more is. */
  taken(): Buffer {
    return this.#buffer.subarray(0, this.length);
  }

  /** Begins anew. */
  clear(): void {
    this.length = 0;
  }
}

/** Throws Corrupt where the buffer ends. */
export class BytesReader {
  readonly #buffer: Buffer;
  at = 0;

  constructor(buffer: Buffer) {
    this.#buffer = buffer;
  }

  get done(): boolean {
    return this.at >= this.#buffer.length;
  }

  byte(): number {
    return this.#slice(1)[0] as number;
  }

  number(): number {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.#buffer[this.at];
      if (byte === undefined) throw cutOff();
      this.at += 1;
      value += (byte & 0x7f) * scale;
      if (!Number.isSafeInteger(value)) throw new FlockError('Corrupt', 'a number above 2^53');
      if (byte < 0x80) return value;
      scale *= 0x80;
    }
  }

  signed(): number {
    const value = this.number();
    return value % 2 === 1 ? -(value + 1) / 2 : value / 2;
  }

  /** A view of the buffer. */
  bytes(limit: number): Buffer {
    return this.#slice(this.#length(limit));
  }

  text(limit: number): string {
    const length = this.#length(limit);
    const from = this.at;
    this.#slice(length);
    return this.#buffer.toString('latin1', from, from + length);
  }

  long(): bigint {
    return this.#slice(8).readBigUInt64LE(0);
  }

  #length(limit: number): number {
    const length = this.number();
    if (length > limit) throw new FlockError('Corrupt', `${length} bytes where ${limit} may be`);
    return length;
  }

  #slice(length: number): Buffer {
    if (this.at + length > this.#buffer.length) throw cutOff();
    this.at += length;
    return this.#buffer.subarray(this.at - length, this.at);
  }
}

const cutOff = (): FlockError => new FlockError('Corrupt', 'a list of a tree ends in the middle of an entry');
