// The search for the mechanism of least loss on a lattice: outputs and lattice in stages. The same
// steps as src/whereish/everywhere/search.py.

import { positionOf, UNITS_PER_KM } from "../whereish/lattice.js";
import { runCones } from "../solve/core.js";
import { firstImportance, gradedLattice, nextImportance } from "./area.js";
import { apart, clustered, gridOver, heaviest, medians, separate } from "./visits.js";

// The stages before the last one: vertices, the most candidate outputs, tolerance.
const STAGES = [[120, 64, 3e-3], [300, 40, 1e-3]];
const USED = 1e-2; // an output below this probability everywhere is no candidate of the next stage
const APART = 0.02; // outputs closer than this, in units of 1 / eps, are one
const NEW = 0.3; // new candidates are at least this far from the others, in units of 1 / eps
const MEDIAN_CLUSTERS = 300;

/**
 * Solve on coarse lattices to choose outputs and spacings, then on the lattice itself.
 *
 * @param task { visits, epsilon, vertices, tolerance, secondsLeft, module, onProgress, isStopped }
 * @returns { lattice: { xs, ys } in km, outputs: flat km, solution }
 */
export function searched(task) {
  const { visits, epsilon } = task;
  const smaller = STAGES.filter(([vertices]) => vertices < task.vertices);
  const stages = smaller.length > 0 ? smaller : [[task.vertices, ...STAGES[0].slice(1)]];
  let importance = firstImportance(visits);
  let outputs = candidates(visits, epsilon);
  for (const [k, [vertices, , tolerance]] of stages.entries()) {
    const lattice = gradedLattice(importance, vertices);
    const solution = solvedOn(task, lattice, outputs, Math.max(tolerance, task.tolerance));
    if (["time", "asked"].includes(solution.stopped)) return { lattice, outputs, solution };
    importance = nextImportance(lattice, solution, outputs.length / 2);
    outputs = nextOutputs(task, lattice, outputs, solution.matrix, stages[k + 1]?.[1] ?? 0);
  }
  const lattice = gradedLattice(importance, task.vertices);
  return { lattice, outputs, solution: solvedOn(task, lattice, outputs, task.tolerance) };
}

/** The heaviest clusters of points, and a coarse grid. */
function candidates(visits, epsilon) {
  const most = STAGES[0][1];
  const groups = clustered(visits, most);
  const chosen = heaviest(groups.weights).slice(0, Math.floor((most * 2) / 3))
    .flatMap((i) => [groups.xy[2 * i], groups.xy[2 * i + 1]]);
  const side = Math.max(2, Math.floor(Math.sqrt(most / 3)));
  return separate(Float64Array.from([...chosen, ...gridOver(visits.xy, side)]), APART / epsilon);
}

/** The four vertices around a point and their bilinear weights: calls visit(vertex, weight). */
export function eachVertex({ xUnits, yUnits }, east, north, visit) {
  const { x, y } = positionOf(xUnits, yUnits, east, north);
  const [s, t] = [x.steps / x.width, y.steps / y.width];
  const nx = xUnits.length;
  visit(y.lower * nx + x.lower, (1 - t) * (1 - s));
  visit(y.lower * nx + x.upper, (1 - t) * s);
  visit(y.upper * nx + x.lower, t * (1 - s));
  visit(y.upper * nx + x.upper, t * s);
}

/** The axes of a lattice in whole units. */
export const inUnits = ({ xs, ys }) => ({
  xUnits: xs.map((km) => km * UNITS_PER_KM), yUnits: ys.map((km) => km * UNITS_PER_KM),
});

function solvedOn(task, lattice, outputs, tolerance) {
  const { visits, epsilon, module, onProgress, isStopped } = task;
  const m = outputs.length / 2;
  const vertices = lattice.xs.length * lattice.ys.length;
  const cost = new Float64Array(vertices * m);
  const axes = inUnits(lattice);
  for (let i = 0; i < visits.count; i++) {
    eachVertex(axes, visits.xy[2 * i], visits.xy[2 * i + 1], (vertex, weight) => {
      const share = visits.weights[i] * weight;
      if (share === 0) return;
      for (let z = 0; z < m; z++) cost[vertex * m + z] += share * apart(visits.xy, i, outputs, z);
    });
  }
  if (vertices === 1) return atOneVertex(cost, m);
  const told = (progress) => onProgress({ stage: "lattice", vertices, ...progress });
  const program = { ...lattice, m, cost, epsilon, tolerance, timeLimit: task.secondsLeft() };
  return runCones(module, program, told, isStopped);
}

/** On a single vertex one output is reported always: the best one. */
function atOneVertex(cost, m) {
  const best = cost.indexOf(Math.min(...cost));
  const matrix = new Float64Array(m);
  matrix[best] = 1;
  const [loss, bound] = [cost[best], cost[best]];
  return { matrix, multipliers: new Float64Array(0), corners: 0, loss, bound, stopped: "solved" };
}

/** The outputs in use, moved to their medians, and clusters between them up to `most`. */
function nextOutputs({ visits, epsilon }, lattice, outputs, matrix, most) {
  const m = outputs.length / 2;
  const used = Array.from({ length: m }, (_, z) => z).filter((z) => {
    for (let at = z; at < matrix.length; at += m) if (matrix[at] >= USED) return true;
    return false;
  });
  const groups = clustered(visits, MEDIAN_CLUSTERS);
  const joint = new Float64Array(used.length * groups.count);
  const axes = inUnits(lattice);
  for (let i = 0; i < groups.count; i++) {
    eachVertex(axes, groups.xy[2 * i], groups.xy[2 * i + 1], (vertex, weight) => {
      used.forEach((z, u) => {
        joint[u * groups.count + i] += groups.weights[i] * weight * Math.max(matrix[vertex * m + z], 0);
      });
    });
  }
  let kept = separate(medians(joint, used.length, groups.xy), APART / epsilon);
  const fine = most > 0 ? clustered(visits, 2 * most) : null;
  for (const i of fine ? heaviest(fine.weights) : []) {
    if (kept.length / 2 >= most) break;
    let near = Infinity;
    for (let z = 0; z < kept.length / 2; z++) near = Math.min(near, apart(fine.xy, i, kept, z));
    if (near >= NEW / epsilon) kept = Float64Array.of(...kept, fine.xy[2 * i], fine.xy[2 * i + 1]);
  }
  return kept;
}
