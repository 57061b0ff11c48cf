// Learns a profile from the device's own positions, in bounded memory. It keeps which cells of about
// 25 m were visited in which five minutes; a profile counts these visits as it counts points.

import { EARLIEST_MS, EARTH_RADIUS_KM, POINT_CELL_KM, STEP_MS } from "./constants.js";
import { profileOf } from "./person.js";
import { TraceError } from "./values.js";

const HOUR_MS = 3_600_000;
const STEPS = HOUR_MS / STEP_MS; // of an hour
const MOST_HOURS = 24 * 366;
const MOST_VISITS = 200_000; // pairs of a cell and an hour, in all
const MOST_OF_STEP = 30; // cells: on a fast journey, the first ones of each step are kept
const VERSION = 1;

const RAD = Math.PI / 180;
const ROW_DEGREES = POINT_CELL_KM / (EARTH_RADIUS_KM * RAD);
const COLUMNS = 2 ** 21;
/** Degrees of longitude that are about as long as a row is high; the same within a degree of latitude. */
const columnDegrees = (row) => {
  const band = Math.floor(row * ROW_DEGREES - 90) + 0.5;
  return ROW_DEGREES / Math.max(Math.cos(band * RAD), 1e-3);
};

function cellOf(lat, lon) {
  const row = Math.floor((lat + 90) / ROW_DEGREES);
  return row * COLUMNS + Math.floor((lon + 180) / columnDegrees(row));
}

function middleOf(cell) {
  const row = Math.floor(cell / COLUMNS);
  return [
    Math.min(90, (row + 0.5) * ROW_DEGREES - 90),
    Math.min(180, ((cell % COLUMNS) + 0.5) * columnDegrees(row) - 180),
  ];
}

/** Learns a profile. Everything it keeps is a true location: it must stay on the device. */
export class Learner {
  #visits = new Map(); // by hour: a Map from each cell to the steps of the hour, as bits
  #size = 0;

  /**
   * Add a position of the device, at a time in milliseconds since 1970. Returns false if it is
   * impossible, and is not counted.
   */
  add(lat, lon, timeMs) {
    const sane = Math.abs(lat) <= 90 && Math.abs(lon) <= 180 && timeMs >= EARLIEST_MS &&
      timeMs < Number.MAX_SAFE_INTEGER && !(Math.abs(lat) < 1e-9 && Math.abs(lon) < 1e-9);
    if (!sane) return false;
    const hour = Math.floor(timeMs / HOUR_MS);
    const bit = 1 << Math.floor((timeMs - hour * HOUR_MS) / STEP_MS);
    if (!this.#visits.has(hour)) this.#visits.set(hour, new Map());
    const cells = this.#visits.get(hour);
    const cell = cellOf(lat, lon);
    const known = cells.get(cell);
    if (known === undefined || !(known & bit)) {
      let inStep = 0;
      for (const bits of cells.values()) if (bits & bit) inStep++;
      if (inStep < MOST_OF_STEP) {
        cells.set(cell, (known ?? 0) | bit);
        if (known === undefined) this.#size++;
      }
    }
    this.#forgetOldest();
    return true;
  }

  /** The number of hours with positions. */
  get hours() {
    return this.#visits.size;
  }

  /** Delete the oldest hours while there is too much. */
  #forgetOldest() {
    while (this.#visits.size > 1 && (this.#visits.size > MOST_HOURS || this.#size > MOST_VISITS)) {
      let oldest = Infinity;
      for (const hour of this.#visits.keys()) oldest = Math.min(oldest, hour);
      this.#size -= this.#visits.get(oldest).size;
      this.#visits.delete(oldest);
    }
  }

  /** The visits as points: the middle of a cell, at the beginning of each five minutes there. */
  points() {
    const [lat, lon, time] = [[], [], []];
    for (const hour of [...this.#visits.keys()].sort((a, b) => a - b)) {
      for (const [cell, bits] of this.#visits.get(hour)) {
        const [north, east] = middleOf(cell);
        for (let step = 0; step < STEPS; step++) {
          if (!(bits & (1 << step))) continue;
          lat.push(north);
          lon.push(east);
          time.push(hour * HOUR_MS + step * STEP_MS);
        }
      }
    }
    return { lat: Float64Array.from(lat), lon: Float64Array.from(lon), time: Float64Array.from(time) };
  }

  /** The profile of what was learned so far: see `profileOf`. Throws TraceError if there is nothing. */
  profile(options) {
    return profileOf(this.points(), options);
  }

  /** What is kept, for JSON. It is a record of true locations: it must stay on the device. */
  toJSON() {
    const visits = {};
    for (const [hour, cells] of this.#visits) visits[hour] = [...cells].flat();
    return { version: VERSION, visits };
  }

  /** A learner from what `toJSON` returned, or from its text. */
  static from(json) {
    let kept = json;
    try {
      if (typeof json === "string") kept = JSON.parse(json);
    } catch {
      kept = null;
    }
    const learner = new Learner();
    if (kept?.version !== VERSION || typeof kept.visits !== "object") learner.#refuse();
    for (const [hour, flat] of Object.entries(kept.visits ?? {})) {
      const cells = new Map();
      if (!Array.isArray(flat) || flat.length % 2 !== 0 || !isWhole(Number(hour), 1e9)) learner.#refuse();
      for (let i = 0; i < flat.length; i += 2) {
        const [cell, bits] = [flat[i], flat[i + 1]];
        if (!isWhole(cell, 2 ** 42) || !(isWhole(bits, 2 ** STEPS) && bits > 0)) learner.#refuse();
        cells.set(cell, bits);
      }
      if (cells.size > 0) learner.#visits.set(Number(hour), cells);
      learner.#size += cells.size;
    }
    learner.#forgetOldest();
    return learner;
  }

  #refuse() {
    throw new TraceError("the stored state of a Learner must be a value of toJSON, and is not: forget it and learn again");
  }
}

const isWhole = (number, most) => Number.isSafeInteger(number) && number >= 0 && number < most;
