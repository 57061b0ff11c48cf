// From points to places, with the same steps and constants as whereish/profiles/personal.py. A test
// gives both the same traces and compares the places and the prior.

import {
  CELL_SIZES_M, COVERAGE, EARTH_RADIUS_KM, HEAVIEST_TILES, PLACES, RADIUS_KM, TILE_DEGREES,
} from "./constants.js";
import { project } from "../whereish/plane.js";
import { unproject } from "../whereish/unproject.js";

const HOUR_MS = 3_600_000;
const FINE_KM = CELL_SIZES_M[0] / 1000;
const SAME_DEGREES = 1e-9;
const RAD = Math.PI / 180;

// A cell or tile is one number, ordered by row from the south, then by column from the west.
const HALF = 2 ** 20;
const cellAt = (column, row) => (row + HALF) * 2 * HALF + column + HALF;
const gridOf = (cell) => [(cell % (2 * HALF)) - HALF, Math.floor(cell / (2 * HALF)) - HALF];

function addTo(visits, cell, hour) {
  const there = visits.get(cell);
  if (there) there.add(hour);
  else visits.set(cell, new Set([hour]));
}

/** The number of regions visited in each hour; `away` holds the hours spent outside the area. */
function regionsOfHours(visits, away = []) {
  const regions = new Map([...away].map((hour) => [hour, 1]));
  for (const there of visits.values()) {
    for (const hour of there) regions.set(hour, (regions.get(hour) ?? 0) + 1);
  }
  return regions;
}

/** The time spent in a region. An hour is divided equally among the regions visited in it. */
function timeIn(there, regions) {
  let time = 0;
  for (const hour of there) time += 1 / regions.get(hour);
  return time;
}

/** Distance on a sphere in km: accurate enough to decide what is inside the area. */
function apartKm(one, other) {
  const [a, c] = [one[0] * RAD, other[0] * RAD];
  const half = ((one[1] - other[1]) * RAD) / 2;
  const chord = Math.sin((a - c) / 2) ** 2 + Math.cos(a) * Math.cos(c) * Math.sin(half) ** 2;
  return 2 * EARTH_RADIUS_KM * Math.asin(Math.sqrt(Math.min(1, Math.max(0, chord))));
}

// --- the middle of the area -----------------------------------------------------------------

const tileOf = (lat, lon) =>
  cellAt(Math.floor((lon + 180) / TILE_DEGREES), Math.floor((lat + 90) / TILE_DEGREES));

function middleOf(tile) {
  const [column, row] = gridOf(tile);
  return [Math.min(90, (row + 0.5) * TILE_DEGREES - 90),
    Math.min(180, (column + 0.5) * TILE_DEGREES - 180)];
}

/** Round to hundredths as Python's round does: half-way cases go to the even neighbour. */
function round2(value) {
  const half = Number.isInteger(value * 8) && Math.abs(value * 8) % 2 === 1;
  if (!half) return Number(value.toFixed(2));
  const below = Math.floor(value * 100);
  return (below % 2 === 0 ? below : below + 1) / 100;
}

/** Python's (angle + 180) % 360 - 180. */
function wrapped(angle) {
  const turned = (angle + 180) % 360;
  return (turned < 0 ? turned + 360 : turned) - 180;
}

/** See _hundredths in personal.py: a mean next to the middle of a tile becomes that middle. */
function hundredths(lat, lon) {
  const [north, column] = middleOf(tileOf(lat, lon));
  const east = wrapped(column);
  return [round2(Math.abs(lat - north) < SAME_DEGREES ? north : lat),
    round2(Math.abs(lon - east) < SAME_DEGREES ? east : lon)];
}

/** The centre of the area with the most time, rounded to 0.01 degrees so that it is no home. */
function findMiddle(tiles) {
  const regions = regionsOfHours(tiles);
  const heaviest = [...tiles]
    .map(([tile, there]) => ({ tile, time: timeIn(there, regions), at: middleOf(tile) }))
    .sort((a, b) => b.time - a.time || a.tile - b.tile)
    .slice(0, HEAVIEST_TILES)
    .sort((a, b) => a.tile - b.tile);
  // A degree of latitude is 111 km. This cheap test rules out most tiles of a traveller.
  const around = (one) => heaviest.filter((other) =>
    Math.abs(other.at[0] - one.at[0]) * 111 <= RADIUS_KM && apartKm(other.at, one.at) <= RADIUS_KM);
  const total = (some) => some.reduce((sum, { time }) => sum + time, 0);
  let best = null;
  let most = -1;
  let near = [];
  for (const one of heaviest) {
    const some = around(one);
    const time = total(some);
    if (time > most) [best, most, near] = [one, time, some];
  }
  let [lat, east] = [0, 0];
  for (const { at, time } of near) {
    lat += (time / most) * at[0];
    east += (time / most) * wrapped(at[1] - best.at[1]); // works across the date line
  }
  return hundredths(lat, wrapped(best.at[1] + east));
}

// --- cells ----------------------------------------------------------------------------------

/** Visits to the smallest cells around the centre, and the hours spent outside the area. */
export function layOut({ lat, lon, time }) {
  const timed = time.some((t) => !Number.isNaN(t));
  const hours = Float64Array.from(time, (t, i) => (timed ? Math.floor(t / HOUR_MS) : i));
  const all = new Set();
  const tiles = new Map();
  for (let i = 0; i < lat.length; i++) {
    if (Number.isNaN(hours[i])) continue; // a point without a time, in traces with times
    all.add(hours[i]);
    addTo(tiles, tileOf(lat[i], lon[i]), hours[i]);
  }
  const centre = findMiddle(tiles);
  const fine = new Map();
  const away = new Set();
  const near = new Map(); // whether the middle of a cell is in the area
  for (let i = 0; i < lat.length; i++) {
    if (Number.isNaN(hours[i])) continue;
    const far = Math.abs(lat[i] - centre[0]) > (RADIUS_KM + 5) / 110;
    const [x, y] = far ? [Infinity, 0] : project(centre, lat[i], lon[i]);
    if (Math.hypot(x, y) > RADIUS_KM + 5) {
      away.add(hours[i]);
      continue;
    }
    const [column, row] = [Math.floor(x / FINE_KM), Math.floor(y / FINE_KM)];
    const cell = cellAt(column, row);
    if (!near.has(cell)) {
      const at = unproject(centre, (column + 0.5) * FINE_KM, (row + 0.5) * FINE_KM);
      near.set(cell, apartKm(at, centre) <= RADIUS_KM);
    }
    if (near.get(cell)) addTo(fine, cell, hours[i]);
    else away.add(hours[i]);
  }
  return { centre, fine, away, hours: all.size, timed };
}

/** The most visited cells of a size and the cells around them, with a prior from the visits. */
export function inCells({ centre, fine, away, hours, timed }, cellM) {
  const factor = cellM / CELL_SIZES_M[0];
  const side = FINE_KM * factor;
  const visits = new Map();
  for (const [cell, there] of fine) {
    const [column, row] = gridOf(cell);
    const coarse = cellAt(Math.floor(column / factor), Math.floor(row / factor));
    for (const hour of there) addTo(visits, coarse, hour);
  }
  const ranked = [...visits].sort((a, b) => b[1].size - a[1].size || a[0] - b[0]);
  const taken = ranked.slice(0, PLACES);
  const regions = regionsOfHours(visits, away);
  const share = (some) =>
    some.reduce((sum, [, there]) => sum + timeIn(there, regions), 0) / Math.max(hours, 1);
  const chosen = new Map(taken.map(([cell, there]) => [cell, there.size]));
  for (const cell of around(taken.map(([cell]) => cell), PLACES - taken.length)) chosen.set(cell, 0);
  const places = [...chosen].sort((a, b) => a[0] - b[0]);
  const total = places.reduce((sum, [, count]) => sum + count, 0);
  return {
    points: places.map(([cell]) => {
      const [column, row] = gridOf(cell);
      return unproject(centre, (column + 0.5) * side, (row + 0.5) * side);
    }),
    prior: places.map(([, count]) => count / total), cellKm: [side, side], earth: true,
    covered: share(taken), inArea: share(ranked), visited: taken.length, hours, timed, cellM,
  };
}

/** `count` unvisited cells, nearest to any visited one first: more places to hide among. */
function around(cells, count) {
  if (count <= 0) return [];
  const reach = Math.ceil(Math.sqrt(count)) + 1;
  const offsets = [];
  for (let row = -reach; row <= reach; row++) {
    for (let column = -reach; column <= reach; column++) offsets.push([column, row]);
  }
  offsets.sort((a, b) => a[0] ** 2 + a[1] ** 2 - b[0] ** 2 - b[1] ** 2);
  const known = new Set(cells);
  const found = new Set();
  for (const [column, row] of offsets) {
    if (found.size >= count) break;
    for (const cell of cells) {
      const [x, y] = gridOf(cell);
      const beside = cellAt(x + column, y + row);
      if (!known.has(beside)) found.add(beside);
    }
  }
  return [...found].slice(0, count);
}

/** The smallest cell size whose places cover enough of the time in the area, or the largest. */
export function bestSize(laid) {
  const fits = (size) => {
    const { covered, inArea } = inCells(laid, size);
    return covered >= COVERAGE * inArea;
  };
  return CELL_SIZES_M.find(fits) ?? CELL_SIZES_M.at(-1);
}
