// The bytes of a block out of the payload that came: as they are, compressed, without their zero pages, or all zeros. Knows no sockets.
import { FlockError } from '../model/errors.ts';
import { decompressed } from './compressing.ts';
import { FRAME, type Header } from './frame.ts';
import { unpack } from './packing.ts';

/**
 * `buffer` begins with the payload and has room for the whole block, which it begins with afterwards. The block's bytes; none: it is all zeros.
 * Throws Corrupt for a payload that is no such block; whether it is the right one, its hash says.
 */
export function rawBytes(of: Header, buffer: Buffer): Buffer {
  if (of.type === FRAME.ZERO) return buffer.subarray(0, 0);
  const length = of.codec === 0 ? of.wireLen : expanded(of, buffer);
  const raw = buffer.subarray(0, of.rawLen);
  if (of.type === FRAME.PACKED) unpack(raw, length);
  return raw;
}

/** A packed block is shorter than the block, by how much it says itself. */
function expanded({ type, rawLen, wireLen }: Header, buffer: Buffer): number {
  const most = type === FRAME.PACKED ? rawLen - 1 : rawLen;
  const bytes = decompressed(buffer.subarray(0, wireLen), most);
  if (type === FRAME.DATA && bytes.length !== rawLen)
    throw new FlockError('Corrupt', `a block of ${rawLen} bytes came compressed and has ${bytes.length}`);
  return bytes.copy(buffer);
}
