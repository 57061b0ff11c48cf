// From points to places: a grid of square cells round the middle of somebody's life, the most
// visited of them, and how much of the time they hold.

import { project } from "./vendor/whereish.js";
import { unproject } from "./geo.js";

export const CELLS_M = [300, 400, 600, 800, 1000, 1500, 2000];
export const MOST_CELLS = 60;
const FEWEST_CELLS = 25;
const RADIUS_KM = 25;
const ENOUGH = 0.9;
const BESIDE = [[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [-1, -1], [1, -1], [-1, 1]];
const HOUR_MS = 3_600_000;

/** The hundredth of a degree in which most hours were spent: a centre that is nobody's home. */
function middle(lat, lon, hours) {
  const seen = new Map();
  for (let i = 0; i < lat.length; i++) {
    if (Number.isNaN(hours[i])) continue;
    const cell = (Math.round(lat[i] * 100) + 9000) * 40_000 + Math.round(lon[i] * 100) + 18_000;
    const there = seen.get(cell);
    if (there) there.add(hours[i]);
    else seen.set(cell, new Set([hours[i]]));
  }
  const [best] = [...seen].reduce((a, b) => (b[1].size > a[1].size ? b : a));
  return [Math.floor(best / 40_000) / 100 - 90, (best % 40_000) / 100 - 180];
}

/** Points on the plane, with the hour each belongs to; without times every point is its own. */
export function layOut({ lat, lon, time }) {
  const timed = time.some((t) => !Number.isNaN(t));
  const hours = Float64Array.from(time, (t, i) => (timed ? Math.floor(t / HOUR_MS) : i));
  const centre = middle(lat, lon, hours);
  const near = { x: [], y: [], hour: [] }; // flat: there may be millions
  const away = new Set(); // hours of which some was spent outside the area
  const all = new Set();
  for (let i = 0; i < lat.length; i++) {
    if (Number.isNaN(hours[i])) continue; // without a time, among others that have one
    all.add(hours[i]);
    const far = Math.abs(lat[i] - centre[0]) > 0.3;
    const [x, y] = far ? [Infinity, 0] : project(centre, lat[i], lon[i]);
    if (Math.hypot(x, y) <= RADIUS_KM) {
      near.x.push(x);
      near.y.push(y);
      near.hour.push(hours[i]);
    } else away.add(hours[i]);
  }
  return { centre, near, away, hours: all.size, timed };
}

// A cell is one number: two small ones, of which neither is negative.
const HALF = 2048;
const cellAt = (i, j) => (i + HALF) * 2 * HALF + j + HALF;
const cornerOf = (cell) => [Math.floor(cell / (2 * HALF)) - HALF, (cell % (2 * HALF)) - HALF];

/** Places and prior on cells of a size: the prior is each one's share of (hour, cell) visits. */
export function inCells({ centre, near, away, hours, timed }, cellM) {
  const side = cellM / 1000;
  const visits = new Map(); // cell -> the hours of somebody being there
  for (let k = 0; k < near.x.length; k++) {
    const cell = cellAt(Math.floor(near.x[k] / side), Math.floor(near.y[k] / side));
    const there = visits.get(cell);
    if (there) there.add(near.hour[k]);
    else visits.set(cell, new Set([near.hour[k]]));
  }
  const ranked = [...visits].sort((a, b) => b[1].size - a[1].size);
  const taken = ranked.slice(0, MOST_CELLS);
  const chosen = new Map(taken.map(([cell, there]) => [cell, there.size]));
  const covered = share(taken, ranked, away) / Math.max(hours, 1);
  const visited = chosen.size;
  addAround(chosen);
  const total = [...chosen.values()].reduce((a, b) => a + b, 0);
  const points = [...chosen.keys()].map((cell) => {
    const [i, j] = cornerOf(cell);
    return unproject(centre, (i + 0.5) * side, (j + 0.5) * side);
  });
  return {
    points, prior: [...chosen.values()].map((n) => n / total), cellKm: [side, side], earth: true,
    covered, visited, hours, timed, cellM,
  };
}

/** How many hours some cells hold: an hour is shared out among the cells it was spent in. */
function share(taken, all, away) {
  const parts = new Map([...away].map((hour) => [hour, 1]));
  for (const [, there] of all) for (const h of there) parts.set(h, (parts.get(h) ?? 0) + 1);
  let held = 0;
  for (const [, there] of taken) for (const h of there) held += 1 / parts.get(h);
  return held;
}

/** One hides among places where one is not, too: those around the visited join, unvisited. */
function addAround(chosen) {
  for (let round = 1; round <= 3 && chosen.size < FEWEST_CELLS; round++) {
    for (const cell of [...chosen.keys()]) {
      const [i, j] = cornerOf(cell);
      for (const [di, dj] of BESIDE) {
        const beside = cellAt(i + di, j + dj);
        if (chosen.size < FEWEST_CELLS && !chosen.has(beside)) chosen.set(beside, 0);
      }
    }
  }
}

/** The smallest cells of which the most that are allowed hold nine tenths of the time. */
export function bestSize(laid) {
  return CELLS_M.find((size) => inCells(laid, size).covered >= ENOUGH) ?? CELLS_M.at(-1);
}
