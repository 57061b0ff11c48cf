// Checks of a mechanism file, the same as in the Python library (format/mechanism_file.py): the
// type, shape and range of every value, and that all values are about the same places.
import {
  FURTHEST_KM, LARGEST, LARGEST_EPSILON, MOST_PLACES, SAME_PLACE_KM, SMALLEST_EPSILON,
} from "./constants.js";
import { isObject } from "./container.js";
import { FormatError, GuaranteeError } from "./errors.js";
import { abs, F64, hypot, I32, isArray, isFinite, keys, lengthOf, sliceText, sortTyped, U64 } from "./primordials.js";
import { project } from "./plane.js";

const TOTAL = 1n << 63n;
const ARRAYS = {
  __proto__: null, counts: "U64", inputs: "F64", outputs: "F64", inputs_latlon: "F64",
  outputs_latlon: "F64", metric: "F64", prior: "F64", proof_output: "I32", proof_left: "I32",
  proof_right: "I32", proof_value: "F64",
};
const NEEDED = ["counts", "inputs", "outputs"];
const PROOF = ["proof_output", "proof_left", "proof_right", "proof_value"];
const TEXTS = ["format", "version", "mechanism", "certificate", "sha256", "signature", "signer"];
const BUILD_TEXTS = ["method", "solver", "form", "stopped"];
const BUILD_NUMBERS = [
  "seconds", "variables", "constraints", "edges", "dilation", "requested_dilation", "repair_mix",
  "repair_cost_km", "lower_bound_km", "gap", "program_gap",
];

const CLAIMED_WORDS = ["method", "solver", "stopped", "prior_sha256", "created"];
const CLAIMED_NUMBERS = [
  "quality_loss_km", "rounding_cost_km", "lower_bound_km", "gap", "rounding_mix", "repair_mix",
  "repair_cost_km", "requested_dilation", "dilation", "seconds",
];
// The names in a certificate of every version. Python's audit requires exactly these, too.
const CLAIMS = [
  ...CLAIMED_WORDS, ...CLAIMED_NUMBERS, "versions", "certified", "epsilon", "epsilon_unit", "metric",
  "places", "outputs", "ratios_checked", "worst_slack", "worst_slack_at", "largest_snap_km", "guarantee",
];

export const fail = (words) => {
  throw new FormatError(words);
};
export const isNumber = (value) => typeof value === "number" && isFinite(value);
const isText = (value) => typeof value === "string";
export const isOneOf = (list, name) => !every(list, list.length, (other) => other !== name);
const isPair = (value) => isArray(value) && value.length === 2 && isNumber(value[0]) && isNumber(value[1]);
const isSide = (side) => side > 0 && side <= LARGEST;
const onEarth = (lat, lon) => abs(lat) <= 90 && abs(lon) <= 180; // false for NaN

/** Whether `fits` is true for the first `length` elements of a list or typed array. */
export function every(list, length, fits) {
  for (let i = 0; i < length; i++) if (!fits(list[i], i)) return false;
  return true;
}

/** Check the names of the texts; return the version. */
export function checkTexts(texts) {
  if (texts.format !== "whereish mechanism") {
    fail('not a mechanism: its header must say "format": "whereish mechanism"');
  }
  if (texts.version !== "1" && texts.version !== "2" && texts.version !== "3") {
    fail("version must be 1, 2 or 3: this client reads no other");
  }
  const about = keys(texts);
  if (!every(about, about.length, (name) => isOneOf(TEXTS, name))) {
    fail("its header says more than a mechanism's does");
  }
  return texts.version;
}

/** Check that all arrays are known ones of the right type, and that no needed one is missing. */
export function checkArrays(arrays, known, needed) {
  const names = keys(arrays);
  for (let i = 0; i < names.length; i++) {
    if (known[names[i]] !== arrays[names[i]].dtype) {
      fail(`the array ${sliceText(names[i], 0, 40)} is not one that a mechanism has`);
    }
  }
  for (let i = 0; i < needed.length; i++) {
    if (!arrays[needed[i]]) fail(`not a mechanism: ${needed[i]} is missing`);
  }
}

/** Check the names, types and shapes of the arrays of version 1. */
export function checkNames(arrays) {
  checkArrays(arrays, ARRAYS, NEEDED);
  const { shape } = arrays.counts;
  if (shape.length !== 2 || shape[0] < 1 || shape[1] < 1) {
    fail("counts must be a matrix with at least one place and one output");
  }
  const n = shape[0];
  const m = shape[1];
  if (n > MOST_PLACES || m > MOST_PLACES) fail("a mechanism must have at most 10,000 places");
  checkNumbers(arrays, "inputs", n, 2);
  checkNumbers(arrays, "outputs", m, 2);
  checkNumbers(arrays, "inputs_latlon", n, 2);
  checkNumbers(arrays, "outputs_latlon", m, 2);
  checkNumbers(arrays, "metric", n, n);
  checkNumbers(arrays, "prior", n, null);
  return { n, m };
}

/** Check the shape of an array, if the file has it, and that its numbers are finite. */
export function checkNumbers(arrays, name, rows, columns) {
  const array = arrays[name];
  if (!array) return;
  const { shape, values, count } = array;
  const fits = columns === null ? shape.length === 1 : shape.length === 2 && shape[1] === columns;
  if (!fits || shape[0] !== rows) fail(`${name} must be ${rows}${columns ? ` x ${columns}` : ""} numbers`);
  if (!every(values, count, (number) => abs(number) <= LARGEST)) {
    fail(`${name} must be finite, and at most ${LARGEST}`); // NaN fails, too
  }
}

/** Check that every row sums to exactly 2^63; return the running sums of all rows. */
export function runningSums(counts, n, m) {
  const sums = new U64(n * m);
  for (let x = 0; x < n; x++) {
    let sum = 0n;
    for (let z = 0; z < m && sum <= TOTAL; z++) {
      sum += counts[x * m + z];
      sums[x * m + z] = sum;
    }
    if (sum !== TOTAL) throw new GuaranteeError(`row ${x} of the counts must sum to 2^63`);
  }
  return sums;
}

/** Check that places are different, and that their degrees match their plane, if they have one. */
export function checkPlaces(name, arrays, told) {
  const frame = told[name];
  if (!isObject(frame) || !("plane" in frame) || !("cell_km" in frame)) {
    fail(`${name} must have a plane and a cell, or null for them`);
  }
  const { plane, cell_km: cell } = frame;
  if ((plane !== null && !isPair(plane)) || (cell !== null && !isPair(cell))) {
    fail(`${name}: a plane and a cell are two numbers each`);
  }
  if (cell && !(isSide(cell[0]) && isSide(cell[1]))) fail(`${name}: a cell must be larger than 0 km`);
  if (plane && !onEarth(plane[0], plane[1])) {
    fail(`${name}: the centre of a plane must be latitude and longitude in degrees`);
  }
  const { values: xy, count } = arrays[name];
  const latlon = arrays[`${name}_latlon`]?.values ?? null;
  checkDifferent(name, xy, count);
  if ((plane === null) !== (latlon === null)) fail(`${name}: degrees and a plane come together`);
  for (let i = 0; latlon && i < count; i += 2) {
    if (!onEarth(latlon[i], latlon[i + 1])) {
      fail(`${name} must be latitude and longitude in degrees, and place ${i / 2} is not`);
    }
    const at = project(plane, latlon[i], latlon[i + 1]);
    // 1 mm, as in Python. Further out 1 mm more per 1,000 km, because Vincenty's formulas and PROJ
    // differ there.
    const away = hypot(xy[i], xy[i + 1]);
    const allowed = away <= FURTHEST_KM ? 1e-6 : 1e-6 + 1e-9 * away;
    if (!(abs(at[0] - xy[i]) < allowed && abs(at[1] - xy[i + 1]) < allowed)) {
      fail(`${name}: degrees and km must be those of the same places`);
    }
  }
  return { plane, cell };
}

/** Check that no two places are within a millimetre of each other. `xy` has two numbers for each. */
export function checkDifferent(name, xy, count) {
  // Sorted from west to east, a place within 1 mm of another is among the next few.
  const n = count / 2;
  const order = new I32(n);
  for (let i = 0; i < n; i++) order[i] = i;
  sortTyped(order, (a, b) => xy[2 * a] - xy[2 * b]);
  for (let i = 0; i < n; i++) {
    const a = 2 * order[i];
    for (let j = i + 1; j < n && xy[2 * order[j]] - xy[a] <= SAME_PLACE_KM; j++) {
      const b = 2 * order[j];
      if (hypot(xy[a] - xy[b], xy[a + 1] - xy[b + 1]) <= SAME_PLACE_KM) {
        fail(`${name} must differ by a millimetre, and places ${a / 2} and ${b / 2} do not`);
      }
    }
  }
}

/**
 * Check that distances in the plane are those on the ground up to 5 %. Far from the centre, places
 * are much further apart in the plane than on the ground.
 */
export function checkNearCentre(xy) {
  const length = lengthOf(xy);
  for (let i = 0; i < length; i += 2) {
    if (!(xy[i] * xy[i] + xy[i + 1] * xy[i + 1] <= FURTHEST_KM * FURTHEST_KM)) {
      fail(
        `an epsilon per km needs places within ${FURTHEST_KM} km of the centre of their plane, ` +
          "and one is further away: distances in the plane are not those on the ground",
      );
    }
  }
}

/** Check that epsilon is valid, or null for a mechanism without one. */
export function checkEpsilon(told) {
  const { epsilon } = told;
  if (epsilon === null) return null;
  if (!isNumber(epsilon) || epsilon < SMALLEST_EPSILON || epsilon > LARGEST_EPSILON) {
    fail(`epsilon must be null, or from ${SMALLEST_EPSILON} to ${LARGEST_EPSILON} per km`);
  }
  return epsilon;
}

/** Check the axioms of a metric, with the tolerances of the Python library. */
export function checkMetric(metric, n) {
  for (let x = 0; x < n; x++) {
    if (metric[x * n + x] !== 0) fail(`metric must be zero on the diagonal, and is not at ${x}`);
    for (let y = 0; y < n; y++) {
      const there = metric[x * n + y];
      const back = metric[y * n + x];
      if (x !== y && !(there > 0)) fail("metric must be positive between different places");
      if (!(abs(there - back) <= 1e-9 * abs(there))) fail("metric must be symmetric");
    }
  }
  const shortest = new F64(n);
  for (let x = 0; x < n; x++) {
    for (let y = 0; y < n; y++) shortest[y] = Infinity;
    for (let via = 0; via < n; via++) {
      const first = metric[x * n + via];
      for (let y = 0; y < n; y++) {
        const through = first + metric[via * n + y];
        if (through < shortest[y]) shortest[y] = through;
      }
    }
    for (let y = 0; y < n; y++) {
      if (metric[x * n + y] > shortest[y] * (1 + 1e-9) + 5e-11) {
        fail(`metric must satisfy the triangle inequality, and does not from ${x} to ${y}`);
      }
    }
  }
}

/** Check that a prior is a probability distribution. */
export function checkPrior(prior) {
  const n = lengthOf(prior);
  let total = 0;
  for (let x = 0; x < n; x++) total += prior[x];
  if (!every(prior, n, (share) => share >= 0) || !(abs(total - 1) <= 1e-6)) {
    fail("prior must be non-negative and sum to 1");
  }
}

/** Check the multipliers of a proof: all or none, with valid indices of places and outputs. */
export function checkProof(arrays, n, m) {
  if (every(PROOF, PROOF.length, (name) => !arrays[name])) return;
  const most = [m, n, n, Infinity];
  const rows = arrays.proof_value?.shape[0];
  for (let i = 0; i < PROOF.length; i++) {
    const part = arrays[PROOF[i]];
    const whole =
      part && part.shape.length === 1 && part.shape[0] === rows &&
      every(part.values, rows, (number) => number >= 0 && number < most[i]);
    if (!whole) fail("its proof is not of the form it must be");
  }
  const left = arrays.proof_left.values;
  const right = arrays.proof_right.values;
  const different = every(left, rows, (place, i) => place !== right[i]);
  if (rows > m * n * (n - 1) || !different) fail("its proof is not of the form it must be");
}

/** Check the types in the description of the build; `more` are names of further numbers. */
export function checkBuild(build, more = []) {
  if (!isObject(build) || !isText(build.method)) fail("build must say a method");
  for (let i = 0; i < BUILD_TEXTS.length; i++) {
    const value = build[BUILD_TEXTS[i]] ?? null;
    if (value !== null && !isText(value)) fail(`build.${BUILD_TEXTS[i]} must be a text`);
  }
  for (let i = 0; i < BUILD_NUMBERS.length; i++) {
    const value = build[BUILD_NUMBERS[i]] ?? null;
    if (value !== null && !isNumber(value)) fail(`build.${BUILD_NUMBERS[i]} must be a number`);
  }
  for (let i = 0; i < more.length; i++) {
    const value = build[more[i]] ?? null;
    if (value !== null && !isNumber(value)) fail(`build.${more[i]} must be a number`);
  }
  const notes = build.notes ?? [];
  if (!isArray(notes) || !every(notes, notes.length, isText)) fail("build.notes must be texts");
}

const FORM = { __proto__: null, words: CLAIMED_WORDS, numbers: CLAIMED_NUMBERS, names: CLAIMS };

/** Check the names and types in the certificate. */
function checkForm(claimed, { words, numbers, names: wanted }) {
  const names = keys(claimed);
  if (names.length !== wanted.length || !every(wanted, wanted.length, (name) => name in claimed)) {
    fail("its certificate is not of the form it must be");
  }
  const isWords = (value) => value === null || (isText(value) && value.length <= 200);
  for (let i = 0; i < words.length; i++) {
    if (!isWords(claimed[words[i]])) fail(`its certificate says no words for ${words[i]}`);
  }
  const { versions } = claimed;
  const parts = isObject(versions) ? keys(versions) : [];
  if ((versions !== null && !isObject(versions)) || !every(parts, parts.length, (part) => isWords(versions[part]))) {
    fail("its certificate says no words for versions");
  }
  for (let i = 0; i < numbers.length; i++) {
    const value = claimed[numbers[i]];
    if (value !== null && !(isNumber(value) && abs(value) < 1e15)) {
      fail(`its certificate has no number for ${numbers[i]}`);
    }
  }
  // An exponent, not a length: epsilon times a distance, which may be 1e21.
  const slack = claimed.worst_slack ?? null;
  if (slack !== null && !isNumber(slack)) {
    fail("its certificate has no number for worst_slack");
  }
}

/**
 * Check the form of the certificate, and compare its claims with all values computed here. The
 * other claims (words, bounds, the worst slack, and losses of a file without a prior) are not
 * checked here and not shown: `whereish audit` computes them.
 */
export function checkClaims(claimed, found, form = FORM) {
  checkForm(claimed, form);
  const names = keys(found);
  for (let i = 0; i < names.length; i++) {
    const said = claimed[names[i]];
    const value = found[names[i]];
    const agree =
      typeof value === "number" && typeof said === "number"
        ? abs(said - value) <= 1e-9 * abs(value) + 1e-12
        : said === value;
    if (!agree) {
      throw new GuaranteeError(`the certificate does not hold: its ${names[i]} is not the computed one`);
    }
  }
}
