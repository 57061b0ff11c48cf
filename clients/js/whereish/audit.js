// The exact audit, on the device: it checks every ratio of the counts that are sampled. Every
// rounding is towards refusal. For all places x, o and outputs z it must hold that
//
//     counts[x, z] <= exp(eps d(x, o)) counts[o, z]          and the same with x and o exchanged.
//
// eps, the coordinates and the entries of a metric are the exact values of their doubles. Most
// ratios are far below the limit and pass a comparison of doubles with a margin. All others are
// decided in integers, against a rational number that is not above exp(eps d). So every ratio that
// passes holds. docs/proofs/audit.md has the full proof.
import { GuaranteeError } from "./errors.js";
import { create, F64, floor, I32, lengthOf, now, sqrt, toBigInt, toNumber, U64 } from "./primordials.js";

export const FRACTION_BITS = 192; // after the point
const F = toBigInt(FRACTION_BITS);
const ONE = 1n << F;
export const KEPT_BITS = 63; // in a comparison, as in the Python library: both decide the same
const KEPT = toBigInt(KEPT_BITS);
// exp(44) > 2^63: above this exponent a ratio can fail only if the other count is zero.
const AMPLE = 44;
const STEP_MS = 100;

// --- integers ------------------------------------------------------------------------------

const value = new F64(1);
const bits = new U64(value.buffer);

/** The integer m and the exponent e with number = m 2^e, exactly. */
export function exactParts(number) {
  value[0] = number;
  const raised = toNumber((bits[0] >> 52n) & 0x7ffn);
  const fraction = bits[0] & ((1n << 52n) - 1n);
  const size = raised === 0 ? fraction : fraction | (1n << 52n);
  return { m: bits[0] >> 63n ? -size : size, e: (raised === 0 ? 1 : raised) - 1075 };
}

/** A number times a power of two, rounded down. */
export const shifted = (number, by) => (by >= 0 ? number << toBigInt(by) : number >> toBigInt(-by));
/** The number of binary digits of a non-negative integer. */
export function bitLength(number) {
  if (number === 0n) return 0;
  let step = 1;
  while (number >> toBigInt(step) > 0n) step *= 2;
  let length = 0;
  for (; step >= 1; step /= 2) if (number >> toBigInt(length + step) > 0n) length += step;
  return length + 1;
}

/** The largest integer whose square is at most a positive number of 300 to 450 bits. */
function rootDown(number) {
  const drop = bitLength(number) - 100;
  const half = (drop + (drop & 1)) / 2;
  // The first guess comes from the leading digits; each Newton step doubles the correct digits.
  let root = shifted(toBigInt(floor(sqrt(toNumber(shifted(number, -2 * half))))) + 1n, half);
  for (let step = 0; step < 3; step++) root = (root + number / root) >> 1n;
  while (root * root > number) root -= 1n;
  return root;
}

/** Coordinates as integers in one common unit 2^e. */
function onLattice(xy) {
  const length = lengthOf(xy);
  let unit = Infinity;
  for (let i = 0; i < length; i++) {
    const { m, e } = exactParts(xy[i]);
    if (m !== 0n && e < unit) unit = e;
  }
  if (unit === Infinity) unit = 0;
  const at = create(null); // not an array: a setter on Array.prototype could take its values
  for (let i = 0; i < length; i++) {
    const { m, e } = exactParts(xy[i]);
    at[i] = m === 0n ? 0n : m << toBigInt(e - unit);
  }
  return { unit, at };
}

/** An upper bound of ln 2 in units of 2^-F: the sum of 1 / (k 2^k), with every term rounded up. */
function ln2Up() {
  let sum = 2n; // covers the terms after the last one, which are below 2^-F in total
  for (let k = 1n; k <= F; k++) sum += (ONE >> k) / k + 1n;
  return sum;
}
const LN2 = ln2Up();

/**
 * A lower bound of exp(y), with y in units of 2^-F: the number `size` 2^(power - KEPT).
 *
 * With y = power ln 2 + r, r is rounded down because ln 2 is rounded up. exp(r) is the 64th power
 * of exp(r / 64), which is a sum of positive terms. Each term is rounded down; the last are left out.
 */
export function expDown(y) {
  const power = y / LN2;
  const r = (y - power * LN2) >> 6n;
  let term = ONE;
  let sum = ONE;
  for (let k = 1n; term > 0n; k++) {
    term = ((term * r) >> F) / k;
    sum += term;
  }
  for (let square = 0; square < 6; square++) sum = (sum * sum) >> F;
  return { size: sum >> (F - KEPT), power };
}

/** The smaller of the two entries of a metric for a pair of places. */
function shorter(metric, n, x, o) {
  const there = metric[x * n + o];
  const back = metric[o * n + x];
  return there < back ? there : back;
}

/** Returns a function (x, o) -> lower bound of exp(eps d), or null if eps d is at least AMPLE. */
function exactBounds(epsilon, xy, metric, n) {
  const level = exactParts(epsilon);
  const { unit, at } = metric ? { unit: 0, at: null } : onLattice(xy);
  return (x, o) => {
    let distance, e;
    if (metric) {
      ({ m: distance, e } = exactParts(shorter(metric, n, x, o)));
    } else {
      const east = at[2 * x] - at[2 * o];
      const north = at[2 * x + 1] - at[2 * o + 1];
      const square = east * east + north * north;
      const down = (400 - bitLength(square)) >> 1; // to some 400 bits, by an even shift
      distance = rootDown(shifted(square, 2 * down));
      e = unit - down;
    }
    const y = shifted(level.m * distance, level.e + e + toNumber(F));
    return y >= toBigInt(AMPLE) << F ? null : expDown(y);
  };
}

// --- doubles -------------------------------------------------------------------------------

const TWO_TO = new F64(65);
TWO_TO[0] = 1;
for (let k = 1; k <= 64; k++) TWO_TO[k] = 2 * TWO_TO[k - 1];

/**
 * A lower bound of exp(y) for 0 <= y <= 44, by the basic operations of IEEE 754 only, because
 * ECMAScript guarantees no accuracy of Math.exp.
 *
 * r = y - k ln 2 has an absolute error below 2^-45 (k <= 63, each operation and the constant to
 * 2^-53). The sum of 18 terms has a relative error below 2^-48, and the terms left out are below
 * 2^-60 for |r| < 0.7. Together this is far less than the factor 1 - 2^-30 at the end.
 */
function expLow(y) {
  const k = floor(y * 1.4426950408889634);
  const r = y - k * 0.6931471805599453;
  let sum = 1;
  for (let i = 17; i > 0; i--) sum = 1 + (sum * r) / i;
  return sum * TWO_TO[k] * (1 - 2 ** -30);
}

/**
 * A lower bound of exp(eps d) in doubles, or 0 if none is certain.
 *
 * Differences, squares and their sum have a relative error below 2^-50. The root is used only if
 * its square shows that it is at most 2^-45 too large. The factor 1 - 2^-40 covers all of these.
 */
function lowFactor(epsilon, xy, metric, n, x, o) {
  let away;
  if (metric) {
    away = shorter(metric, n, x, o);
  } else {
    const east = xy[2 * x] - xy[2 * o];
    const north = xy[2 * x + 1] - xy[2 * o + 1];
    const square = east * east + north * north;
    away = sqrt(square);
    if (!(away * away * (1 - 2 ** -45) <= square)) return 0;
  }
  const y = epsilon * away * (1 - 2 ** -40);
  return y >= AMPLE ? TWO_TO[63] : expLow(y);
}

// --- the check -----------------------------------------------------------------------------

/**
 * Prepare the exact check of every ratio. Returns a function that continues the check for 0.1 s. It
 * returns true when all ratios are checked and hold, and false when there is more to do. It throws
 * GuaranteeError at the first ratio that does not hold.
 *
 * @param counts BigUint64Array, n rows of m, each of which sums to 2^63
 * @param xy Float64Array of n points in the plane; `metric`, n by n, replaces it if not null
 */
export function ratioCheck(counts, n, m, epsilon, xy, metric) {
  // A column of zeros is private and needs no comparison.
  const used = new I32(m);
  let width = 0;
  for (let z = 0; z < m; z++) {
    let any = false;
    for (let x = 0; x < n && !any; x++) any = counts[x * m + z] !== 0n;
    if (any) used[width++] = z;
  }
  const values = new F64(n * width);
  for (let x = 0; x < n; x++) {
    for (let u = 0; u < width; u++) values[x * width + u] = toNumber(counts[x * m + used[u]]);
  }
  const boundOf = exactBounds(epsilon, xy, metric, n);

  function checkPair(x, o) {
    // A count as a double, and a product, has a relative error of 2^-53: 2^-50 covers all four.
    const low = lowFactor(epsilon, xy, metric, n, x, o) * (1 - 2 ** -50);
    let bound;
    for (let u = 0, i = x * width, j = o * width; u < width; u++, i++, j++) {
      if (values[i] <= low * values[j] && values[j] <= low * values[i]) continue;
      if (bound === undefined) bound = boundOf(x, o);
      const here = counts[x * m + used[u]];
      const there = counts[o * m + used[u]];
      if (above(here, there, bound)) refuse(x, o, used[u], epsilon);
      if (above(there, here, bound)) refuse(o, x, used[u], epsilon);
    }
  }

  let next = 0;
  return () => {
    const begun = now();
    while (next < n) {
      for (let o = next + 1; o < n; o++) checkPair(next, o);
      next++;
      if (now() - begun > STEP_MS) break;
    }
    return next >= n;
  };
}

function refuse(x, o, z, epsilon) {
  throw new GuaranteeError(
    `not private: place ${x} reports output ${z} more often than epsilon ${epsilon} allows compared with place ${o}`,
  );
}

/** Whether a > bound b, in integers. */
function above(a, b, bound) {
  if (bound === null) return b === 0n && a > 0n;
  return a << KEPT > (bound.size << bound.power) * b;
}
