// Repairs a matrix that is private up to the tolerance of a solver. The same steps as
// src/whereish/release/repair.py; the proof is in docs/proofs/repair.md. Nothing here is trusted: the
// audit of the integers decides.

import { GuaranteeError } from "../whereish/errors.js";
import { LARGEST_EXPONENT, LARGEST_MIX, UNUSED } from "./constants.js";

/**
 * Return { matrix, mix }: a private matrix near to an n x m one, and the share of the uniform
 * mechanism that was mixed in.
 *
 * 1. Negative entries become zero. Outputs below UNUSED for all places are removed.
 * 2. Every column is lifted to the smallest private one above it. Rows are divided by their sums.
 * 3. K' = (1 - l) K + l U, with U uniform over the outputs in use, and the smallest l that covers
 *    every shortfall.
 */
export function repaired(matrix, { n, m, epsilon, metric, loops }) {
  const used = [];
  for (let z = 0; z < m; z++) {
    let most = 0;
    for (let x = 0; x < n; x++) most = Math.max(most, matrix[x * m + z]);
    if (most >= UNUSED) used.push(z);
  }
  const width = used.length;
  const clean = new Float64Array(n * width);
  for (let x = 0; x < n; x++) {
    used.forEach((z, u) => (clean[x * width + u] = Math.max(matrix[x * m + z], 0)));
  }
  const lifted = loops.lift(n, width, clean, metric.map((distance) => Math.exp(-epsilon * distance)));
  for (let x = 0; x < n; x++) {
    const row = lifted.subarray(x * width, (x + 1) * width);
    const sum = row.reduce((total, share) => total + share, 0);
    if (!(sum > 0 && sum < Infinity)) {
      throw new GuaranteeError("not a mechanism: some place would have nothing to report");
    }
    for (let u = 0; u < width; u++) row[u] /= sum;
  }
  const mix = neededMix(lifted, n, width, epsilon, metric, loops);
  if (!(mix <= LARGEST_MIX)) {
    throw new GuaranteeError(
      `the matrix must be private at epsilon ${epsilon} up to rounding, and ${(100 * mix).toFixed(1)} % ` +
        "of it would have to be replaced: give the solver more time",
    );
  }
  const made = new Float64Array(n * m);
  for (let x = 0; x < n; x++) {
    used.forEach((z, u) => (made[x * m + z] = (1 - mix) * lifted[x * width + u] + mix / width));
  }
  return { matrix: made, mix };
}

/** The smallest share of the uniform mechanism that covers every shortfall. */
function neededMix(matrix, n, m, epsilon, metric, loops) {
  // A margin for the rounding of the mixture.
  const exponents = metric.map((distance) => {
    const exact = epsilon * distance;
    return Math.min(Math.max(exact - 1e-14 * (4 + 2 * exact), 0), LARGEST_EXPONENT);
  });
  const short = loops.shortfalls(n, m, matrix, exponents.map(Math.exp));
  let mix = 0;
  for (let at = 0; at < short.length; at++) {
    if (at % (n + 1) === 0 || !(short[at] > 0)) continue; // the diagonal, and what holds
    const growth = Math.expm1(exponents[at]) / m;
    mix = Math.max(mix, short[at] / (short[at] + growth));
  }
  return mix;
}
