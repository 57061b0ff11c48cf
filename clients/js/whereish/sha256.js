// Synchronous SHA-256 (FIPS 180-4) and HMAC (RFC 2104). Those of WebCrypto are asynchronous, and
// the ledger needs the name of a place before it returns a report.
import { lengthOf, U8, U32 } from "./primordials.js";

const K = new U32(64);
const START = new U32(8);
{
  // The first 32 bits of the fractional parts of the cube and square roots of the first primes.
  let found = 0;
  for (let n = 2n; found < 64; n++) {
    let prime = true;
    for (let d = 2n; d * d <= n; d++) if (n % d === 0n) prime = false;
    if (!prime) continue;
    if (found < 8) START[found] = Number(BigInt.asUintN(32, root(n << 64n, 2n)));
    K[found++] = Number(BigInt.asUintN(32, root(n << 96n, 3n)));
  }
}

function root(value, power) {
  let low = 0n;
  let high = 1n << 40n;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** power <= value) low = middle;
    else high = middle;
  }
  return low;
}

/** The SHA-256 digest of bytes: 32 bytes. */
export function sha256(message) {
  const length = lengthOf(message);
  const rest = length % 64 < 56 ? 64 : 128;
  const tail = new U8(rest);
  const whole = length - (length % 64);
  for (let i = whole; i < length; i++) tail[i - whole] = message[i];
  tail[length - whole] = 0x80;
  let bits = length * 8;
  for (let i = rest - 1; bits > 0; i--) {
    tail[i] = bits % 256;
    bits = (bits - (bits % 256)) / 256;
  }
  const state = new U32(8);
  for (let i = 0; i < 8; i++) state[i] = START[i];
  const words = new U32(64);
  for (let at = 0; at < whole; at += 64) block(state, words, message, at);
  for (let at = 0; at < rest; at += 64) block(state, words, tail, at);
  const digest = new U8(32);
  for (let i = 0; i < 32; i++) digest[i] = state[i >> 2] >>> (24 - 8 * (i & 3));
  return digest;
}

function block(state, w, bytes, at) {
  for (let i = 0; i < 16; i++) {
    const k = at + 4 * i;
    w[i] = (bytes[k] << 24) | (bytes[k + 1] << 16) | (bytes[k + 2] << 8) | bytes[k + 3];
  }
  for (let i = 16; i < 64; i++) {
    const p = w[i - 15];
    const q = w[i - 2];
    const s0 = ((p >>> 7) | (p << 25)) ^ ((p >>> 18) | (p << 14)) ^ (p >>> 3);
    const s1 = ((q >>> 17) | (q << 15)) ^ ((q >>> 19) | (q << 13)) ^ (q >>> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  let a = state[0] | 0, b = state[1] | 0, c = state[2] | 0, d = state[3] | 0;
  let e = state[4] | 0, f = state[5] | 0, g = state[6] | 0, h = state[7] | 0;
  for (let i = 0; i < 64; i++) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g; g = f; f = e; e = (d + t1) | 0;
    d = c; c = b; b = a; a = (t1 + t2) | 0;
  }
  state[0] += a; state[1] += b; state[2] += c; state[3] += d;
  state[4] += e; state[5] += f; state[6] += g; state[7] += h;
}

/** Concatenate two arrays of bytes. */
export function joined(first, second) {
  const start = lengthOf(first);
  const more = lengthOf(second);
  const whole = new U8(start + more);
  for (let i = 0; i < start; i++) whole[i] = first[i];
  for (let i = 0; i < more; i++) whole[start + i] = second[i];
  return whole;
}

/** HMAC-SHA-256 of a message under a key of bytes. */
export function hmac(key, message) {
  const short = lengthOf(key) > 64 ? sha256(key) : key;
  const length = lengthOf(short);
  const inner = new U8(64);
  const outer = new U8(64);
  for (let i = 0; i < 64; i++) {
    const byte = i < length ? short[i] : 0;
    inner[i] = byte ^ 0x36;
    outer[i] = byte ^ 0x5c;
  }
  return sha256(joined(outer, sha256(joined(inner, message))));
}
