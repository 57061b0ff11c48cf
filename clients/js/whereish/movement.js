// Movement models for filtered reports: a Markov chain on places, with transitions for each period of
// the day. `whereish profile --model` and `whereish.save_movement` write the file; the computations are
// those of src/whereish/profiles/movement_model.py.
import { LARGEST, MOST_PLACES } from "./constants.js";
import { isObject } from "./container.js";
import { FormatError, InputError } from "./errors.js";
import {
  abs, bufferOf, bytesOf, ceil, charCodeAt, charOf, clockIn, F64, floor, freeze, has, isArray, isFinite,
  isSafeInteger, lengthOf, parse, put, U8,
} from "./primordials.js";

const FORMAT = "whereish movement model";
const VERSION = 1;
const HOUR_S = 3600;
const DAY_S = 86400;
const WEEK_S = 7 * DAY_S;
const ROWS_SUM = 1e-9;
const SQUARINGS = 30; // a lazy chain of 2^30 days is at its limit
const SOME_NOON_S = 1767614400; // 5 January 2026, 12:00 UTC
// Private to this module, so that no other code can make a model without the checks.
const CHECKED = Symbol("checked");

/** A checked movement model. It tells how a person moves if it was weighted by a personal prior. */
export class MovementModel {
  places;
  stepSeconds;
  hours;
  zone;
  plane;
  #xy;
  #latlon;
  #transitions;
  #initial;
  #prior;
  #clock;
  #stationary;

  constructor(token, parts) {
    if (token !== CHECKED) throw new FormatError("a movement model must be read from a file: use readMovement");
    this.places = parts.n;
    this.stepSeconds = parts.step;
    this.hours = parts.hours;
    this.zone = parts.zone;
    this.plane = parts.plane;
    this.#xy = parts.xy;
    this.#latlon = parts.latlon;
    this.#transitions = parts.transitions;
    this.#initial = parts.initial;
    this.#prior = parts.prior;
    this.#clock = parts.clock;
    this.#stationary = null;
    freeze(this);
  }

  /** The places in km in the plane of the model: F64 of pairs. */
  get xy() {
    return copyOf(this.#xy);
  }

  /** The places in degrees, or null. */
  get latlon() {
    return this.#latlon === null ? null : copyOf(this.#latlon);
  }

  /** The probability to be at each place, at a time in seconds since 1970. */
  initialAt(seconds) {
    const start = this.#periodAt(seconds) * this.places;
    const row = new F64(this.places);
    for (let x = 0; x < this.places; x++) row[x] = this.#initial[start + x];
    return row;
  }

  /**
   * A distribution at a later time. A step belongs to the period in which it begins; a part of a step,
   * a share f, is (1 - f) I + f M. After more than a week it is the stationary distribution.
   */
  moved(distribution, start, end) {
    if (!(end - start <= WEEK_S)) return this.#stationaryAt(end);
    return this.#rowsMoved(distribution, 1, start, end);
  }

  /** Rows of distributions, each moved from one time to another. */
  #rowsMoved(rows, count, start, end) {
    const n = this.places;
    let found = rows;
    let now = start;
    while (end - now > 1e-6) {
      const clock = this.#clock(now);
      let rest = DAY_S;
      for (let h = 0; h < this.hours.length; h++) {
        const until = (((this.hours[h] * HOUR_S - clock) % DAY_S) + DAY_S) % DAY_S || DAY_S;
        if (until < rest) rest = until;
      }
      let steps = ceil(rest / this.stepSeconds - 1e-9);
      const left = (end - now) / this.stepSeconds;
      if (left < steps) steps = left;
      const nearest = floor(steps + 0.5);
      if (abs(steps - nearest) < 1e-9) steps = nearest;
      if (!(steps > 0)) break;
      const first = this.#periodAt(now) * n * n;
      const whole = floor(steps);
      for (let step = 0; step < whole; step++) found = times(found, count, this.#transitions, first, n);
      const share = steps - whole;
      if (share > 0) {
        const further = times(found, count, this.#transitions, first, n);
        const part = new F64(count * n);
        for (let i = 0; i < count * n; i++) part[i] = (1 - share) * found[i] + share * further[i];
        found = part;
      }
      now += steps * this.stepSeconds;
    }
    return found;
  }

  /** Where the chain is in the long run, at the time of day of a time. */
  #stationaryAt(seconds) {
    const n = this.places;
    if (this.#stationary === null) {
      const noon = SOME_NOON_S - (this.#clock(SOME_NOON_S) - DAY_S / 2);
      let lazy = new F64(n * n);
      for (let x = 0; x < n; x++) lazy[x * n + x] = 1;
      const day = this.#rowsMoved(lazy, n, noon - DAY_S / 2, noon + DAY_S / 2);
      for (let i = 0; i < n * n; i++) lazy[i] = (lazy[i] + day[i]) / 2;
      for (let square = 0; square < SQUARINGS; square++) {
        lazy = times(lazy, n, lazy, 0, n);
        normalise(lazy, n, n);
      }
      this.#stationary = times(this.#prior, 1, lazy, 0, n);
    }
    return this.#rowsMoved(this.#stationary, 1, seconds - this.#clock(seconds), seconds);
  }

  #periodAt(seconds) {
    const hour = floor(this.#clock(seconds) / HOUR_S);
    let period = this.hours.length - 1;
    for (let h = 0; h < this.hours.length; h++) if (this.hours[h] <= hour) period = h;
    return period;
  }
}
freeze(MovementModel.prototype);
freeze(MovementModel);

/** Rows (count x n) times the n x n matrix that begins at `first`. */
function times(rows, count, matrix, first, n) {
  const found = new F64(count * n);
  for (let r = 0; r < count; r++) {
    for (let u = 0; u < n; u++) {
      const weight = rows[r * n + u];
      if (weight === 0) continue;
      for (let x = 0; x < n; x++) found[r * n + x] += weight * matrix[first + u * n + x];
    }
  }
  return found;
}

function normalise(rows, count, n) {
  for (let r = 0; r < count; r++) {
    let sum = 0;
    for (let x = 0; x < n; x++) sum += rows[r * n + x];
    for (let x = 0; x < n; x++) rows[r * n + x] /= sum;
  }
}

function copyOf(values) {
  const copy = new F64(lengthOf(values));
  for (let i = 0; i < lengthOf(values); i++) copy[i] = values[i];
  return copy;
}

/**
 * Read a movement model: the text of its file, its bytes, or the object that JSON.parse made of it.
 * The model must not be made of the trace that is protected.
 */
export function readMovement(source) {
  const told = isObject(source) && bytesOf(source) === null ? source : parsed(source);
  const at = (name) => (isObject(told) && has(told, name) ? told[name] : undefined);
  if (at("format") !== FORMAT || at("version") !== VERSION) {
    fail(`it must be one of version ${VERSION}, as whereish profile --model writes it`);
  }
  const n = at("places");
  if (!isSafeInteger(n) || n < 1 || n > MOST_PLACES) fail(`it must have 1 to ${MOST_PLACES} places`);
  const step = at("step_s");
  if (typeof step !== "number" || !(step >= 1 && step <= HOUR_S)) fail("a step must be from 1 to 3600 seconds");
  const hours = hoursOf(at("hours"));
  const periods = hours.length;
  const zone = at("zone");
  const clock = typeof zone === "string" ? clockIn(zone) : null;
  if (clock === null) fail("its time zone must be one that this device knows");
  const plane = pairOf(at("plane"));
  const latlon = (at("latlon") ?? null) === null ? null : numbersOf(at("latlon"), 2 * n);
  if (plane !== null && latlon === null) fail("places with a plane must have latitude and longitude");
  const transitions = sharesOf(at("transitions"), periods * n, n);
  const initial = sharesOf(at("initial"), periods, n);
  const prior = sharesOf(at("prior"), 1, n, 1e-6);
  const xy = numbersOf(at("xy_km"), 2 * n);
  return new MovementModel(CHECKED, { n, step, hours, zone, plane, latlon, transitions, initial, prior, xy, clock });
}

function parsed(source) {
  let text = source;
  const bytes = typeof source === "string" ? null : bytesOf(source);
  if (bytes !== null) {
    text = "";
    for (let i = 0; i < lengthOf(bytes); i++) text += charOf(bytes[i]); // the file is ASCII
  }
  if (typeof text !== "string") {
    throw new InputError("readMovement needs the text or the bytes of a file, or the object in it");
  }
  try {
    return parse(text);
  } catch {
    return fail("it is not JSON");
  }
}

function fail(words) {
  throw new FormatError(`not a movement model: ${words}`);
}

function hoursOf(hours) {
  const wrong = "hours must be hours of the day from 0 to 23, increasing";
  if (!isArray(hours) || hours.length < 1 || hours.length > 24) fail(wrong);
  const found = [];
  for (let h = 0; h < hours.length; h++) {
    if (!isSafeInteger(hours[h]) || hours[h] < 0 || hours[h] > 23 || (h > 0 && hours[h] <= hours[h - 1])) fail(wrong);
    put(found, h, hours[h]);
  }
  return freeze(found);
}

function pairOf(plane) {
  if (plane === null || plane === undefined) return null;
  const sane = isArray(plane) && plane.length === 2 && abs(plane[0]) <= 90 && abs(plane[1]) <= 180;
  if (!sane) fail("its plane must have a latitude and a longitude");
  return freeze([plane[0], plane[1]]);
}

/** Rows of n shares, of at least 0 and with sum 1: normalised. */
function sharesOf(text, rows, n, tolerance = ROWS_SUM) {
  const found = numbersOf(text, rows * n);
  for (let r = 0; r < rows; r++) {
    let sum = 0;
    for (let x = 0; x < n; x++) sum += found[r * n + x] >= 0 ? found[r * n + x] : NaN;
    if (!(abs(sum - 1) <= tolerance)) fail("probabilities must be at least 0, and every row must sum to 1");
  }
  normalise(found, rows, n);
  return found;
}

/** The value of a character of base64, or -1. */
function sixBits(code) {
  if (code >= 65 && code <= 90) return code - 65;
  if (code >= 97 && code <= 122) return code - 71;
  if (code >= 48 && code <= 57) return code + 4;
  return code === 43 ? 62 : code === 47 ? 63 : -1;
}

/** So many doubles of a base64 text, little-endian. */
function numbersOf(text, count) {
  const size = 8 * count;
  const digits = ceil((size * 8) / 6);
  const padded = 4 * ceil(size / 3);
  if (typeof text !== "string" || text.length !== padded) fail("an array must have as many numbers as there are places");
  const bytes = new U8(size);
  let held = 0;
  let bits = 0;
  let at = 0;
  for (let i = 0; i < digits; i++) {
    const value = sixBits(charCodeAt(text, i));
    if (value < 0) fail("an array must be base64");
    held = ((held << 6) | value) & 0xffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes[at++] = (held >> bits) & 255;
    }
  }
  const values = new F64(bufferOf(bytes));
  for (let i = 0; i < count; i++) {
    if (!isFinite(values[i]) || abs(values[i]) > LARGEST) fail("an array must hold finite numbers");
  }
  return values;
}
