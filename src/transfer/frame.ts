// The frames of the wire: a header of 64 bytes, then a payload whose length its type bounds. Written for a hostile peer: what the header
// may say is decided here, before a byte of the payload is taken. Knows no meaning of a frame.
import { FlockError } from '../model/errors.ts';
import { HASH } from './hashing.ts';
import { LEAF } from './leaves.ts';

export const HEADER = 64;
const MAGIC = 0x464c4b00;
/** Of the wire as a whole: the magic number's last byte. 2: blocks of several pieces, blocks without their zeros. 3: blocks may be compressed. */
const VERSION = 3;

export const FRAME = {
  HELLO: 1,
  WELCOME: 2,
  PREPARE: 3,
  MANIFEST: 4,
  READ: 5,
  DATA: 6,
  ZERO: 7,
  ROUND_END: 8,
  LEAVES: 9,
  ROOT: 10,
  RELEASE: 11,
  DIRTY: 12,
  LIMIT: 13,
  PING: 14,
  ERR: 15,
  TREE_OPEN: 16,
  TREE_NEXT: 17,
  TREE_FETCH: 18,
  TREE_DIRTY: 19,
  PACKED: 20,
  MEASURE: 21,
  TREE_STILL: 22,
} as const;
export type FrameType = (typeof FRAME)[keyof typeof FRAME];

/** More frames of the same answer follow. */
export const MORE = 1;

/** The payload of a control frame, bytes. */
export const CONTROL_LIMIT = 64 * 1024;
/** The list of pieces of one block, bytes. */
const PIECES_LIMIT = 4096;

const LIMIT_OF: { [T in FrameType]: number } = {
  [FRAME.HELLO]: CONTROL_LIMIT,
  [FRAME.WELCOME]: CONTROL_LIMIT,
  [FRAME.PREPARE]: CONTROL_LIMIT,
  [FRAME.MANIFEST]: LEAF,
  [FRAME.READ]: PIECES_LIMIT,
  [FRAME.DATA]: LEAF,
  [FRAME.ZERO]: 0,
  [FRAME.ROUND_END]: CONTROL_LIMIT,
  [FRAME.LEAVES]: LEAF,
  [FRAME.ROOT]: CONTROL_LIMIT,
  [FRAME.RELEASE]: CONTROL_LIMIT,
  [FRAME.DIRTY]: CONTROL_LIMIT,
  [FRAME.LIMIT]: CONTROL_LIMIT,
  [FRAME.PING]: 0,
  [FRAME.ERR]: CONTROL_LIMIT,
  [FRAME.TREE_OPEN]: CONTROL_LIMIT,
  [FRAME.TREE_NEXT]: LEAF,
  [FRAME.TREE_FETCH]: LEAF,
  [FRAME.TREE_DIRTY]: CONTROL_LIMIT,
  [FRAME.PACKED]: LEAF,
  [FRAME.MEASURE]: LEAF,
  [FRAME.TREE_STILL]: CONTROL_LIMIT,
};

export type Codec = 0 | 1;

export interface Header {
  type: FrameType;
  /** 0: the payload is as its type says. 1, of DATA and PACKED only: that, compressed by zstd. */
  codec: Codec;
  flags: number;
  /** Which request it is or answers. */
  req: number;
  /** Of blocks (DATA, ZERO, PACKED, READ): where in the volume it begins, bytes. */
  offset: number;
  /** Of blocks: bytes of the volume it speaks of, of all its pieces together. 0 in control frames. */
  rawLen: number;
  /** Bytes of payload that follow. */
  wireLen: number;
  /** Of DATA, ZERO and PACKED: BLAKE3 of the raw bytes. Zeros in all others. */
  hash: Buffer;
}

const NO_HASH = Buffer.alloc(HASH);

/** Fills in what a frame does not say. */
export const header = (type: FrameType, more: Partial<Omit<Header, 'type'>> = {}): Header => ({
  type,
  codec: 0,
  flags: 0,
  req: 0,
  offset: 0,
  rawLen: 0,
  wireLen: 0,
  hash: NO_HASH,
  ...more,
});

/** Writes the header into `into` at `at`. */
export function encodeHeader(of: Header, into: Buffer = Buffer.alloc(HEADER), at = 0): Buffer {
  into.writeUInt32BE(MAGIC | VERSION, at);
  into.writeUInt8(of.type, at + 4);
  into.writeUInt8(of.codec, at + 5);
  into.writeUInt16BE(of.flags, at + 6);
  into.writeUInt32BE(of.req, at + 8);
  into.writeUInt32BE(0, at + 12);
  into.writeBigUInt64BE(BigInt(of.offset), at + 16);
  into.writeUInt32BE(of.rawLen, at + 24);
  into.writeUInt32BE(of.wireLen, at + 28);
  of.hash.copy(into, at + 32, 0, HASH);
  return into;
}

/** Throws Corrupt for everything that no honest peer sends. */
export function decodeHeader(from: Buffer): Header {
  checkMagic(from.readUInt32BE(0));
  const type = from.readUInt8(4);
  if (!isFrameType(type)) throw malformed(`type ${type} is not known`);
  const codec = from.readUInt8(5);
  if (!isCodecOf(type, codec)) throw malformed(`codec ${codec} is not known of type ${type}`);
  if (from.readUInt32BE(12) !== 0) throw malformed('its reserved bytes are not zero');
  const decoded = header(type, {
    codec,
    flags: from.readUInt16BE(6),
    req: from.readUInt32BE(8),
    offset: Number(from.readBigUInt64BE(16)),
    rawLen: from.readUInt32BE(24),
    wireLen: from.readUInt32BE(28),
    hash: Buffer.from(from.subarray(32, HEADER)),
  });
  checkLengths(decoded);
  return decoded;
}

function checkMagic(magic: number): void {
  if ((magic & ~0xff) !== MAGIC) throw malformed('it does not begin with the magic number');
  if ((magic & 0xff) === VERSION) return;
  throw new FlockError('Unsupported', `the peer speaks version ${magic & 0xff} of the wire, this node ${VERSION}: upgrade the older node`);
}

function checkLengths(of: Header): void {
  if (of.wireLen > LIMIT_OF[of.type]) throw malformed(`a payload of ${of.wireLen} bytes is above the limit of its type ${of.type}`);
  if (!Number.isSafeInteger(of.offset + of.rawLen)) throw malformed('its offset is beyond every volume');
  if (!speaksOfBlock(of.type)) {
    if (of.rawLen !== 0 || of.offset !== 0) throw malformed(`type ${of.type} speaks of no block`);
    return;
  }
  if (of.rawLen === 0 || of.rawLen > LEAF) throw malformed(`a block of ${of.rawLen} bytes`);
  if (!fits(of)) throw malformed(`${of.wireLen} bytes of payload for ${of.rawLen} bytes`);
}

function fits({ type, codec, wireLen, rawLen }: Header): boolean {
  if (codec !== 0) return wireLen > 0 && wireLen < rawLen;
  if (type === FRAME.DATA) return wireLen === rawLen;
  return type !== FRAME.PACKED || wireLen < rawLen;
}

/** Frames that answer a READ. */
export const isAnswer = (type: FrameType): boolean => type === FRAME.DATA || type === FRAME.ZERO || type === FRAME.PACKED;
const speaksOfBlock = (type: FrameType): boolean => type === FRAME.READ || isAnswer(type);
const isCodecOf = (type: FrameType, codec: number): codec is Codec =>
  codec === 0 || (codec === 1 && (type === FRAME.DATA || type === FRAME.PACKED));
const isFrameType = (type: number): type is FrameType => type in LIMIT_OF;
const malformed = (why: string): FlockError => new FlockError('Corrupt', `the peer sent a malformed frame: ${why}`);
