// Builds a mechanism with a guarantee between any two points of the plane, in the calling thread: the
// optimal one on a lattice, or planar Laplace noise with the best remap. The steps are those of
// src/whereish/everywhere/optimal.py.

import { relativeGap } from "../whereish/bound.js";
import { buildRecord, textsOf } from "../whereish/certificate.js";
import { LARGEST_EPSILON, SMALLEST_EPSILON } from "../whereish/constants.js";
import { pack } from "../whereish/container.js";
import { cornersOf } from "../whereish/corners.js";
import { InputError } from "../whereish/errors.js";
import { everywhereCertificate, MORE_BUILD } from "../whereish/everywhere-certificate.js";
import { toUnits, UNITS_PER_KM } from "../whereish/lattice.js";
import { hex } from "../whereish/primordials.js";
import { joined, sha256 } from "../whereish/sha256.js";
import { EVERYWHERE_TOLERANCE, LEAST_VERTICES, MOST_VERTICES, VERTICES } from "./constants.js";
import { releasedLattice } from "./lattice-rounding.js";
import { noiseTable } from "./noise-remap.js";
import { eachVertex, inUnits, searched } from "./search.js";
import { apart, toLatlon, visitsOf } from "./visits.js";
import { visitedBound } from "./visited-bound.js";

const METHODS = ["auto", "lattice", "planar-laplace"];

/** Return { bytes, build } of the options of `buildEverywhere`: a file, and how it was built. */
export function everywhereFile(options, module, onProgress, isStopped) {
  const task = { ...checkedOptions(options), module, onProgress, isStopped };
  const found = [];
  if (task.method !== "planar-laplace") found.push(onLattice(task));
  if (task.method !== "lattice") {
    onProgress({ stage: "planar-laplace" });
    found.push(ofNoise(task));
  }
  found.sort((a, b) => a.lossKm - b.lossKm);
  return fileOf(task, ...found);
}

/** The optimal mechanism on a lattice, repaired, rounded and audited. */
function onLattice(task) {
  const { visits, epsilon } = task;
  const { lattice, outputs: candidates, solution } = searched(task);
  task.onProgress({ stage: "certify" });
  const released = releasedLattice(solution.matrix, candidates.length / 2, lattice, epsilon);
  const outputs = Float64Array.from(released.used.flatMap((z) => [candidates[2 * z], candidates[2 * z + 1]]));
  const m = released.used.length;
  const lossKm = latticeLoss(visits, lattice, outputs, released.counts);
  const stopped = solution.stopped === "solved" ? null : solution.stopped;
  const proved = stopped === "time" || stopped === "asked" ? null : visitedBound(task, outputs);
  const { xUnits, yUnits } = inUnits(lattice);
  const vertices = lattice.xs.length * lattice.ys.length;
  const cells = Math.max(1, lattice.xs.length - 1) * Math.max(1, lattice.ys.length - 1);
  const corners = cornersOf(xUnits, yUnits, m);
  const { mix, tightest, tightestAt } = released;
  return {
    kind: "lattice", lossKm, ...lattice, outputs, proved, stopped,
    main: { counts: { dtype: "U64", shape: [vertices, m], values: released.counts } },
    checked: { vertices, cells, outputs: m, corners, tightest, tightestAt },
    fields: {
      method: "optimal-everywhere", solver: "cones", variables: vertices * m, constraints: vertices + corners,
      repair_mix: mix, repair_cost_km: lossKm - solution.loss, stopped,
      lower_bound_km: proved?.bound ?? null, gap: proved ? relativeGap(lossKm, proved.bound) : null,
      program_bound_km: solution.bound, program_gap: relativeGap(lossKm, solution.bound),
    },
  };
}

/** Planar Laplace noise with the best remap. */
function ofNoise({ visits, epsilon }) {
  const { xs, ys, table, outputs, lossKm } = noiseTable(visits, epsilon);
  const checked = {
    vertices: null, cells: table.length, outputs: outputs.length / 2, corners: 0, tightest: null, tightestAt: null,
  };
  return {
    kind: "planar-laplace", lossKm, xs, ys, outputs, proved: null, stopped: null, checked,
    main: { table: { dtype: "I32", shape: [ys.length + 1, xs.length + 1], values: table } },
    fields: { method: "planar-laplace-everywhere" },
  };
}

/** The file of the best one; `other` is the one that is not used, if there are two. */
function fileOf(task, best, other) {
  const { visits, epsilon, keepPoints } = task;
  const seconds = (performance.now() - task.begun) / 1000;
  const fields = { ...best.fields, seconds, loss_km: best.lossKm, other_loss_km: other?.lossKm ?? null };
  const build = buildRecord(fields, keepPoints, MORE_BUILD);
  const gap = best.fields.gap ?? null;
  const bytesOf = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  const personal = keepPoints ? {
    loss: best.lossKm, bound: best.proved?.bound ?? null, gap,
    digest: hex(sha256(joined(bytesOf(visits.xy), bytesOf(visits.weights)))),
  } : null;
  const far = [best.xs, best.ys].map((axis) => Math.max(Math.abs(axis[0]), Math.abs(axis.at(-1))));
  const certificate = everywhereCertificate({
    kind: best.kind, epsilon, checked: best.checked, furthestKm: Math.hypot(...far), build, personal,
  });
  const facts = {
    kind: best.kind, epsilon, epsilon_unit: "per km", units_per_km: UNITS_PER_KM,
    outputs: { plane: visits.centre, cell_km: null }, build,
  };
  const bytes = pack(arraysOf(task, best), textsOf(facts, certificate, "2"));
  const { lossKm, stopped, proved } = best;
  return { bytes, build: { method: best.kind, lossKm, lowerBoundKm: proved?.bound ?? null, gap, stopped } };
}

function arraysOf({ visits, keepPoints }, { main, xs, ys, outputs, proved }) {
  const numbers = (values, ...shape) => ({ dtype: "F64", shape, values });
  const whole = (axis) => ({
    dtype: "I64", shape: [axis.length], values: BigInt64Array.from(axis, (km) => BigInt(toUnits(km))),
  });
  const rows = (values) => ({ dtype: "I32", shape: [values.length], values });
  const m = outputs.length / 2;
  return {
    ...main,
    xs: whole(xs),
    ys: whole(ys),
    outputs: numbers(outputs, m, 2),
    outputs_latlon: numbers(toLatlon(visits.centre, outputs), m, 2),
    ...(keepPoints && {
      points: numbers(visits.xy, visits.count, 2),
      weights: numbers(visits.weights, visits.count),
    }),
    ...(keepPoints && proved && {
      proof_centres: numbers(proved.centres, proved.centres.length / 2, 2),
      proof_cluster: rows(proved.cluster),
      proof_output: rows(proved.proof.output),
      proof_left: rows(proved.proof.left),
      proof_right: rows(proved.proof.right),
      proof_value: numbers(proved.proof.value, proved.proof.value.length),
    }),
  };
}

/** The expected distance to the report, of the released counts. */
function latticeLoss(visits, lattice, outputs, counts) {
  const m = outputs.length / 2;
  const axes = inUnits(lattice);
  let loss = 0;
  for (let i = 0; i < visits.count; i++) {
    eachVertex(axes, visits.xy[2 * i], visits.xy[2 * i + 1], (vertex, weight) => {
      const share = (visits.weights[i] * weight) / 2 ** 63;
      for (let z = 0; z < m && share > 0; z++) {
        loss += share * Number(counts[vertex * m + z]) * apart(visits.xy, i, outputs, z);
      }
    });
  }
  return loss;
}

/** Check the options. A message never holds a number of a point or a weight. */
function checkedOptions(options) {
  const {
    epsilon, vertices = VERTICES, method = "auto", tolerance = EVERYWHERE_TOLERANCE, timeLimit = Infinity,
    keepPoints = false,
  } = options;
  if (!(typeof epsilon === "number" && epsilon >= SMALLEST_EPSILON && epsilon <= LARGEST_EPSILON)) {
    throw new InputError(`epsilon must be a number from ${SMALLEST_EPSILON} to ${LARGEST_EPSILON}, per km`);
  }
  if (!(Number.isInteger(vertices) && vertices >= LEAST_VERTICES && vertices <= MOST_VERTICES)) {
    throw new InputError(`vertices must be a whole number from ${LEAST_VERTICES} to ${MOST_VERTICES}`);
  }
  if (!METHODS.includes(method)) throw new InputError(`method must be one of ${METHODS.join(", ")}`);
  if (!(typeof tolerance === "number" && tolerance >= 1e-12 && tolerance <= 1)) {
    throw new InputError("tolerance must be a number from 1e-12 to 1");
  }
  if (!(typeof timeLimit === "number" && timeLimit >= 0)) {
    throw new InputError("timeLimit must be a number of seconds, at least 0");
  }
  const begun = performance.now();
  const secondsLeft = () => Math.max(0, timeLimit - (performance.now() - begun) / 1000);
  return {
    visits: visitsOf(options), epsilon, vertices, method, tolerance, secondsLeft, begun,
    keepPoints: Boolean(keepPoints),
  };
}
