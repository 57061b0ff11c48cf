// Builds the optimal mechanism between places, in the calling thread: spanner, solve, lower bound,
// repair, rounding, file. The steps are those of src/whereish/mechanisms/optimal.py.

import { relativeGap } from "../whereish/bound.js";
import { buildRecord, certificateOf, textsOf } from "../whereish/certificate.js";
import { LARGEST, LARGEST_EPSILON, SAME_PLACE_KM, SMALLEST_EPSILON } from "../whereish/constants.js";
import { pack } from "../whereish/container.js";
import { InputError } from "../whereish/errors.js";
import { hex } from "../whereish/primordials.js";
import { closestExponent, roundedPrivate } from "../whereish/rounding.js";
import { sha256 } from "../whereish/sha256.js";
import { run } from "../solve/core.js";
import { checked, distancesOf } from "../solve/program.js";
import { spannerOf } from "../solve/spanner.js";
import { BOUND_TOLERANCE, TOLERANCE } from "./constants.js";
import { loopsOf } from "./loops.js";
import { planeOf } from "./planes.js";
import { pruned } from "./pruning.js";
import { repaired } from "./repair.js";
import { sharesOf } from "./shares.js";

const EXACT = 1 + 1e-9; // a spanner with a larger dilation costs some loss

/** Return { bytes, build } of the options of `buildPlaces`: a file, and how it was built. */
export function placesFile(options, module, onProgress, isStopped) {
  const begun = performance.now();
  const given = checkedOptions(options);
  const { n, epsilon, prior, metric, plane } = given;
  onProgress({ stage: "spanner" });
  const spanner = spannerOf(metric, given.dilation);
  const solved = (level, tolerance) => {
    const program = {
      prior, loss: metric, pairs: spanner.edges, tolerance, timeLimit: given.timeLimit,
      exponents: spanner.lengths.map((length) => level * length),
      reach: metric.map((distance) => level * distance),
    };
    const told = (progress) => onProgress({ stage: "solve", ...progress });
    return run(module, checked(program), told, isStopped);
  };
  const edgeLevel = epsilon / spanner.exactDilation;
  const solution = solved(edgeLevel, given.tolerance);
  const stopped = ["time", "asked"].includes(solution.stopped) ? solution.stopped : null;
  onProgress({ stage: "certify" });
  const shape = { n, m: n, prior, loss: metric, metric, epsilon, loops: loopsOf(module) };
  // At the full epsilon, multipliers of any pairs bound the loss of every mechanism with this
  // privacy. With a dilation, the best multipliers there differ from those of the solution.
  const best = spanner.exactDilation > EXACT && stopped === null
    ? solved(epsilon, BOUND_TOLERANCE) : solution;
  const { proof, bound } = pruned(best.multipliers, shape);
  const seconds = (performance.now() - begun) / 1000;
  const fixed = repaired(solution.matrix, shape);
  const closest = closestExponent(epsilon, n, (x, o) => metric[x * n + o]);
  const { counts, mix } = roundedPrivate(fixed.matrix, { n, m: n, epsilon, xy: plane.xy, metric: null, closest });
  const lossOf = (share) => expectedLoss(prior, metric, share);
  const before = lossOf((at) => solution.matrix[at]);
  const after = lossOf((at) => fixed.matrix[at]);
  const loss = lossOf((at) => Number(counts[at]) / 2 ** 63);
  const gap = relativeGap(loss, bound);
  const record = buildRecord({
    method: "optimal", solver: "structured", seconds, variables: n * n,
    constraints: 2 * n * spanner.lengths.length + n, edges: spanner.lengths.length,
    dilation: spanner.dilation, requested_dilation: given.dilation, repair_mix: fixed.mix,
    repair_cost_km: after - before, lower_bound_km: bound, gap: relativeGap(after, bound),
    program_gap: relativeGap(after, solution.bound), stopped, notes: notesOf(spanner, n, given.dilation),
  }, given.keepPrior);
  const personal = given.keepPrior ? {
    loss, roundingCost: loss - after, bound, gap, priorDigest: hex(sha256(new Uint8Array(prior.buffer))),
  } : null;
  const certificate = certificateOf({
    epsilon, n, m: n, reachKm: given.reachKm, furthestKm: plane.furthestKm, mix, build: record, personal,
    slack: tightest(counts, n, n, epsilon, metric),
  });
  const frame = { plane: plane.centre, cell_km: given.cellKm };
  const facts = {
    epsilon, epsilon_unit: "per km", outputs_are_inputs: true, inputs: frame, outputs: frame, build: record,
  };
  const bytes = pack(arraysOf(counts, n, plane, given.keepPrior ? { prior, proof } : null),
    textsOf(facts, certificate, "1"));
  return { bytes, build: { method: "optimal", lossKm: loss, lowerBoundKm: bound, gap, stopped } };
}

function arraysOf(counts, n, plane, personal) {
  const numbers = (values, ...shape) => ({ dtype: "F64", shape, values });
  const rows = (values) => ({ dtype: "I32", shape: [values.length], values });
  return {
    counts: { dtype: "U64", shape: [n, n], values: counts },
    inputs: numbers(plane.xy, n, 2),
    outputs: numbers(plane.xy, n, 2),
    inputs_latlon: numbers(plane.latlon, n, 2),
    outputs_latlon: numbers(plane.latlon, n, 2),
    ...(personal && {
      prior: numbers(personal.prior, n),
      proof_output: rows(personal.proof.output),
      proof_left: rows(personal.proof.left),
      proof_right: rows(personal.proof.right),
      proof_value: numbers(personal.proof.value, personal.proof.value.length),
    }),
  };
}

/** Check the options. A message never holds a number of a place or of a prior. */
function checkedOptions(options) {
  const { places, epsilon, dilation = 1, tolerance = TOLERANCE, timeLimit, keepPrior = false } = options;
  if (!(typeof epsilon === "number" && epsilon >= SMALLEST_EPSILON && epsilon <= LARGEST_EPSILON)) {
    throw new InputError(`epsilon must be a number from ${SMALLEST_EPSILON} to ${LARGEST_EPSILON}, per km`);
  }
  if (!(typeof dilation === "number" && dilation >= 1)) {
    throw new InputError("dilation must be a number of at least 1");
  }
  const plane = planeOf("places", places);
  const n = places.length;
  if (n < 2) throw new InputError("places must be at least two: one place hides nothing");
  const prior = sharesOf("prior", options.prior, n);
  const metric = distancesOf(places.map((_, i) => [plane.xy[2 * i], plane.xy[2 * i + 1]]));
  const same = metric.findIndex((distance, at) => at % (n + 1) !== 0 && distance <= SAME_PLACE_KM);
  if (same >= 0) {
    throw new InputError(`places must differ by a millimetre, and ${Math.floor(same / n)} and ${same % n} do not`);
  }
  const cellKm = cellOf(options.cellKm);
  const reachKm = cellKm ? Math.hypot(...cellKm) / 2 : furthestNeighbour(metric, n);
  return {
    n, plane, prior, epsilon, metric, cellKm, reachKm, tolerance, timeLimit,
    dilation: Math.min(dilation, 1e6), keepPrior: Boolean(keepPrior),
  };
}

function cellOf(given) {
  if (given === undefined || given === null) return null;
  const sides = typeof given === "number" ? [given, given] : Array.from(given);
  if (sides.length !== 2 || !sides.every((side) => side > 0 && side <= LARGEST)) {
    throw new InputError("cellKm must be a number above 0, or two: width and height of a cell in km");
  }
  return sides;
}

function furthestNeighbour(metric, n) {
  let reach = 0;
  for (let x = 0; x < n; x++) {
    let nearest = Infinity;
    for (let o = 0; o < n; o++) if (o !== x) nearest = Math.min(nearest, metric[x * n + o]);
    reach = Math.max(reach, nearest);
  }
  return reach;
}

function expectedLoss(prior, loss, share) {
  const m = loss.length / prior.length;
  let sum = 0;
  for (let at = 0; at < loss.length; at++) sum += prior[Math.floor(at / m)] * loss[at] * share(at);
  return sum;
}

/** The least room in an exponent, eps d - ln of a ratio, and where it is: for people to read. */
function tightest(counts, n, m, epsilon, metric) {
  const logs = Float64Array.from(counts, (count) => Math.log(Number(count)));
  let found = { least: Infinity, pair: [0, 1], output: 0 };
  for (let x = 0; x < n; x++) {
    for (let o = 0; o < n; o++) {
      if (x === o) continue;
      for (let z = 0; z < m; z++) {
        if (counts[x * m + z] === 0n) continue;
        const room = epsilon * metric[x * n + o] - (logs[x * m + z] - logs[o * m + z]);
        if (room < found.least) found = { least: room, pair: [x, o], output: z };
      }
    }
  }
  return found;
}

function notesOf({ lengths, dilation }, n, requested) {
  if (!(requested > 1 && dilation > EXACT)) return [];
  const count = (number) => number.toLocaleString("en-US");
  return [
    `a spanner of ${count(lengths.length)} of ${count((n * (n - 1)) / 2)} pairs was constrained, at ` +
      `epsilon / ${Number(dilation.toPrecision(4))}: as private as asked, with slightly more loss`,
  ];
}
