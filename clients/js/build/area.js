// The lattice of a mechanism: the rectangle of the visited points, with lines where epsilon matters
// most. The same steps as src/whereish/everywhere/area.py, which explains them.

import { SAME_PLACE_KM } from "../whereish/constants.js";
import { toUnits, UNITS_PER_KM } from "../whereish/lattice.js";
import { apart, clustered, rangeOf } from "./visits.js";

const CLUSTERS = 80;
const BINS = 600; // of the importance along an axis
const LEAST = 0.01; // of the largest importance: lines everywhere, though few
const LINE_KM = 4 * SAME_PLACE_KM; // lines closer than this are one

/** The importance of epsilon at the middles of equal bins between two ends of an axis. */
function importance(low, high, values) {
  const most = Math.max(0, ...values);
  return { low, high, values: values.map((value) => (most > 0 ? Math.max(value, LEAST * most) : 1)) };
}

const middlesOf = (low, high) =>
  Float64Array.from({ length: BINS }, (_, i) => low + ((high - low) * (i + 0.5)) / BINS);

/** Before there is a solution: the weight of the pairs of points on both sides, for both axes. */
export function firstImportance(visits) {
  const groups = clustered(visits, CLUSTERS);
  return [0, 1].map((axis) => {
    const [low, high] = rangeOf(visits.xy, axis);
    const values = middlesOf(low, high).map((at) => {
      let sum = 0;
      for (let i = 0; i < groups.count; i++) {
        if (groups.xy[2 * i + axis] > at) continue;
        for (let j = 0; j < groups.count; j++) {
          if (groups.xy[2 * j + axis] <= at) continue;
          sum += groups.weights[i] * groups.weights[j] * apart(groups.xy, i, groups.xy, j);
        }
      }
      return sum;
    });
    return importance(low, high, values);
  });
}

/** The corners of all cells, in the order of the solver: calls visit(corner, cell, own, beside). */
function eachCorner(nx, ny, visit) {
  let corner = 0;
  for (let iy = 0; iy < Math.max(1, ny - 1); iy++) {
    for (let ix = 0; ix < Math.max(1, nx - 1); ix++) {
      for (let up = 0; up < Math.min(2, ny); up++) {
        for (let right = 0; right < Math.min(2, nx); right++) {
          const own = (iy + up) * nx + ix + right;
          const beside = [(iy + up) * nx + ix + 1 - right, (iy + 1 - up) * nx + ix + right];
          visit(corner++, [ix, iy], own, beside);
        }
      }
    }
  }
}

/** From a solution: the price of the cones, that is their multipliers times the slopes. */
export function nextImportance({ xs, ys }, { matrix, multipliers, corners }, m) {
  const axes = [xs, ys];
  const sums = axes.map((axis) => new Float64Array(Math.max(1, axis.length - 1)));
  eachCorner(xs.length, ys.length, (corner, cell, own, beside) => {
    axes.forEach((axis, k) => {
      if (axis.length === 1) return;
      const spacing = axis[cell[k] + 1] - axis[cell[k]];
      let price = 0;
      for (let z = 0; z < m; z++) {
        const slope = (matrix[beside[k] * m + z] - matrix[own * m + z]) / spacing;
        price += Math.abs(multipliers[(z * corners + corner) * 3 + k + 1] * slope);
      }
      sums[k][cell[k]] += price / spacing;
    });
  });
  return axes.map((axis, k) => {
    if (axis.length === 1) return { low: axis[0], high: axis[0], values: Float64Array.of(1) };
    const between = Array.from(sums[k], (_, i) => (axis[i] + axis[i + 1]) / 2);
    const [low, high] = [axis[0], axis.at(-1)];
    return importance(low, high, middlesOf(low, high).map((at) => interpolated(at, between, sums[k])));
  });
}

/** The value at a place of a function that is linear between increasing places. */
function interpolated(at, places, values) {
  if (at <= places[0]) return values[0];
  for (let i = 1; i < places.length; i++) {
    if (at > places[i]) continue;
    const share = (at - places[i - 1]) / (places[i] - places[i - 1]);
    return values[i - 1] + share * (values[i] - values[i - 1]);
  }
  return values.at(-1);
}

/**
 * A lattice { xs, ys } of at most so many vertices, in km: with p and q lines the loss is about
 * a^2 / p + b^2 / q, with a and b the integrals of the roots of the importance.
 */
export function gradedLattice([east, north], vertices) {
  const rootOf = ({ low, high, values }) =>
    (values.reduce((sum, value) => sum + Math.sqrt(value), 0) / values.length) * (high - low);
  const flat = [east, north].map(({ low, high }) => high - low < 2 * LINE_KM);
  let [columns, rows] = flat.map((isFlat) => (isFlat ? 1 : vertices));
  if (!flat[0] && !flat[1]) {
    const [a, b] = [rootOf(east) ** 2, rootOf(north) ** 2];
    let least = Infinity;
    for (let p = 2; p <= Math.max(2, Math.floor(vertices / 2)); p++) {
      const q = Math.max(2, Math.floor(vertices / p));
      if (a / p + b / q < least) [least, columns, rows] = [a / p + b / q, p, q];
    }
  }
  return { xs: linesOf(east, columns), ys: linesOf(north, rows) };
}

/** So many coordinates with a density like the root of the importance, rounded to units. */
function linesOf({ low, high, values }, count) {
  const rounded = (km) => toUnits(km) / UNITS_PER_KM;
  if (count < 2 || high - low < 2 * LINE_KM) return Float64Array.of(rounded((low + high) / 2));
  const sums = [0];
  for (const value of values) sums.push(sums.at(-1) + Math.sqrt(value));
  const ends = sums.map((_, i) => low + ((high - low) * i) / (sums.length - 1));
  const kept = [low];
  for (let i = 1; i < count - 1; i++) {
    const at = interpolated((sums.at(-1) * i) / (count - 1), sums, ends);
    if (at - kept.at(-1) >= LINE_KM && high - at >= LINE_KM) kept.push(at);
  }
  return Float64Array.from([...kept, high], rounded);
}
