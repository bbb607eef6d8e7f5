// A manifest on the disk: the entries of a tree with what was known of each, in the order of a walk, in chunks that each prove to be whole.
// `<copy>.tree` is the last whole one, `<copy>.tree.new` one that is being written: up to where it is whole it tells the truth too.
// Knows no tree.
import { open, rename, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { writeWhole } from '../../host/direct.ts';
import { beAbsent, ifThere, syncFolder } from '../../host/files.ts';
import { BytesReader, BytesWriter } from './bytes.ts';
import { EntryReader, EntryWriter, LONGEST_ENTRY, putKnown, takeKnown, type KnownEntry } from './entry.ts';

const MAGIC = 0x464c4b54;
const CHUNK = 512 * 1024;
const HEAD = 12;

export const partOf = (path: string): string => `${path}.new`;

export class ManifestWriter {
  readonly #path: string;
  readonly #file: FileHandle;
  readonly #out = new BytesWriter();
  readonly #entries = new EntryWriter(this.#out);
  #length = 0;

  private constructor(path: string, file: FileHandle) {
    this.#path = path;
    this.#file = file;
  }

  /** Begins `<path>.new` anew. Whoever reads the one before has it open. */
  static async create(path: string): Promise<ManifestWriter> {
    await beAbsent(partOf(path));
    return new ManifestWriter(path, await open(partOf(path), 'wx', 0o600));
  }

  get isDue(): boolean {
    return this.#out.length >= CHUNK;
  }

  put(entry: KnownEntry): void {
    this.#entries.put(entry);
    putKnown(this.#out, entry.known);
  }

  /** What was put is in the file; not yet on the disk. */
  async flush(): Promise<void> {
    if (this.#out.length === 0) return;
    const body = this.#out.taken();
    const chunk = Buffer.allocUnsafe(HEAD + body.length);
    chunk.writeUInt32BE(MAGIC, 0);
    chunk.writeUInt32BE(body.length, 4);
    chunk.writeUInt32BE(crc32(body), 8);
    body.copy(chunk, HEAD);
    await writeWhole(this.#file, chunk, BigInt(this.#length));
    this.#length += chunk.length;
    this.#out.clear();
    this.#entries.restart();
  }

  async sync(): Promise<void> {
    await this.flush();
    await this.#file.datasync();
  }

  /** It is the last whole one from now on. */
  async finish(): Promise<void> {
    await this.sync();
    await this.#file.close();
    await rename(partOf(this.#path), this.#path);
    await syncFolder(dirname(this.#path));
  }

  /** What was flushed stays, as a part. */
  async close(): Promise<void> {
    await this.#file.close();
  }
}

/** Reads entries one after the other; ends where the file is not whole. */
export class ManifestReader {
  readonly #file: FileHandle | null;
  #at = 0;
  #chunk = new BytesReader(Buffer.alloc(0));
  #entries = new EntryReader();
  /** The next entry, read by `advance`; null at the end. */
  entry: KnownEntry | null = null;

  private constructor(file: FileHandle | null) {
    this.#file = file;
  }

  /** Of a file that is not there: empty. */
  static async open(path: string): Promise<ManifestReader> {
    const reader = new ManifestReader(await ifThere(open(path, 'r')));
    await reader.advance();
    return reader;
  }

  /** The next entry without waiting, if it is in memory; false: `advance` is to be called. */
  step(): boolean {
    if (this.#chunk.done) return false;
    this.entry = this.#take();
    return true;
  }

  async advance(): Promise<void> {
    while (this.#chunk.done) {
      const body = await this.#read();
      if (!body) return void (this.entry = null);
      this.#chunk = new BytesReader(body);
      this.#entries = new EntryReader();
    }
    this.entry = this.#take();
  }

  async close(): Promise<void> {
    await this.#file?.close();
  }

  #take(): KnownEntry {
    const entry = this.#entries.take(this.#chunk);
    return { ...entry, known: takeKnown(this.#chunk) };
  }

  async #read(): Promise<Buffer | null> {
    if (!this.#file) return null;
    const head = await this.#bytes(HEAD);
    if (!head || head.readUInt32BE(0) !== MAGIC || head.readUInt32BE(4) > LONGEST_ENTRY + CHUNK) return null;
    const body = await this.#bytes(head.readUInt32BE(4));
    return body && crc32(body) === head.readUInt32BE(8) ? body : null;
  }

  async #bytes(length: number): Promise<Buffer | null> {
    const bytes = Buffer.allocUnsafe(length);
    const { bytesRead } = await (this.#file as FileHandle).read(bytes, 0, length, this.#at);
    this.#at += bytesRead;
    return bytesRead === length ? bytes : null;
  }
}
