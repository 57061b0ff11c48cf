// From points to visited points, with the same steps and constants as whereish/profiles/visited.py:
// small cells, then clusters, weighted by time. A mechanism with a guarantee between any two points
// is built for them. A test gives both the same traces and compares points and weights.

import {
  FAR_KM, HEAVIEST_CLUSTERS, MERGED_CELLS, OTHER_CLUSTERS, POINT_CELL_KM, RADIUS_KM, STEP_MS,
} from "./constants.js";
import { project } from "../whereish/plane.js";
import { unproject } from "../whereish/unproject.js";

const STEPS_OF_HOUR = 3_600_000 / STEP_MS;
const ELSEWHERE = NaN; // one cell for all points too far away to be in the plane
const HALF = 2 ** 20;
const cellAt = (column, row) => (row + HALF) * 2 * HALF + column + HALF;
const gridOf = (cell) => [(cell % (2 * HALF)) - HALF, Math.floor(cell / (2 * HALF)) - HALF];
const centreOf = (cell) => gridOf(cell).map((k) => (k + 0.5) * POINT_CELL_KM);

/** Round half to even, as numpy does. */
function rounded(value, decimals) {
  const power = 10 ** decimals;
  const scaled = value * power;
  const below = Math.floor(scaled);
  const half = scaled - below;
  const up = half > 0.5 || (half === 0.5 && below % 2 !== 0);
  return (up ? below + 1 : below) / power;
}

function cellOf(centre, lat, lon) {
  const up = FAR_KM / 110 + 1e-3;
  const turned = Math.abs(((((lon - centre[1] + 180) % 360) + 360) % 360) - 180);
  const narrow = Math.cos((Math.min(89, Math.abs(centre[0]) + up) * Math.PI) / 180);
  if (!(Math.abs(lat - centre[0]) <= up)) return ELSEWHERE;
  if (Math.abs(centre[0]) + up < 85 && !(turned <= up / narrow)) return ELSEWHERE;
  const [x, y] = project(centre, lat, lon);
  return cellAt(Math.floor(x / POINT_CELL_KM), Math.floor(y / POINT_CELL_KM));
}

/** The weight of each cell: its share of the time, or its points if no point has a time. */
function weightsOf({ lat, lon, time }, centre, timed) {
  const weights = new Map();
  const add = (cell, weight) => weights.set(cell, (weights.get(cell) ?? 0) + weight);
  const steps = new Map(); // the cells of each step of five minutes
  for (let i = 0; i < lat.length; i++) {
    if (timed && Number.isNaN(time[i])) continue; // a point without a time, in traces with times
    const cell = cellOf(centre, lat[i], lon[i]);
    if (!timed) {
      add(cell, 1);
      continue;
    }
    const step = Math.floor(time[i] / STEP_MS);
    const there = steps.get(step);
    if (there) there.add(cell);
    else steps.set(step, new Set([cell]));
  }
  const inHour = new Map(); // how many steps of each hour have a point
  const hourOf = (step) => Math.floor(step / STEPS_OF_HOUR);
  for (const step of steps.keys()) inHour.set(hourOf(step), (inHour.get(hourOf(step)) ?? 0) + 1);
  for (const [step, cells] of steps) {
    for (const cell of cells) add(cell, 1 / (inHour.get(hourOf(step)) * cells.size));
  }
  return weights;
}

/** The number of the cluster of each cell: see _clusters in visited.py. */
function clustersOf(cells) {
  const at = new Map(cells.map(({ cell }, k) => [cell, k]));
  const near = [];
  for (let a = -MERGED_CELLS; a <= MERGED_CELLS; a++) {
    for (let b = -MERGED_CELLS; b <= MERGED_CELLS; b++) {
      if (a * a + b * b <= MERGED_CELLS ** 2) near.push([a, b]);
    }
  }
  const order = [...cells.keys()].sort((i, j) => cells[j].rank - cells[i].rank ||
    cells[i].column - cells[j].column || cells[i].row - cells[j].row);
  const of = new Int32Array(cells.length).fill(-1);
  const total = [];
  for (const k of order) {
    if (of[k] >= 0) continue;
    const { column, row } = cells[k];
    let sum = 0;
    for (const [a, b] of near) {
      const j = at.get(cellAt(column + a, row + b));
      if (j === undefined || of[j] >= 0) continue;
      of[j] = total.length;
      sum += cells[j].weight;
    }
    total.push(sum);
  }
  if (total.length <= HEAVIEST_CLUSTERS + OTHER_CLUSTERS) return of;
  const ranks = total.map((sum) => rounded(sum, 9));
  const heavy = [...total.keys()].sort((a, b) => ranks[b] - ranks[a] || a - b);
  const number = new Int32Array(total.length).fill(-1);
  heavy.slice(0, HEAVIEST_CLUSTERS).forEach((cluster, k) => (number[cluster] = k));
  for (let k = 0; k < of.length; k++) of[k] = number[of[k]];
  for (let side = 2 * MERGED_CELLS; ; side *= 2) {
    const squares = new Map();
    const merged = cells.map(({ column, row }, k) => {
      if (of[k] >= 0) return of[k];
      const square = cellAt(Math.floor(column / side), Math.floor(row / side));
      if (!squares.has(square)) squares.set(square, HEAVIEST_CLUSTERS + squares.size);
      return squares.get(square);
    });
    if (squares.size <= OTHER_CLUSTERS) return merged;
  }
}

/**
 * The points that a person visits, in clusters of about 50 m, with the share of the time at each,
 * the largest first; null if there are none within the area.
 */
export function visitedPoints(points, centre, timed) {
  const cells = [];
  for (const [cell, weight] of weightsOf(points, centre, timed)) {
    if (Number.isNaN(cell)) continue;
    const [x, y] = centreOf(cell);
    if (Math.hypot(x, y) > RADIUS_KM) continue;
    const [column, row] = gridOf(cell);
    cells.push({ cell, column, row, x, y, weight, rank: rounded(weight, 9) });
  }
  if (cells.length === 0) return null;
  cells.sort((a, b) => a.cell - b.cell);
  const sums = new Map();
  clustersOf(cells).forEach((cluster, k) => {
    const { x, y, weight } = cells[k];
    const [wx, wy, sum] = sums.get(cluster) ?? [0, 0, 0];
    sums.set(cluster, [wx + weight * x, wy + weight * y, sum + weight]);
  });
  const found = new Map(); // means that are the same point, to a metre, are one
  for (const [wx, wy, sum] of sums.values()) {
    const at = [wx / sum, wy / sum].map((mean) => rounded(rounded(mean, 6), 3) + 0);
    const same = found.get(String(at));
    if (same) same.sum += sum;
    else found.set(String(at), { at, sum, rank: 0 });
  }
  for (const one of found.values()) one.rank = rounded(one.sum, 9);
  const sorted = [...found.values()].sort((a, b) => b.rank - a.rank ||
    a.at[0] - b.at[0] || a.at[1] - b.at[1]);
  const all = sorted.reduce((total, { sum }) => total + sum, 0);
  return {
    points: sorted.map(({ at }) => unproject(centre, ...at)),
    weights: sorted.map(({ sum }) => sum / all),
  };
}
