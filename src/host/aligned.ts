// Buffers that direct IO accepts: they begin at a page. Those given back are used again, because the first touch of fresh memory costs
// more than the read that fills it.
import koffi from 'koffi';

export const PAGE = 4096;
/** What the free list may hold in all, bytes. */
const KEPT = 32 * 1024 * 1024;

const free = new Map<number, Buffer[]>();
let kept = 0;

/** `size` bytes that begin at a page, of undefined content. */
export function alignedBuffer(size: number): Buffer {
  const reused = free.get(size)?.pop();
  if (reused) {
    kept -= size;
    return reused;
  }
  // Node may hand out a slice of its small pool: allocUnsafeSlow never does.
  const whole = Buffer.allocUnsafeSlow(size + PAGE);
  const skip = Number((BigInt(PAGE) - (koffi.address(whole) % BigInt(PAGE))) % BigInt(PAGE));
  return whole.subarray(skip, skip + size);
}

/** Gives a buffer of `alignedBuffer` back; it must not be touched afterwards. */
export function giveBack(buffer: Buffer): void {
  if (kept + buffer.length > KEPT) return;
  const same = free.get(buffer.length) ?? [];
  same.push(buffer);
  free.set(buffer.length, same);
  kept += buffer.length;
}

export const isAligned = (buffer: Buffer): boolean => koffi.address(buffer) % BigInt(PAGE) === 0n;
