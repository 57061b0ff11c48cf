// What a mechanism's file must say, as the Python library has it (mechanisms/file.py): the type,
// shape and range of everything, and that all of it is about the same places.
import { FormatError, GuaranteeError } from "./errors.js";
import { isArray, isFinite } from "./primordials.js";
import { project } from "./plane.js";

const LARGEST = 1e12;
const MOST_PLACES = 10_000;
const SMALLEST_EPSILON = 1e-9;
const LARGEST_EPSILON = 1e9;
const SAME_PLACE_KM = 1e-6;
const TOTAL = 1n << 63n;
const ARRAYS = {
  __proto__: null, counts: "U64", inputs: "F64", outputs: "F64", inputs_latlon: "F64",
  outputs_latlon: "F64", metric: "F64", prior: "F64", proof_output: "I32", proof_left: "I32",
  proof_right: "I32", proof_value: "F64",
};
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
// As every version has written it, and as Python's audit demands it: all of these, no others.
const CLAIMS = [
  ...CLAIMED_WORDS, ...CLAIMED_NUMBERS, "versions", "certified", "epsilon", "epsilon_unit", "metric",
  "places", "outputs", "ratios_checked", "worst_slack", "worst_slack_at", "largest_snap_km", "guarantee",
];

const fail = (words) => {
  throw new FormatError(words);
};
const isNumber = (value) => typeof value === "number" && isFinite(value);
const isObject = (value) => value !== null && typeof value === "object" && !isArray(value);

/** Check the names, types and shapes of the arrays, and the names of the texts. */
export function checkNames(arrays, texts) {
  if (texts.format !== "whereish mechanism") {
    fail('not a mechanism: its header must say "format": "whereish mechanism"');
  }
  if (texts.version !== "1") fail("version must be 1: this client reads no other");
  for (const name of Object.keys(texts)) {
    if (!TEXTS.includes(name)) fail("its header says more than a mechanism's does");
  }
  for (const [name, { dtype }] of Object.entries(arrays)) {
    if (ARRAYS[name] !== dtype) fail(`the array ${name.slice(0, 40)} is not one that a mechanism has`);
  }
  for (const name of ["counts", "inputs", "outputs"]) {
    if (!arrays[name]) fail(`not a mechanism: ${name} is missing`);
  }
  const { shape } = arrays.counts;
  if (shape.length !== 2 || Math.min(...shape) < 1) {
    fail("counts must be a matrix with at least one place and one output");
  }
  if (Math.max(...shape) > MOST_PLACES) fail("a mechanism must have at most 10,000 places");
  const [n, m] = shape;
  const wanted = {
    inputs: [n, 2], outputs: [m, 2], inputs_latlon: [n, 2], outputs_latlon: [m, 2],
    metric: [n, n], prior: [n],
  };
  for (const [name, sides] of Object.entries(wanted)) {
    if (!arrays[name]) continue;
    if (arrays[name].shape.join() !== sides.join()) fail(`${name} must be ${sides.join(" x ")} numbers`);
    if (!arrays[name].values.every((number) => Math.abs(number) <= LARGEST)) {
      fail(`${name} must be finite, and at most ${LARGEST}`); // NaN is not at most anything
    }
  }
  return { n, m };
}

/** Check that every row sums to exactly 2^63; return the running sums of all rows. */
export function runningSums(counts, n, m) {
  const sums = new BigUint64Array(n * m);
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

/** Check a set of places: different, and on the earth where the file says that they are. */
export function checkPlaces(name, arrays, told) {
  if (!isObject(told?.[name]) || !("plane" in told[name]) || !("cell_km" in told[name])) {
    fail(`${name} must have a plane and a cell, or null for them`);
  }
  const { plane, cell_km: cell } = told[name];
  for (const pair of [plane, cell]) {
    if (pair !== null && !(isArray(pair) && pair.length === 2 && pair.every(isNumber))) {
      fail(`${name}: a plane and a cell are two numbers each`);
    }
  }
  if (cell && !cell.every((side) => side > 0 && side <= LARGEST)) fail(`${name}: a cell must be larger than 0 km`);
  if (plane && !(Math.abs(plane[0]) <= 90 && Math.abs(plane[1]) <= 180)) {
    fail(`${name}: the centre of a plane must be latitude and longitude in degrees`);
  }
  const xy = arrays[name].values;
  const latlon = arrays[`${name}_latlon`]?.values ?? null;
  checkDifferent(name, xy);
  if ((plane === null) !== (latlon === null)) fail(`${name}: degrees and a plane come together`);
  for (let i = 0; latlon && i < latlon.length; i += 2) {
    if (!(Math.abs(latlon[i]) <= 90 && Math.abs(latlon[i + 1]) <= 180)) {
      fail(`${name} must be latitude and longitude in degrees, and place ${i / 2} is not`);
    }
    const [x, y] = project(plane, latlon[i], latlon[i + 1]);
    // A millimetre, and one more for each 1,000 km: Vincenty's formulas are not PROJ's.
    const allowed = 1e-6 + 1e-9 * Math.hypot(xy[i], xy[i + 1]);
    if (!(Math.abs(x - xy[i]) < allowed && Math.abs(y - xy[i + 1]) < allowed)) {
      fail(`${name}: degrees and km must be those of the same places`);
    }
  }
  return { plane, cell };
}

function checkDifferent(name, xy) {
  // From west to east: who is within a millimetre of another is among its next few.
  const order = Array.from({ length: xy.length / 2 }, (_, i) => i).sort((a, b) => xy[2 * a] - xy[2 * b]);
  for (let i = 0; i < order.length; i++) {
    const a = 2 * order[i];
    for (let j = i + 1; j < order.length && xy[2 * order[j]] - xy[a] <= SAME_PLACE_KM; j++) {
      const b = 2 * order[j];
      if (Math.hypot(xy[a] - xy[b], xy[a + 1] - xy[b + 1]) <= SAME_PLACE_KM) {
        fail(`${name} must differ by a millimetre, and places ${a / 2} and ${b / 2} do not`);
      }
    }
  }
}

/** Check that epsilon is one, or null for a mechanism that promises none. */
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
      const [one, other] = [metric[x * n + y], metric[y * n + x]];
      if (x !== y && !(one > 0)) fail(`metric must be positive between different places`);
      if (!(Math.abs(one - other) <= 1e-9 * Math.abs(one))) fail("metric must be symmetric");
    }
  }
  const shortest = new Float64Array(n);
  for (let x = 0; x < n; x++) {
    shortest.fill(Infinity);
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

/** Check that a prior is one. */
export function checkPrior(prior) {
  const total = prior.reduce((sum, share) => sum + share, 0);
  if (!prior.every((share) => share >= 0) || !(Math.abs(total - 1) <= 1e-6)) {
    fail("prior must be non-negative and sum to 1");
  }
}

/** Check the arrays of a proof: all of them or none, and of places and outputs that there are. */
export function checkProof(arrays, n, m) {
  const names = Object.keys(arrays).filter((name) => name.startsWith("proof_"));
  if (names.length === 0) return;
  for (const [name, most] of [["output", m], ["left", n], ["right", n], ["value", Infinity]]) {
    const part = arrays[`proof_${name}`];
    const whole =
      part && part.shape.length === 1 && part.shape[0] === arrays.proof_value?.shape[0] &&
      part.values.every((number) => number >= 0 && number < most);
    if (!whole) fail("its proof is not of the form it must be");
  }
  const { proof_left: left, proof_right: right } = arrays;
  const itself = left.values.some((place, i) => place === right.values[i]);
  if (left.values.length > m * n * (n - 1) || itself) fail("its proof is not of the form it must be");
}

/** Check the kinds of what is said about how it was built. */
export function checkBuild(build) {
  if (!isObject(build) || typeof build.method !== "string") fail("build must say a method");
  for (const name of BUILD_TEXTS) {
    if ((build[name] ?? null) !== null && typeof build[name] !== "string") fail(`build.${name} must be a text`);
  }
  for (const name of BUILD_NUMBERS) {
    if ((build[name] ?? null) !== null && !isNumber(build[name])) fail(`build.${name} must be a number`);
  }
  const notes = build.notes ?? [];
  if (!isArray(notes) || !notes.every((note) => typeof note === "string")) fail("build.notes must be texts");
}

/**
 * Check the names and kinds of what the certificate says, and what it claims of all that was worked
 * out here. Words, bounds, the least room in an exponent, and losses of a file without a prior stay
 * claims, which nobody is told: `whereish audit` works them out.
 */
export function checkClaims(claimed, found) {
  const names = Object.keys(claimed);
  if (names.length !== CLAIMS.length || !CLAIMS.every((name) => names.includes(name))) {
    fail("its certificate is not of the form it must be");
  }
  const isWords = (value) => value === null || (typeof value === "string" && value.length <= 200);
  for (const name of CLAIMED_WORDS) {
    if (!isWords(claimed[name] ?? null)) fail(`its certificate says no words for ${name}`);
  }
  const versions = claimed.versions ?? {};
  if (!isObject(versions) || !Object.values(versions).every(isWords)) {
    fail("its certificate says no words for versions");
  }
  for (const name of CLAIMED_NUMBERS) {
    const value = claimed[name] ?? null;
    if (value !== null && !(isNumber(value) && Math.abs(value) < 1e15)) {
      fail(`its certificate has no number for ${name}`);
    }
  }
  // An exponent, not a length: epsilon times a distance, which may be 1e21.
  if (claimed.worst_slack !== null && !isNumber(claimed.worst_slack)) {
    fail("its certificate has no number for worst_slack");
  }
  for (const [name, value] of Object.entries(found)) {
    const said = claimed[name];
    const agree =
      typeof value === "number" && typeof said === "number"
        ? Math.abs(said - value) <= 1e-9 * Math.abs(value) + 1e-12
        : said === value;
    if (!agree) throw new GuaranteeError(`the certificate does not hold: what it says of ${name} is not so`);
  }
}
