// The private test of the predictive mechanism: whether the true location is near a public guess.
//
// With t = d(x, g) - l for a guess g and a threshold l,
//
//     P(near | x) = exp(-eps_t t) / 2 if t >= 0, and 1 - exp(eps_t t) / 2 otherwise.
//
// It is a mechanism with two outputs, near and far. Between places it is a matrix of n rows, for all
// points a lattice around the guess. Both are rounded to counts out of 2^63 and audited exactly, like
// every other mechanism, or there is no test. The same steps as mechanisms/private_test.py and
// everywhere/private_test.py; the proof is in docs/proofs/traces.md.
//
// Probabilities are computed by the basic operations of IEEE 754, because ECMAScript guarantees no
// accuracy of Math.exp: they are the same in every engine.
import {
  TEST_BELOW, TEST_BLUNT, TEST_EXPONENT, TEST_REACH, TEST_SPACING, TEST_STEPS, TEST_TOLERANCE,
} from "./constants.js";
import { cornerCheck } from "./corners.js";
import { GuaranteeError, InputError } from "./errors.js";
import { checkedWords } from "./everywhere-checks.js";
import { choosesUpper, FURTHEST_LATTICE_KM, positionOf, toUnits, UNITS_PER_KM } from "./lattice.js";
import { ceil, create, F64, floor, freeze, lengthOf, sqrt, toBigInt, toNumber, U64 } from "./primordials.js";
import { closestExponent, roundedPrivate } from "./rounding.js";

const TOTAL = 1n << 63n;
const MOST_VERTICES_ASIDE = 700; // of a quarter of the lattice: epsilon times threshold up to 54
const SMALLEST_STEP_KM = 1e-6; // a millimetre, as of every lattice

// ln 2 in two parts: products of the first with whole numbers below 2^20 are exact.
const LN2_HIGH = 6.93147180369123816490e-1;
const LN2_LOW = 1.90821492927058770002e-10;
const HALVES = new F64(64);
HALVES[0] = 1;
for (let k = 1; k < 64; k++) HALVES[k] = HALVES[k - 1] / 2;

/** exp(-y) for 0 <= y <= 40, to a relative error below 2^-50. */
function expMinus(y) {
  const k = floor(y * 1.4426950408889634 + 0.5);
  const r = y - k * LN2_HIGH - k * LN2_LOW;
  let sum = 1;
  for (let i = 17; i > 0; i--) sum = 1 - (sum * r) / i;
  return sum * HALVES[k];
}

/** The smaller one of P(near) and P(far) at a distance from the guess. */
function smallerShare(distance, epsilon, threshold) {
  const t = epsilon * (distance - threshold);
  const size = t < 0 ? -t : t;
  return expMinus(size < TEST_EXPONENT ? size : TEST_EXPONENT) / 2;
}

/** The tests of all guesses of a mechanism between places, each made and audited when it is needed. */
export class PlaceTests {
  #mechanism;
  #epsilon;
  #threshold;
  #xy;
  #metric;
  #closest;
  #near;

  constructor(mechanism, epsilon, threshold) {
    const n = mechanism.places;
    this.#mechanism = mechanism;
    this.#epsilon = epsilon;
    this.#threshold = threshold;
    this.#xy = new F64(2 * n);
    for (let x = 0; x < n; x++) {
      const at = mechanism.input(x);
      this.#xy[2 * x] = at[0];
      this.#xy[2 * x + 1] = at[1];
    }
    this.#metric = mechanism.metricDigest === null ? null : new F64(n * n);
    for (let x = 0; x < n && this.#metric !== null; x++) {
      const row = mechanism.distances(x);
      for (let o = 0; o < n; o++) this.#metric[x * n + o] = row[o];
    }
    this.#closest = closestExponent(epsilon, n, (x, o) => this.#distance(x, o));
    this.#near = create(null);
    freeze(this);
  }

  #distance(x, o) {
    if (this.#metric !== null) return this.#metric[x * this.#mechanism.places + o];
    return apart(this.#xy[2 * x] - this.#xy[2 * o], this.#xy[2 * x + 1] - this.#xy[2 * o + 1]);
  }

  /** The place nearest to an output stands for it. Both are public. */
  #placeOf(guess) {
    const at = this.#mechanism.outputInPlane(guess);
    return nearestOf(this.#xy, at[0], at[1]);
  }

  /** The audited counts of "near" at every place, out of 2^63. */
  nearCounts(guess) {
    const place = this.#placeOf(guess);
    if (this.#near[place] === undefined) this.#near[place] = this.#made(place);
    return this.#near[place];
  }

  #made(place) {
    const n = this.#mechanism.places;
    const matrix = new F64(2 * n);
    for (let x = 0; x < n; x++) {
      const distance = this.#distance(place, x);
      const share = smallerShare(distance, this.#epsilon * TEST_BELOW, this.#threshold);
      const isFar = distance >= this.#threshold;
      matrix[2 * x] = isFar ? share : 1 - share;
      matrix[2 * x + 1] = isFar ? 1 - share : share;
    }
    const { counts } = roundedPrivate(matrix, {
      n, m: 2, epsilon: this.#epsilon, xy: this.#xy, metric: this.#metric, closest: this.#closest,
    });
    const near = new U64(n);
    for (let x = 0; x < n; x++) near[x] = counts[2 * x];
    return near;
  }

  /** Draw a test, from 63 random bits of `next`: whether the true place counts as far from a guess. */
  isFar(guess, { place }, next) {
    return checkedWords(next)() >= this.nearCounts(guess)[place];
  }

  /** P(far), or P(near), at places of the plane (F64 of pairs), for a filter. */
  likelihood(guess, isFar, xy) {
    const near = this.nearCounts(guess);
    const n = lengthOf(xy) / 2;
    const found = new F64(n);
    for (let k = 0; k < n; k++) {
      const share = toNumber(near[nearestOf(this.#xy, xy[2 * k], xy[2 * k + 1])]) / 2 ** 63;
      found[k] = isFar ? 1 - share : share;
    }
    return found;
  }
}
freeze(PlaceTests.prototype);
freeze(PlaceTests);

const LATTICES = create(null); // by epsilon and threshold

/** The tests of all guesses of a mechanism for all points: one audited lattice for all of them. */
export class LatticeTests {
  #outputs;
  #axis;
  #half;
  #near;
  #inner;

  constructor(mechanism, epsilon, threshold) {
    const half = ceil((epsilon * threshold + TEST_REACH) / TEST_SPACING);
    const step = TEST_SPACING / epsilon;
    if (!(half < MOST_VERTICES_ASIDE)) {
      throw new InputError(
        "epsilonTest times threshold must be at most 50 for a mechanism for all points, and is more: " +
          "give a smaller threshold",
      );
    }
    if (!(half * step <= FURTHEST_LATTICE_KM && step >= 2 * SMALLEST_STEP_KM)) {
      throw new InputError(
        "the lattice of a test has steps of 0.1 / epsilonTest km: they must be 2 mm at least, and the " +
          `lattice must end within ${FURTHEST_LATTICE_KM} km. Give another epsilonTest`,
      );
    }
    this.#outputs = mechanism;
    this.#half = half;
    this.#axis = new F64(2 * half + 1);
    const side = new F64(half + 1);
    for (let i = 0; i <= half; i++) {
      side[i] = toUnits(i * step);
      this.#axis[half + i] = side[i];
      this.#axis[half - i] = -side[i];
    }
    // The same for all mechanisms: made once in a page, in about a second.
    const name = `${epsilon} ${threshold}`;
    if (LATTICES[name] === undefined) LATTICES[name] = latticeTest(side, epsilon, threshold);
    const { near, inner } = LATTICES[name];
    this.#near = near;
    this.#inner = inner;
    freeze(this);
  }

  /** The epsilon of the interpolated function: the largest one whose counts pass the audit. */
  get innerEpsilon() {
    return this.#inner;
  }

  /** The audited count of "near" at a vertex, by its steps east and north of the guess. */
  nearCount(east, north) {
    const right = east < 0 ? -east : east;
    const up = north < 0 ? -north : north;
    return this.#near[up * (this.#half + 1) + right];
  }

  #position(guess, east, north) {
    const at = this.#outputs.output(guess).xyKm;
    // Both are whole units, so their difference and its division by a power of two are exact.
    const x = (toUnits(east) - toUnits(at[0])) / UNITS_PER_KM;
    const y = (toUnits(north) - toUnits(at[1])) / UNITS_PER_KM;
    return positionOf(this.#axis, this.#axis, x, y);
  }

  /**
   * Draw a test: whether a point in km counts as far from a guess. `next` returns 63 random bits; it
   * is called three times, for the column, the row and the result, as for a report.
   */
  isFar(guess, { east, north }, next) {
    const word = checkedWords(next);
    const { x, y } = this.#position(guess, east, north);
    const forColumn = word();
    const forRow = word();
    const forResult = word();
    const ix = choosesUpper(forColumn, x, word) ? x.upper : x.lower;
    const iy = choosesUpper(forRow, y, word) ? y.upper : y.lower;
    return forResult >= this.nearCount(ix - this.#half, iy - this.#half);
  }

  /** P(far), or P(near), at places of the plane (F64 of pairs), for a filter. */
  likelihood(guess, isFar, xy) {
    const n = lengthOf(xy) / 2;
    const found = new F64(n);
    const at = (ix, iy) => toNumber(this.nearCount(ix - this.#half, iy - this.#half)) / 2 ** 63;
    for (let k = 0; k < n; k++) {
      const { x, y } = this.#position(guess, xy[2 * k], xy[2 * k + 1]);
      const s = x.steps / x.width;
      const t = y.steps / y.width;
      const share = (1 - t) * ((1 - s) * at(x.lower, y.lower) + s * at(x.upper, y.lower)) +
        t * ((1 - s) * at(x.lower, y.upper) + s * at(x.upper, y.upper));
      found[k] = isFar ? 1 - share : share;
    }
    return found;
  }
}
freeze(LatticeTests.prototype);
freeze(LatticeTests);

/**
 * Build the test of a guess at the origin, on the quarter of the lattice east and north of it: every
 * cell elsewhere is a mirror image of one there, so its audit is that of the whole. Returns the counts
 * of "near", and the inner epsilon: the largest one, at most epsilon, whose counts pass the audit.
 *
 * @param side F64, the coordinates in units, from 0 on
 */
function latticeTest(side, epsilon, threshold) {
  const count = lengthOf(side);
  const blunt = TEST_BLUNT / epsilon; // no tip at the guess, where the slopes of both axes add up
  const distances = new F64(count * count);
  for (let iy = 0; iy < count; iy++) {
    for (let ix = 0; ix < count; ix++) {
      const x = side[ix] / UNITS_PER_KM;
      const y = side[iy] / UNITS_PER_KM;
      distances[iy * count + ix] = sqrt(x * x + y * y + blunt * blunt);
    }
  }
  const smaller = new F64(count * count);
  const make = (inner) => {
    for (let v = 0; v < count * count; v++) {
      const share = floor(smallerShare(distances[v], inner, threshold) * 2 ** 63);
      smaller[v] = share < 1 ? 1 : share;
    }
  };
  let low = 0;
  let high = epsilon;
  for (let round = 0; round < TEST_STEPS && high - low > TEST_TOLERANCE * epsilon; round++) {
    const inner = (low + high) / 2;
    make(inner);
    if (steepest(smaller, distances, side, threshold) <= epsilon) low = inner;
    else high = inner;
  }
  for (; low > 0; low *= 1 - TEST_TOLERANCE) {
    make(low);
    const counts = new U64(2 * count * count);
    for (let v = 0; v < count * count; v++) {
      const share = toBigInt(smaller[v]);
      const isFar = distances[v] >= threshold;
      counts[2 * v] = isFar ? share : TOTAL - share;
      counts[2 * v + 1] = isFar ? TOTAL - share : share;
    }
    if (!passes(counts, side, epsilon)) continue;
    const near = new U64(count * count);
    for (let v = 0; v < count * count; v++) near[v] = counts[2 * v];
    return { near, inner: low };
  }
  throw new GuaranteeError("no test on this lattice is private at its epsilon: give another epsilonTest");
}

function passes(counts, side, epsilon) {
  try {
    const { goOn } = cornerCheck(counts, 2, side, side, epsilon);
    while (goOn() !== true);
    return true;
  } catch (wrong) {
    if (wrong instanceof GuaranteeError) return false;
    throw wrong;
  }
}

/**
 * About the tightest epsilon of the counts on a quarter, per km. Both outputs have the same slopes, so
 * the one with fewer counts decides at every corner.
 */
function steepest(smaller, distances, side, threshold) {
  const count = lengthOf(side);
  const near = (v) => (distances[v] >= threshold ? smaller[v] : 2 ** 63 - smaller[v]);
  // A difference of counts on the same side of the threshold is one of the smaller ones: exact.
  const slope = (v, a) => {
    const same = distances[v] >= threshold === distances[a] >= threshold;
    return same ? smaller[a] - smaller[v] : near(a) - near(v);
  };
  let most = 0;
  for (let iy = 0; iy < count; iy++) {
    for (let ix = 0; ix < count; ix++) {
      const v = iy * count + ix;
      let east = 0;
      if (ix > 0) east = slope(v, v - 1) / (side[ix] - side[ix - 1]);
      let other = ix + 1 < count ? slope(v, v + 1) / (side[ix + 1] - side[ix]) : 0;
      if (other * other > east * east) east = other;
      let north = 0;
      if (iy > 0) north = slope(v, v - count) / (side[iy] - side[iy - 1]);
      other = iy + 1 < count ? slope(v, v + count) / (side[iy + 1] - side[iy]) : 0;
      if (other * other > north * north) north = other;
      const square = (east * east + north * north) / (smaller[v] * smaller[v]);
      if (square > most) most = square;
    }
  }
  return sqrt(most) * UNITS_PER_KM;
}

const apart = (x, y) => sqrt(x * x + y * y);

/** The number of the point nearest to another one. */
export function nearestOf(xy, east, north) {
  const n = lengthOf(xy) / 2;
  let found = 0;
  let best = Infinity;
  for (let i = 0; i < n; i++) {
    const away = apart(xy[2 * i] - east, xy[2 * i + 1] - north);
    if (away < best) {
      best = away;
      found = i;
    }
  }
  return found;
}
