// The linear program of a solve: made from places, and checked. A message never holds a number of a
// place or of a prior.

import { InputError, SolveError } from "../whereish/errors.js";
import { spannerOf } from "./spanner.js";

const LARGEST = 30000; // inputs or outputs, as in core/program.c
const SMALLEST_TOLERANCE = 1e-12; // below, rounding decides
const PRIOR_TOLERANCE = 1e-6;
const TOLERANCE = 1e-6;

/**
 * The program of an optimal mechanism whose inputs and outputs are `places`, [x, y] in km, at
 * `epsilon` per km. With a `dilation` above 1 only the edges of a spanner are constrained, at
 * epsilon / its dilation: the same privacy, fewer constraints, slightly more loss.
 */
export function programOf(places, epsilon, dilation = 1) {
  lengthOf("places", places);
  if (!isPositive(epsilon)) throw new InputError("epsilon must be a number above 0, per km");
  const distances = distancesOf(places);
  const spanner = spannerOf(distances, dilation);
  return {
    loss: distances,
    pairs: spanner.edges,
    exponents: spanner.lengths.map((length) => (epsilon / spanner.exactDilation) * length),
    reach: distances.map((distance) => epsilon * distance),
  };
}

/** The n x n distances of places [x, y] in km, row by row. */
export function distancesOf(places) {
  const n = places.length;
  const distances = new Float64Array(n * n);
  for (let x = 0; x < n; x++) {
    if (places[x]?.length !== 2 || !places[x].every(Number.isFinite)) {
      throw new InputError("places must be pairs [x, y] of numbers, in km");
    }
    for (let y = 0; y < x; y++) {
      // Not Math.hypot, which differs between browsers.
      const east = places[x][0] - places[y][0];
      const north = places[x][1] - places[y][1];
      const square = east * east + north * north;
      const distance = Math.sqrt(square);
      if (!(distance > 0 && distance < Infinity)) {
        throw new InputError(`places must differ, and those at [${y}] and [${x}] do not`);
      }
      // The proof of the lower bound needs it, and ECMAScript does not promise it.
      if (!(Math.abs(distance * distance - square) <= 2 ** -50 * square)) {
        throw new SolveError("this device's square root must be exact to 51 bits, and it is not");
      }
      distances[x * n + y] = distances[y * n + x] = distance;
    }
  }
  return distances;
}

/** The program and the settings of the options of `solve`, checked: arrays of the core's types. */
export function checked(options) {
  if (options === null || typeof options !== "object") {
    throw new InputError("solve needs an object with places or loss, and a prior");
  }
  const { places, epsilon, dilation, tolerance = TOLERANCE, timeLimit = Infinity } = options;
  if ((places === undefined) === (options.loss === undefined)) {
    throw new InputError("solve needs either places and epsilon, or loss, pairs, exponents and reach");
  }
  if (!(typeof tolerance === "number" && tolerance >= SMALLEST_TOLERANCE && tolerance <= 1)) {
    throw new InputError(`tolerance must be a number from ${SMALLEST_TOLERANCE} to 1`);
  }
  if (!(typeof timeLimit === "number" && timeLimit >= 0)) {
    throw new InputError("timeLimit must be a number of seconds, at least 0");
  }
  const n = lengthOf("prior", options.prior);
  if (places !== undefined && lengthOf("places", places) !== n) {
    throw new InputError("prior must have one number for each place");
  }
  const prior = numbers("prior", options.prior, Number.MAX_VALUE);
  const total = prior.reduce((sum, weight) => sum + weight, 0);
  if (!(Math.abs(total - 1) <= PRIOR_TOLERANCE)) {
    throw new InputError("prior must sum to 1, and it does not: divide it by its sum");
  }
  const given = places === undefined ? options : programOf(places, epsilon, dilation);
  const loss = numbers("loss", given.loss, Number.MAX_VALUE);
  const m = loss.length / n;
  if (!(Number.isInteger(m) && m >= 1 && m <= LARGEST)) {
    throw new InputError(
      `loss must have n x m numbers, with n numbers in the prior and m from 1 to ${LARGEST}`,
    );
  }
  const pairs = pairsOf(given.pairs, n);
  const exponents = numbers("exponents", given.exponents, Infinity);
  if (exponents.length * 2 !== pairs.length) {
    throw new InputError("exponents must have one number for each pair");
  }
  if (exponents.length > (n * (n - 1)) / 2) {
    throw new InputError("pairs must hold each pair of places once at most");
  }
  const reach = numbers("reach", given.reach, Infinity);
  if (reach.length !== n * n) {
    throw new InputError("reach must have n x n numbers, with n numbers in the prior");
  }
  return { n, m, loss, pairs, exponents, reach, prior, tolerance, timeLimit };
}

const isPositive = (value) => typeof value === "number" && value > 0 && value < Infinity;

function lengthOf(name, list) {
  if (!isList(list) || list.length < 1 || list.length > LARGEST) {
    throw new InputError(`${name} must be a list of 1 to ${LARGEST} entries`);
  }
  return list.length;
}

function isList(value) {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
}

/** Numbers from 0 to `largest`, row by row: from one list, or from a list of rows. */
function numbers(name, value, largest) {
  const flat = flattened(name, value);
  for (const number of flat) {
    if (!(typeof number === "number" && number >= 0 && number <= largest)) {
      const limit = largest === Infinity ? "" : ", and finite";
      throw new InputError(`${name} must be numbers of at least 0${limit}, and one of them is not`);
    }
  }
  return Float64Array.from(flat);
}

function pairsOf(value, n) {
  const flat = flattened("pairs", value);
  const isPlace = (x) => Number.isInteger(x) && x >= 0 && x < n;
  for (let e = 0; e < flat.length; e += 2) {
    if (!isPlace(flat[e]) || !isPlace(flat[e + 1]) || flat[e] === flat[e + 1]) {
      throw new InputError("pairs must be pairs of two places, numbered from 0 to n - 1");
    }
  }
  return Int32Array.from(flat);
}

function flattened(name, value) {
  if (!isList(value)) throw new InputError(`${name} must be a list of numbers`);
  if (!isList(value[0])) return value;
  const width = value[0].length;
  if (!value.every((row) => isList(row) && row.length === width)) {
    throw new InputError(`${name} must have rows of the same length`);
  }
  return value.flatMap((row) => Array.from(row));
}
