// A lower bound for every mechanism that is private between all points, on any lattice or none. The
// same steps as src/whereish/everywhere/bound.py, which has the argument.

import { lowerBoundKm } from "../whereish/bound.js";
import { SAME_PLACE_KM } from "../whereish/constants.js";
import { SolveError } from "../whereish/errors.js";
import { run } from "../solve/core.js";
import { checked, distancesOf } from "../solve/program.js";
import { spannerOf } from "../solve/spanner.js";
import { BOUND_TOLERANCE } from "./constants.js";
import { loopsOf } from "./loops.js";
import { pruned } from "./pruning.js";
import { apart, clustered, expectedCosts, separate } from "./visits.js";

const CLUSTERS = 100;
// Relative errors of a distance, a product and an exponential: each is a few units of 2^-53.
const ROUNDING = 1e-14;

/**
 * A lower bound in km on the loss of every mechanism with this epsilon and these outputs, with its
 * proof: { bound, centres, cluster, proof }. Null if none was found.
 */
export function visitedBound({ visits, epsilon, module, isStopped, secondsLeft }, outputs) {
  const groups = clustered(visits, CLUSTERS);
  const n = groups.count;
  const m = outputs.length / 2;
  if (n < 2 || separate(groups.xy, 2 * SAME_PLACE_KM).length < groups.xy.length) return null;
  const shares = visits.weights.map((weight, i) =>
    weight * Math.exp(-epsilon * apart(visits.xy, i, groups.xy, groups.of[i]) * (1 + ROUNDING)));
  const costs = expectedCosts({ ...visits, weights: shares }, groups.of, n, outputs);
  // A sum of positive numbers is off by less than their number times 2^-52 of itself.
  const less = 1 - 4 * ROUNDING - visits.count * 2 ** -52;
  const total = groups.weights.reduce((sum, weight) => sum + weight, 0);
  const prior = groups.weights.map((weight) => weight / total);
  const loss = costs.map((cost, at) => (cost * less) / prior[Math.floor(at / m)]);
  const metric = distancesOf(Array.from({ length: n }, (_, i) => [groups.xy[2 * i], groups.xy[2 * i + 1]]));
  const spanner = spannerOf(metric, 1);
  try {
    const program = checked({
      prior, loss, pairs: spanner.edges, exponents: spanner.lengths.map((length) => epsilon * length),
      reach: metric.map((distance) => epsilon * distance), tolerance: BOUND_TOLERANCE, timeLimit: secondsLeft(),
    });
    const { multipliers } = run(module, program, () => {}, isStopped);
    const { proof } = pruned(multipliers, { n, m, prior, loss, metric, epsilon, loops: loopsOf(module) });
    const bound = lowerBoundKm({ prior, loss, metric, epsilon, proof });
    return { bound, centres: groups.xy, cluster: groups.of, proof };
  } catch (wrong) {
    if (wrong instanceof SolveError) return null;
    throw wrong;
  }
}
