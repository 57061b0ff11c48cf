// Prunes a proof of a lower bound: fewer multipliers that prove the same bound. The same steps as
// src/whereish/release/pruning.py, with the loops of the compiled core; docs/proofs/bound.md has the
// argument. The bound is computed from the rows that are left, so nothing here is trusted.

import { lowerBoundKm } from "../whereish/bound.js";
import { FAINTEST, LOST, PRUNING_ROOM } from "./constants.js";

/**
 * Return { proof, bound }: a proof with at most n - 1 multipliers for each output, and the lower
 * bound that it proves.
 *
 * @param solution multipliers of rows: { output, left, right, value }
 */
export function pruned(solution, { n, m, prior, loss, metric, epsilon, loops }) {
  const bound = (proof) => lowerBoundKm({ prior, loss, metric, epsilon, proof });
  const cost = loss.map((away, at) => prior[Math.floor(at / m)] * away);
  const whole = ordered(solution, n, m, metric, epsilon);
  const before = reducedCosts(whole, cost, n, m);
  const cancelled = positive(whole, loops.cancelCycles(n, m, whole), m);
  const fewer = positive(cancelled, loops.returnSpare(n, m, spareOf(cancelled, cost, n, m), cancelled), m);
  const places = (array) => Int32Array.from(array, Number);
  const proof = { output: fewer.output, left: places(fewer.left), right: places(fewer.right), value: fewer.y };
  const found = bound(proof);
  let most = 0; // the bound of the whole proof, at most
  for (let x = 0; x < n; x++) most += before.least[x] + before.error[x];
  if (found >= most - LOST * Math.abs(most)) return { proof, bound: found };
  const other = bound(solution);
  return found >= other - LOST * other ? { proof, bound: found } : { proof: solution, bound: other };
}

/** The rows by output; those of an output by multiplier, the largest first. */
function ordered({ output, left, right, value }, n, m, metric, epsilon) {
  const order = Array.from(value.keys()).sort(
    (a, b) => output[a] - output[b] || value[b] - value[a] || a - b,
  );
  const gainOf = (i) => {
    const far = Math.max(metric[left[i] * n + right[i]], metric[right[i] * n + left[i]]);
    return Math.exp(-epsilon * far);
  };
  const rows = {
    output: Int32Array.from(order, (i) => output[i]),
    left: BigInt64Array.from(order, (i) => BigInt(left[i])),
    right: BigInt64Array.from(order, (i) => BigInt(right[i])),
    gain: Float64Array.from(order, gainOf),
    y: Float64Array.from(order, (i) => value[i]),
  };
  return positive(rows, rows.y, m);
}

/** The rows with a multiplier above 0 that reach their left place, and where each output begins. */
function positive(rows, y, m) {
  const kept = [];
  for (let i = 0; i < y.length; i++) if (y[i] > 0 && rows.gain[i] > FAINTEST) kept.push(i);
  const part = (array) => array.constructor.from(kept, (i) => array[i]);
  const output = part(rows.output);
  const first = new BigInt64Array(m + 1);
  for (let z = 0, i = 0; z <= m; z++) {
    while (i < output.length && output[i] < z) i++;
    first[z] = BigInt(i);
  }
  return { output, left: part(rows.left), right: part(rows.right), gain: part(rows.gain),
    y: Float64Array.from(kept, (i) => y[i]), first };
}

/** (m, n) reduced costs in doubles, the least over the outputs, and how far rounding may be off. */
function reducedCosts({ output, left, right, gain, y }, cost, n, m) {
  const reduced = new Float64Array(m * n);
  const size = new Float64Array(m * n);
  for (let z = 0; z < m; z++) {
    for (let x = 0; x < n; x++) reduced[z * n + x] = size[z * n + x] = cost[x * m + z];
  }
  for (let i = 0; i < y.length; i++) {
    const to = output[i] * n + Number(left[i]);
    const from = output[i] * n + Number(right[i]);
    reduced[to] += gain[i] * y[i];
    size[to] += gain[i] * y[i];
    reduced[from] -= y[i];
    size[from] += y[i];
  }
  const least = new Float64Array(n).fill(Infinity);
  const error = new Float64Array(n);
  for (let at = 0; at < m * n; at++) {
    least[at % n] = Math.min(least[at % n], reduced[at]);
    error[at % n] = Math.max(error[at % n], PRUNING_ROOM * size[at]);
  }
  return { reduced, least, error };
}

function spareOf(rows, cost, n, m) {
  const { reduced, least, error } = reducedCosts(rows, cost, n, m);
  return reduced.map((value, at) => Math.max(value - least[at % n] - error[at % n], 0));
}
