// The list of a tree as it goes over the wire: records one after the other, cut into frames anywhere. An entry, then (where it says so) the
// content of a file leaf by leaf and its hashes, and at the end the digest. Both ends of it; knows no sockets and no disk.
import { FlockError } from '../../model/errors.ts';
import { BytesReader, BytesWriter } from './bytes.ts';
import { EntryReader, EntryWriter, LONGEST_ENTRY, type Entry } from './entry.ts';
import { runsOf } from './sums.ts';

const RECORD = { ENTRY: 1, LEAF: 2, SUMS: 3, END: 4 } as const;
const HEAD = 5;
/** The largest leaf, and what stands around it. */
const LONGEST = LONGEST_ENTRY + 64 * 1024;

export type TreeRecord =
  /** `content`: its leaves that are not zeros follow, and after them its hashes if the entry has none. */
  | { record: 'entry'; entry: Entry; content: boolean }
  | { record: 'leaf'; offset: number; bytes: Buffer }
  | { record: 'sums'; size: number; sums: Buffer }
  | { record: 'end'; digest: string; entries: number; bytes: number };

export class StreamWriter {
  readonly #body = new BytesWriter();
  readonly #entries = new EntryWriter(this.#body);
  readonly #out: Buffer[] = [];
  length = 0;

  entry(entry: Entry, content: boolean): void {
    this.#body.byte(content ? 1 : 0);
    this.#entries.put(entry);
    this.#end(RECORD.ENTRY);
  }

  /** `bytes` is copied. */
  leaf(offset: number, bytes: Buffer): void {
    this.#body.number(offset);
    this.#body.bytes(bytes);
    this.#end(RECORD.LEAF);
  }

  sums(size: number, sums: Buffer): void {
    this.#body.number(size);
    this.#body.bytes(sums);
    this.#end(RECORD.SUMS);
  }

  end(of: { digest: string; entries: number; bytes: number }): void {
    this.#body.text(of.digest);
    this.#body.number(of.entries);
    this.#body.number(of.bytes);
    this.#end(RECORD.END);
  }

  /** At most `limit` bytes of what was written, in order. */
  take(limit: number): Buffer {
    const taken: Buffer[] = [];
    let length = 0;
    for (let first = this.#out[0]; first && length < limit; first = this.#out[0]) {
      const part = first.subarray(0, limit - length);
      taken.push(part);
      length += part.length;
      if (part.length === first.length) this.#out.shift();
      else this.#out[0] = first.subarray(part.length);
    }
    this.length -= length;
    return Buffer.concat(taken);
  }

  #end(type: number): void {
    const body = this.#body.taken();
    const record = Buffer.allocUnsafe(HEAD + body.length);
    record.writeUInt32BE(body.length, 0);
    record.writeUInt8(type, 4);
    body.copy(record, HEAD);
    this.#body.clear();
    this.#out.push(record);
    this.length += record.length;
  }
}

/** Takes frames, gives records. Throws Corrupt for all that an honest peer does not send. */
export class StreamReader {
  readonly #entries = new EntryReader();
  #rest: Buffer = Buffer.alloc(0);
  #at = 0;
  /** The file whose content is being told; null between entries. */
  #file: { entry: Entry; next: number } | null = null;
  #ended = false;

  push(frame: Buffer): void {
    if (this.#ended) throw new FlockError('Corrupt', 'the list of a tree goes on after its end');
    this.#rest = this.#at === this.#rest.length ? frame : Buffer.concat([this.#rest.subarray(this.#at), frame]);
    this.#at = 0;
  }

  /** The next whole record; null: more has to come. Its bytes are views of what was pushed. */
  next(): TreeRecord | null {
    const left = this.#rest.length - this.#at;
    if (left < HEAD) return null;
    const length = this.#rest.readUInt32BE(this.#at);
    if (length > LONGEST) throw new FlockError('Corrupt', `a record of ${length} bytes in the list of a tree`);
    if (left < HEAD + length) return null;
    const type = this.#rest.readUInt8(this.#at + 4);
    const body = new BytesReader(this.#rest.subarray(this.#at + HEAD, this.#at + HEAD + length));
    this.#at += HEAD + length;
    const record = this.#read(type, body);
    if (!body.done) throw new FlockError('Corrupt', 'a record of a tree is longer than what it says');
    return record;
  }

  #read(type: number, body: BytesReader): TreeRecord {
    switch (type) {
      case RECORD.ENTRY:
        return this.#entry(body);
      case RECORD.LEAF:
        return this.#leaf(body);
      case RECORD.SUMS:
        return this.#sums(body);
      case RECORD.END:
        this.#closed();
        this.#ended = true;
        return { record: 'end', digest: body.text(64), entries: body.number(), bytes: body.number() };
      default:
        throw new FlockError('Corrupt', `a record of type ${type} in the list of a tree`);
    }
  }

  #entry(body: BytesReader): TreeRecord {
    this.#closed();
    const content = body.byte() === 1;
    const entry = this.#entries.take(body);
    if (content && entry.type !== 'file') throw new FlockError('Corrupt', 'content of what is no file');
    if (!content && entry.type === 'file' && entry.sums === null) throw new FlockError('Corrupt', 'a file without content and hashes');
    this.#file = content ? { entry, next: 0 } : null;
    return { record: 'entry', entry, content };
  }

  #leaf(body: BytesReader): TreeRecord {
    const offset = body.number();
    const bytes = body.bytes(LONGEST_ENTRY);
    const file = this.#file;
    if (!file || offset < file.next || bytes.length === 0 || offset + bytes.length > file.entry.size)
      throw new FlockError('Corrupt', `${bytes.length} bytes at ${offset} that no file has there`);
    file.next = offset + bytes.length;
    return { record: 'leaf', offset, bytes };
  }

  #sums(body: BytesReader): TreeRecord {
    const size = body.number();
    const sums = Buffer.from(body.bytes(LONGEST_ENTRY));
    if (this.#file?.entry.sums !== null || size !== this.#file.entry.size) throw new FlockError('Corrupt', 'hashes of no file');
    runsOf(sums, size);
    this.#file = null;
    return { record: 'sums', size, sums };
  }

  /** An entry that has its hashes needs none after its content. */
  #closed(): void {
    if (this.#file && this.#file.entry.sums === null) throw new FlockError('Corrupt', 'the content of a file is cut off');
    this.#file = null;
  }
}
