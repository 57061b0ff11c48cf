// Weighted points of a person: validation, clusters, medians and outputs. The same steps as
// src/whereish/everywhere/points.py. Points are two numbers each, km in the plane, in one flat array.

import { FURTHEST_KM } from "../whereish/constants.js";
import { InputError } from "../whereish/errors.js";
import { unproject } from "../whereish/unproject.js";
import { planeOf } from "./planes.js";
import { sharesOf } from "./shares.js";

const MOST_POINTS = 100_000;
const WEISZFELD = 60; // steps of the iteration for a geometric median
const LEAST_KM = 1e-6; // no distance is taken as smaller, so that weights stay finite

/** The visited points of the options: { centre, xy, weights, count }; points without weight are left out. */
export function visitsOf({ points, weights }) {
  const shares = sharesOf("weights", weights, points?.length ?? 0);
  const kept = Array.from(shares.keys()).filter((i) => shares[i] > 0);
  const plane = planeOf("points", kept.map((i) => points[i]), MOST_POINTS);
  // The corners of the lattice are further away than the points.
  const far = [0, 1].map((axis) => Math.max(...rangeOf(plane.xy, axis).map(Math.abs)));
  if (!(Math.hypot(...far) <= FURTHEST_KM)) {
    throw new InputError(`points must lie within ${FURTHEST_KM} km of their centre, and one is further away`);
  }
  const weight = Float64Array.from(kept, (i) => shares[i]);
  return { centre: plane.centre, xy: plane.xy, weights: weight, count: kept.length };
}

/** Degrees of points in km, as one flat array. */
export function toLatlon(centre, xy) {
  const latlon = new Float64Array(xy.length);
  for (let i = 0; i < xy.length; i += 2) latlon.set(unproject(centre, xy[i], xy[i + 1]), i);
  return latlon;
}

/** The distance between point i of one array and point j of another. */
export function apart(one, i, other, j) {
  const east = one[2 * i] - other[2 * j];
  const north = one[2 * i + 1] - other[2 * j + 1];
  return Math.sqrt(east * east + north * north);
}

/** The least and the largest coordinate of an axis, 0 or 1. */
export function rangeOf(xy, axis) {
  let [low, high] = [Infinity, -Infinity];
  for (let i = axis; i < xy.length; i += 2) {
    low = Math.min(low, xy[i]);
    high = Math.max(high, xy[i]);
  }
  return [low, high];
}

/**
 * Group points in square cells, as small as at most so many clusters allow. The centre of a cluster
 * is the weighted mean of its points. Returns { xy, weights, of, count }.
 */
export function clustered({ xy, weights, count }, most) {
  const lows = [rangeOf(xy, 0)[0], rangeOf(xy, 1)[0]];
  const numbered = (side) => {
    const numbers = new Map();
    const of = new Int32Array(count);
    for (let i = 0; i < count; i++) {
      const key = side === 0 ? `${xy[2 * i]} ${xy[2 * i + 1]}`
        : Math.floor((xy[2 * i] - lows[0]) / side) * 2 ** 26 + Math.floor((xy[2 * i + 1] - lows[1]) / side);
      if (!numbers.has(key)) numbers.set(key, numbers.size);
      of[i] = numbers.get(key);
    }
    return { of, size: numbers.size };
  };
  let found = numbered(0);
  if (found.size > most) {
    const size = Math.max(...[0, 1].map((axis) => rangeOf(xy, axis)[1] - lows[axis]));
    let [low, high] = [size / 2 ** 25, size * 1.001];
    for (let round = 0; round < 30; round++) {
      const middle = (low + high) / 2;
      if (numbered(middle).size <= most) high = middle;
      else low = middle;
    }
    found = numbered(high);
  }
  const { of, size } = found;
  const [centres, sums] = [new Float64Array(2 * size), new Float64Array(size)];
  for (let i = 0; i < count; i++) {
    sums[of[i]] += weights[i];
    centres[2 * of[i]] += weights[i] * xy[2 * i];
    centres[2 * of[i] + 1] += weights[i] * xy[2 * i + 1];
  }
  return { xy: centres.map((sum, at) => sum / sums[at >> 1]), weights: sums, of, count: size };
}

/** Numbers in the order of their weights, the largest first. */
export const heaviest = (weights) =>
  Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a] || a - b);

/**
 * The geometric median of the points for each of `rows` lists of weights: Weiszfeld's iteration,
 * compared with the best of the points themselves.
 */
export function medians(weights, rows, points) {
  const n = points.length / 2;
  const found = new Float64Array(2 * rows);
  for (let row = 0; row < rows; row++) {
    const share = weights.subarray(row * n, (row + 1) * n);
    const costAt = (x, y) => {
      let sum = 0;
      for (let i = 0; i < n; i++) {
        const east = points[2 * i] - x;
        const north = points[2 * i + 1] - y;
        sum += share[i] * Math.sqrt(east * east + north * north);
      }
      return sum;
    };
    let [best, least] = [0, Infinity];
    for (let i = 0; i < n; i++) {
      if (!(share[i] > 0)) continue;
      const cost = costAt(points[2 * i], points[2 * i + 1]);
      if (cost < least) [best, least] = [i, cost];
    }
    let at = null;
    for (let step = 0; step <= WEISZFELD; step++) {
      let [x, y, sum] = [0, 0, 0];
      for (let i = 0; i < n; i++) {
        const east = at === null ? 1 : points[2 * i] - at[0];
        const north = at === null ? 0 : points[2 * i + 1] - at[1];
        const pull = share[i] / Math.max(Math.sqrt(east * east + north * north), LEAST_KM);
        x += pull * points[2 * i];
        y += pull * points[2 * i + 1];
        sum += pull;
      }
      at = [x / sum, y / sum];
    }
    if (!(costAt(...at) < least)) at = [points[2 * best], points[2 * best + 1]];
    found.set(at, 2 * row);
  }
  return found;
}

/** The points without those closer than this to an earlier one. */
export function separate(xy, least) {
  const kept = [];
  for (let i = 0; i < xy.length / 2; i++) {
    let close = false;
    for (let k = 0; k < kept.length && !close; k += 2) {
      close = Math.hypot(xy[2 * i] - kept[k], xy[2 * i + 1] - kept[k + 1]) < least;
    }
    if (!close) kept.push(xy[2 * i], xy[2 * i + 1]);
  }
  return Float64Array.from(kept);
}

/** A grid of side x side points over the rectangle of points, as [x, y] after [x, y]. */
export function gridOver(xy, side) {
  const axes = [0, 1].map((axis) => {
    const [low, high] = rangeOf(xy, axis);
    const lines = Array.from({ length: side }, (_, i) => low + ((high - low) * i) / (side - 1));
    return high > low ? lines : [low];
  });
  return axes[1].flatMap((y) => axes[0].map((x) => [x, y])).flat();
}

/** (groups, outputs): the sum over the points of a group of weight times distance. */
export function expectedCosts({ xy, weights, count }, of, groups, outputs) {
  const m = outputs.length / 2;
  const total = new Float64Array(groups * m);
  for (let i = 0; i < count; i++) {
    for (let z = 0; z < m; z++) total[of[i] * m + z] += weights[i] * apart(xy, i, outputs, z);
  }
  return total;
}
