// Checks of a mechanism file of version 2, for mechanisms with a guarantee for every point: names,
// types, shapes and ranges, as docs/format.md has them.
import { checkArrays, checkNumbers, checkProof, every, fail, isOneOf } from "./checks.js";
import { axisOf, UNITS_PER_KM } from "./lattice.js";
import { keys, lengthOf } from "./primordials.js";

const MOST_NUMBERS = 1e8;
const MOST_OUTPUTS = 10_000;
const MOST_POINTS = 1_000_000;
const FURTHEST_KM = 3400; // as in checks.js
const ARRAYS = {
  __proto__: null, counts: "U64", xs: "I64", ys: "I64", outputs: "F64", outputs_latlon: "F64",
  points: "F64", weights: "F64", proof_centres: "F64", proof_cluster: "I32", proof_output: "I32",
  proof_left: "I32", proof_right: "I32", proof_value: "F64",
};
const NEEDED = ["counts", "xs", "ys", "outputs"];
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
  if (told.kind === "planar-laplace") {
    fail("a file of planar Laplace noise must be read with the Python library: this client draws from a lattice only");
  }
  if (told.epsilon === null) fail("a mechanism for every point must have an epsilon");
  if (told.epsilon_unit !== "per km") fail("epsilon_unit must be per km");
  if (told.units_per_km !== UNITS_PER_KM) fail("units_per_km must be 2^40");
}

/** Check the arrays; return the axes in units, and the numbers of vertices and outputs. */
export function checkLattice(arrays) {
  checkArrays(arrays, ARRAYS, NEEDED);
  const xs = arrays.xs.shape.length === 1 ? axisOf(arrays.xs.values) : null;
  const ys = arrays.ys.shape.length === 1 ? axisOf(arrays.ys.values) : null;
  if (xs === null || ys === null) {
    fail("xs and ys must be increasing by a millimetre or more, and within 4096 km of the origin");
  }
  const n = lengthOf(xs) * lengthOf(ys);
  const { shape } = arrays.counts;
  const m = arrays.outputs.shape[0];
  if (!(m >= 1 && m <= MOST_OUTPUTS)) fail("a mechanism must have 1 to 10,000 outputs");
  if (shape.length !== 2 || shape[0] !== n || shape[1] !== m) {
    fail("counts must have a row for each vertex and a column for each output");
  }
  if (n * m > MOST_NUMBERS) fail("counts must be at most 100,000,000 numbers");
  checkNumbers(arrays, "outputs", m, 2);
  checkNumbers(arrays, "outputs_latlon", m, 2);
  checkPoints(arrays, m);
  return { xs, ys, n, m };
}

/** Check the visited points and the arrays of the proof, which come with them only. */
function checkPoints(arrays, m) {
  const { points, weights, proof_centres: centres, proof_cluster: cluster } = arrays;
  if (!points !== !weights) fail("points and weights come together");
  const proof = centres || cluster || arrays.proof_output || arrays.proof_left || arrays.proof_right || arrays.proof_value;
  if (!points) {
    if (proof) fail("a proof comes with the points only");
    return;
  }
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
  if (!proof) return;
  const c = centres ? centres.shape[0] : 0;
  const whole =
    c >= 1 && cluster && cluster.shape.length === 1 && cluster.shape[0] === n &&
    every(cluster.values, n, (centre) => centre >= 0 && centre < c);
  if (!whole || !arrays.proof_value) fail("its proof is not of the form it must be");
  checkNumbers(arrays, "proof_centres", c, 2);
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

/** Whether a point in km is so near to the centre of a plane that its km are km of the ground. */
export const isNear = (east, north) => east * east + north * north <= FURTHEST_KM * FURTHEST_KM;
