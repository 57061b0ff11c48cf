// Exact planar Laplace noise on pairs of whole numbers, by integers only: the same as in the Python
// library (release/exact_noise.py), word for word. The noise (a, b) has probability proportional to
// exp(-rate sqrt(a^2 + b^2)). Two discrete Laplace numbers are drawn (Canonne, Kamath, Steinke,
// NeurIPS 2020), and kept with probability exp(-g),
//
//     g = rate sqrt(a^2 + b^2) - (|a| + |b|) / t >= 0,    t >= sqrt(2) / rate a whole number.
//
// g is irrational. It is enclosed in rational intervals that get narrower until a comparison is
// decided. The number of words depends on the noise: who sees a report must not see how long the
// draw took. docs/proofs/everywhere.md has the proof.
import { bitLength, exactParts } from "./audit.js";
import { toBigInt } from "./primordials.js";

const size = (number) => (number < 0n ? -number : number);
/** The smallest whole number that is not below a quotient of positive ones. */
const ceilDiv = (number, divisor) => (number + divisor - 1n) / divisor;

/** The largest whole number whose square is at most n: Newton's method from above. */
function rootDown(n) {
  if (n < 2n) return n;
  let root = 1n << toBigInt((bitLength(n) + 1) >> 1);
  for (;;) {
    const next = (root + n / root) >> 1n;
    if (next >= root) return root;
    root = next;
  }
}

/**
 * A function that draws one pair { a, b } from a function that returns words of 63 bits. The decay
 * is epsilon / 2^unitBits for each step, as the rational number that it is.
 */
export function planarNoise(epsilon, unitBits) {
  const level = exactParts(epsilon);
  let p = level.m;
  let below = unitBits - level.e; // the rate is p / 2^below
  while ((p & 1n) === 0n) {
    p >>= 1n;
    below -= 1;
  }
  const q = 1n << toBigInt(below);
  const scale = rootDown(ceilDiv(2n * q * q, p * p) - 1n) + 1n;
  return (word) => {
    for (;;) {
      const a = discreteLaplace(scale, word);
      const b = discreteLaplace(scale, word);
      if (isKept(a, b, p, q, scale, word)) return { a, b };
    }
  };
}

/** True with probability p / q, for 0 <= p <= q. */
function chance(p, q, word) {
  let rest = p;
  for (;;) {
    const shifted = rest << 63n;
    const quotient = shifted / q;
    rest = shifted - quotient * q;
    const drawn = word();
    if (drawn !== quotient || rest === 0n) return drawn < quotient;
  }
}

/** A uniform whole number below a bound. */
function uniformBelow(bound, word) {
  const bits = bitLength(bound - 1n);
  const words = (bits + 62 - ((bits + 62) % 63)) / 63;
  for (;;) {
    let value = 0n;
    for (let i = 0; i < words; i++) value = (value << 63n) | word();
    value >>= toBigInt(63 * words - bits);
    if (value < bound) return value;
  }
}

/** True with probability exp(-p / q), for 0 <= p <= q. */
function chanceExp(p, q, word) {
  let k = 1n;
  while (chance(p, q * k, word)) k += 1n;
  return (k & 1n) === 1n;
}

/** A whole number a with probability proportional to exp(-|a| / scale). */
function discreteLaplace(scale, word) {
  for (;;) {
    const small = uniformBelow(scale, word);
    if (!chanceExp(small, scale, word)) continue;
    let large = 0n;
    while (chanceExp(1n, 1n, word)) large += 1n;
    const found = small + scale * large;
    const negative = (word() & 1n) === 1n;
    if (found !== 0n || !negative) return negative ? -found : found;
  }
}

/** True with probability exp(-g): exp(-g / times) so many times, with times >= g. */
function isKept(a, b, p, q, scale, word) {
  const square = p * p * (a * a + b * b);
  const steps = size(a) + size(b);
  /** Whole numbers low, high and whole with low / whole <= g <= high / whole. */
  const bounds = (bits) => {
    const shift = toBigInt(bits);
    const scaled = square << (2n * shift);
    const root = rootDown(scaled);
    const most = root * root === scaled ? root : root + 1n;
    const less = steps * (q << shift);
    const low = root * scale - less;
    return { low: low < 0n ? 0n : low, high: most * scale - less, whole: (q << shift) * scale };
  };
  const { high, whole } = bounds(64);
  const parts = high > 0n ? ceilDiv(high, whole) : 1n;
  for (let i = 0n; i < parts; i += 1n) {
    let k = 1n;
    while (chanceOf(bounds, parts * k, word)) k += 1n;
    if ((k & 1n) === 0n) return false;
  }
  return true;
}

/** True with probability g / divisor: a uniform real number is below it. */
function chanceOf(bounds, divisor, word) {
  let value = 0n;
  let bits = 0;
  for (;;) {
    value = (value << 63n) | word();
    bits += 63;
    const { low, high, whole } = bounds(bits + 64);
    const shift = toBigInt(bits);
    if ((value + 1n) * whole * divisor <= low << shift) return true;
    if (value * whole * divisor >= high << shift) return false;
  }
}
