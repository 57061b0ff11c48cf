// Checks of a mechanism file of version 2, for mechanisms with a guarantee for every point: names,
// types, shapes and ranges, as docs/format.md has them.
import {
  checkArrays, checkDifferent, checkNumbers, checkProof, every, fail, isOneOf,
} from "./checks.js";
import { FURTHEST_KM } from "./constants.js";
import { InputError } from "./errors.js";
import { axisOf, UNITS_PER_KM } from "./lattice.js";
import { project } from "./plane.js";
import { abs, F64, hex, isFinite, keys, lengthOf, U8 } from "./primordials.js";
import { joined, sha256 } from "./sha256.js";

export const UNIT = "per km";
export const METRIC = "Euclidean distance between any two points of the plane, in km";
const TOTAL = 1n << 63n;
const MOST_NUMBERS = 1e8;
const MOST_OUTPUTS = 10_000;
const MOST_CENTRES = 10_000;
const MOST_POINTS = 1_000_000;

const ARRAYS = {
  __proto__: null, xs: "I64", ys: "I64", outputs: "F64", outputs_latlon: "F64",
  points: "F64", weights: "F64", proof_centres: "F64", proof_cluster: "I32", proof_output: "I32",
  proof_left: "I32", proof_right: "I32", proof_value: "F64",
};
const OF_A_LATTICE = { __proto__: null, ...ARRAYS, counts: "U64" };
const OF_A_TABLE = { __proto__: null, ...ARRAYS, table: "I32" };
const FACTS = ["kind", "epsilon", "epsilon_unit", "units_per_km", "outputs", "build"];
const WORDS = ["method", "solver", "stopped", "points_sha256", "created"];
const NUMBERS = [
  "quality_loss_km", "lower_bound_km", "gap", "repair_mix", "repair_cost_km", "seconds",
];
/** The names in a certificate of version 2, and which of them are words and numbers. */
export const CERTIFICATE = {
  __proto__: null, words: WORDS, numbers: NUMBERS,
  names: [
    ...WORDS, ...NUMBERS, "certified", "epsilon", "epsilon_unit", "metric", "kind", "vertices",
    "cells", "outputs", "corners_checked", "tightest_epsilon", "tightest_at", "versions", "guarantee",
  ],
};
/** Numbers that `build` has in version 2 only. */
export const BUILD_NUMBERS = ["loss_km", "program_bound_km", "other_loss_km"];

/** Check that the description of a mechanism has exactly the names of version 2, and a kind. */
export function checkFacts(told) {
  const names = keys(told);
  if (names.length !== FACTS.length || !every(names, names.length, (name) => isOneOf(FACTS, name))) {
    fail("what it says of the mechanism is not of the form it must be");
  }
  if (told.kind !== "lattice" && told.kind !== "planar-laplace") {
    fail("kind must be lattice or planar-laplace");
  }
  if (told.epsilon === null) fail("a mechanism for every point must have an epsilon");
  if (told.epsilon_unit !== UNIT) fail("epsilon_unit must be per km");
  if (told.units_per_km !== UNITS_PER_KM) fail("units_per_km must be 2^40");
}

/** Check the arrays of a lattice; return the axes in units, and how many vertices and outputs. */
export function checkLattice(arrays) {
  checkArrays(arrays, OF_A_LATTICE, ["counts", "xs", "ys", "outputs"]);
  const { xs, ys, m } = checkParts(arrays);
  const n = lengthOf(xs) * lengthOf(ys);
  if (!hasShape(arrays.counts, n, m)) {
    fail("counts must have a row for each vertex and a column for each output");
  }
  checkVisitedProof(arrays, m);
  return { xs, ys, n, m };
}

/** Check the arrays of a table; return its borders in units, and the number of outputs. */
export function checkTable(arrays) {
  checkArrays(arrays, OF_A_TABLE, ["table", "xs", "ys", "outputs"]);
  const { xs, ys, m } = checkParts(arrays);
  if (hasProof(arrays)) fail("a proof comes with a lattice only");
  const { table } = arrays;
  if (!hasShape(table, lengthOf(ys) + 1, lengthOf(xs) + 1)) {
    fail("table must have a row and a column more than there are borders");
  }
  if (!every(table.values, table.count, (number) => number >= 0 && number < m)) {
    fail("table must name outputs of the file");
  }
  return { xs, ys, m };
}

/** Whether an array is a matrix of this shape, and not too large. */
const hasShape = ({ shape, count }, rows, columns) =>
  shape.length === 2 && shape[0] === rows && shape[1] === columns && count <= MOST_NUMBERS;

/** Check the arrays that both kinds have. */
function checkParts(arrays) {
  const xs = arrays.xs.shape.length === 1 ? axisOf(arrays.xs.values) : null;
  const ys = arrays.ys.shape.length === 1 ? axisOf(arrays.ys.values) : null;
  if (xs === null || ys === null) {
    fail("xs and ys must be increasing by a millimetre or more, and within 4096 km of the origin");
  }
  const m = arrays.outputs.shape[0];
  if (!(m >= 1 && m <= MOST_OUTPUTS)) fail("a mechanism must have 1 to 10,000 outputs");
  checkNumbers(arrays, "outputs", m, 2);
  checkNumbers(arrays, "outputs_latlon", m, 2);
  checkPoints(arrays);
  return { xs, ys, m };
}

/** Check the visited points and their weights. */
function checkPoints(arrays) {
  const { points, weights } = arrays;
  if (!points !== !weights) fail("points and weights come together");
  if (!points) return;
  const n = points.shape[0];
  if (!(n >= 1 && n <= MOST_POINTS)) fail("points must be from 1 to 1,000,000");
  checkNumbers(arrays, "points", n, 2);
  checkNumbers(arrays, "weights", n, null);
  let total = 0;
  for (let i = 0; i < n; i++) {
    if (!(weights.values[i] > 0)) fail("weights must be positive");
    total += weights.values[i];
  }
  if (!(total >= 1 - 1e-6 && total <= 1 + 1e-6)) fail("weights must sum to 1");
}

const PROOF = [
  "proof_centres", "proof_cluster", "proof_output", "proof_left", "proof_right", "proof_value",
];
const hasProof = (arrays) => !every(PROOF, PROOF.length, (name) => !arrays[name]);

/** Check the form of the proof of a lower bound: clusters of the points, and multipliers. */
function checkVisitedProof(arrays, m) {
  if (!hasProof(arrays)) return;
  const { points, proof_centres: centres, proof_cluster: cluster } = arrays;
  if (!points) fail("a proof comes with the points only");
  if (!centres || !cluster || !arrays.proof_value) fail("its proof is not of the form it must be");
  const c = centres.shape[0];
  const n = points.shape[0];
  if (!(c >= 1 && c <= MOST_CENTRES)) fail("a proof must have 1 to 10,000 centres");
  checkNumbers(arrays, "proof_centres", c, 2);
  const used = new U8(c);
  const known = (centre) => {
    if (!(centre >= 0 && centre < c)) return false;
    used[centre] = 1;
    return true;
  };
  const whole = cluster.shape.length === 1 && cluster.shape[0] === n &&
    every(cluster.values, n, known) && every(used, c, (mark) => mark === 1);
  if (!whole) fail("its proof must have a centre for each point, and a point at each centre");
  checkDifferent("proof_centres", centres.values, centres.count);
  checkProof(arrays, c, m);
}

/** Check that every vertex is near enough to the centre of the plane for an epsilon per km. */
export function checkNear(xs, ys) {
  const far = (axis) => {
    const last = lengthOf(axis) - 1;
    const low = -axis[0] / UNITS_PER_KM;
    const high = axis[last] / UNITS_PER_KM;
    return low > high ? low : high;
  };
  const east = far(xs);
  const north = far(ys);
  if (!isNear(east, north)) {
    fail(`with a plane, the lattice must be within ${FURTHEST_KM} km of its centre`);
  }
}

const isNear = (east, north) => east * east + north * north <= FURTHEST_KM * FURTHEST_KM;

/** The digest of the visited points and their weights, or null if the file holds none. */
export const pointsDigest = ({ points, weights }) =>
  points ? hex(sha256(joined(points.bytes, weights.bytes))) : null;

/** Refuse what is no point in km, or too far from the centre of a plane for an epsilon per km. */
export function checkKm(plane, east, north) {
  if (!isFinite(east) || !isFinite(north)) throw new InputError("a point must be two numbers, in km");
  if (plane && !isNear(east, north)) {
    throw new InputError(
      "a point must be within 3400 km of the centre of the plane, where a km of the plane is a km " +
        "of the ground up to 5 %",
    );
  }
}

/** Project degrees to km in the plane of a mechanism. */
export function toPlane(plane, latitude, longitude) {
  if (!plane) throw new InputError("this mechanism does not lie on the earth");
  const sane =
    typeof latitude === "number" && typeof longitude === "number" &&
    abs(latitude) <= 90 && abs(longitude) <= 180; // false for NaN
  if (!sane) throw new InputError("a point must be latitude and longitude in degrees");
  return project(plane, latitude, longitude);
}

/** A function that returns the next word, and refuses what is not 63 random bits. */
export function checkedWords(next) {
  if (typeof next !== "function") throw new InputError("next must be a function that returns random bits");
  return () => {
    const bits = next();
    if (typeof bits !== "bigint" || bits < 0n || bits >= TOTAL) {
      throw new InputError("random bits must be a whole number from 0 to 2^63 - 1");
    }
    return bits;
  };
}

/** Visited points that a caller gives, [lat, lon] each, in km in the plane; and their weights. */
export function visitsInKm(plane, { points, weights }) {
  const count = points?.length ?? 0;
  if (count < 1 || weights?.length !== count) {
    throw new InputError("visits must have points, pairs [lat, lon], and a weight for each");
  }
  const found = { points: new F64(2 * count), weights: new F64(count) };
  for (let i = 0; i < count; i++) {
    const at = toPlane(plane, points[i][0], points[i][1]);
    found.points[2 * i] = at[0];
    found.points[2 * i + 1] = at[1];
    found.weights[i] = weights[i];
    if (!(found.weights[i] >= 0)) throw new InputError("weights must be numbers of at least 0");
  }
  return found;
}
