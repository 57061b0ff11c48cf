// A rectangular lattice: the cell of a raw point, and the choice of a corner. Coordinates are whole
// numbers of a unit of 2^-40 km, about a nanometre. A point is rounded to units first, and from then
// on everything is exact. docs/proofs/everywhere.md has the proofs; the Python library has the same
// in places/lattice.py and release/corners.py.
import { F64, floor, hypot, lengthOf, toBigInt, toNumber } from "./primordials.js";

export const UNITS_PER_KM = 2 ** 40; // a power of two: a multiplication by it is exact
// Coordinates are at most 4096 km from the origin, so that they and their differences are exact.
export const FURTHEST_LATTICE_KM = 4096;
const FURTHEST = 1n << 52n;
const SQUARE_KM = 0.1; // GPS fixes of a person who stays are within it, or in a square beside it
const SQUARES = 2 ** 20; // more than there are on an axis on each side of the origin: 8192 km
const SMALLEST_STEP = 1_099_512n; // a millimetre, rounded up to units

const clip = (value, low, high) => (value < low ? low : value > high ? high : value);

/** Round km to whole units: floor(2^40 x + 1/2). Beyond 8192 km a coordinate counts as 8192 km. */
export const toUnits = (km) =>
  floor(clip(km, -2 * FURTHEST_LATTICE_KM, 2 * FURTHEST_LATTICE_KM) * UNITS_PER_KM + 0.5);

/**
 * The coordinates of an axis in units, as doubles, which are exact. Null unless there is at least
 * one, all are at most 2^52 units from the origin, and each is a millimetre or more above the last.
 *
 * @param values BigInt64Array
 */
export function axisOf(values) {
  const length = lengthOf(values);
  if (length < 1) return null;
  const units = new F64(length);
  for (let i = 0; i < length; i++) {
    if (values[i] < -FURTHEST || values[i] > FURTHEST) return null;
    if (i > 0 && values[i] - values[i - 1] < SMALLEST_STEP) return null;
    units[i] = toNumber(values[i]);
  }
  return units;
}

/**
 * Where a coordinate in units is on an axis, within its range: the indices of the lower and the
 * upper end of its interval, the `steps` from the lower end to the point, and the `width` of the
 * interval. All are exact. An axis with one coordinate has an interval of width 1 and step 0.
 */
function onAxis(axis, at) {
  const last = lengthOf(axis) - 1;
  if (last === 0) return { lower: 0, upper: 0, steps: 0, width: 1 };
  let lower = 0;
  for (let i = 1; i < last; i++) if (axis[i] <= at) lower = i;
  return { lower, upper: lower + 1, steps: at - axis[lower], width: axis[lower + 1] - axis[lower] };
}

/**
 * Where a point in km is in a lattice, after the projection onto its rectangle: { x, y }, one
 * interval for each axis, `movedKm`, and the number of the `square` of 100 m.
 */
export function positionOf(xs, ys, east, north) {
  const rawX = toUnits(east);
  const rawY = toUnits(north);
  const x = clip(rawX, xs[0], xs[lengthOf(xs) - 1]);
  const y = clip(rawY, ys[0], ys[lengthOf(ys) - 1]);
  const movedKm = hypot(rawX - x, rawY - y) / UNITS_PER_KM;
  return { x: onAxis(xs, x), y: onAxis(ys, y), movedKm, square: squareOf(x, y) };
}

/** The number of the square of 100 m that a point in units is in, as in Python's Reporter. */
export function squareOf(x, y) {
  const size = SQUARE_KM * UNITS_PER_KM;
  return (floor(x / size) + SQUARES) * 2 * SQUARES + floor(y / size) + SQUARES;
}

/**
 * Whether a word of 63 bits chooses the upper end of an interval: with probability exactly
 * steps / width. The word is compared with the first 63 binary digits of the quotient. Where they
 * are equal, which has probability 2^-63, a further word decides with the next 63 digits.
 */
export function choosesUpper(word, { steps, width }, next) {
  const divisor = toBigInt(width);
  let rest = toBigInt(steps);
  let drawn = word;
  for (;;) {
    const shifted = rest << 63n;
    const quotient = shifted / divisor;
    rest = shifted - quotient * divisor;
    if (drawn !== quotient) return drawn < quotient;
    if (rest === 0n) return false;
    drawn = next();
  }
}
