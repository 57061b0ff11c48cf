// Whereish in the browser: reads a certified mechanism, finds the place that stands for where one
// is, and draws what to report, by the same integer comparisons as the Python library. The true
// location goes nowhere but into these functions. No dependency, no build step.

const TOTAL = 1n << 63n;
const LONGEST_HEADER = 1 << 20;
const ARRAYS = { U64: BigUint64Array, F64: Float64Array, I32: Int32Array };
const PERIODS_MS = { hour: 3_600_000, day: 86_400_000, week: 604_800_000 };

/** What was given cannot be used. */
export class InputError extends Error {}
/** A file is not a mechanism, or not one that may be used. */
export class FormatError extends InputError {}
/** A report would cost more than is left of its budget: nothing was reported. */
export class BudgetError extends Error {}

// --- the file ------------------------------------------------------------------------------

/** JSON exactly as the library writes it: no spaces, nothing but ASCII. */
function canonical(value) {
  return JSON.stringify(value).replace(
    /[\u0080-\uffff]/g,
    (mark) => "\\u" + mark.charCodeAt(0).toString(16).padStart(4, "0"),
  );
}

async function sha256(...parts) {
  const subtle = globalThis.crypto?.subtle;
  if (!subtle) {
    throw new FormatError("a file can be checked in a secure context only: https or localhost");
  }
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  const digest = new Uint8Array(await subtle.digest("SHA-256", whole));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function readArray(name, about, data, start) {
  const wrong = () => new FormatError(`the array ${name} is not described as it must be`);
  const kind = ARRAYS[about?.dtype];
  const { shape, data_offsets: offsets } = about ?? {};
  if (!kind || !Array.isArray(shape) || !Array.isArray(offsets) || Object.keys(about).length !== 3) {
    throw wrong();
  }
  if (shape.length < 1 || shape.length > 2 || !shape.every((s) => Number.isInteger(s) && s >= 0)) {
    throw wrong();
  }
  const count = shape.reduce((product, size) => product * size, 1);
  const end = start + count * kind.BYTES_PER_ELEMENT;
  if (offsets[0] !== start || offsets[1] !== end || end > data.length) {
    throw new FormatError(`the array ${name} is not where it must be in the file`);
  }
  // A copy: arrays in the file need not begin where their type could.
  return [new kind(data.slice(start, end).buffer), end];
}

/**
 * Read a `.whereish` file and check it: its digest, its form, and that every row of counts sums to
 * exactly 2^63 with no zero facing a positive number.
 *
 * The proof that every ratio is within its bound is checked by `whereish audit`; this checks that
 * the file is the one that was audited.
 */
export async function readMechanism(source) {
  // A plain Uint8Array: node's Buffer has another idea of what a slice is.
  const bytes = ArrayBuffer.isView(source)
    ? new Uint8Array(source.buffer, source.byteOffset, source.byteLength)
    : new Uint8Array(source);
  if (bytes.length < 8) throw new FormatError("not a mechanism: the file is cut short");
  const length = new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true);
  if (length > LONGEST_HEADER) {
    throw new FormatError("not a mechanism: it does not begin as a safetensors file does");
  }
  const head = bytes.subarray(8, 8 + Number(length));
  if (head.length < Number(length)) throw new FormatError("not a mechanism: the file is cut short");
  const text = new TextDecoder("ascii").decode(head);
  let header;
  try {
    header = JSON.parse(text);
  } catch {
    throw new FormatError("not a mechanism: it has no header that can be read");
  }
  if (header === null || typeof header !== "object" || Array.isArray(header)) {
    throw new FormatError("not a mechanism: it has no header that can be read");
  }
  const { __metadata__: texts, ...arrays } = header;
  if (!texts || !Object.values(texts).every((value) => typeof value === "string")) {
    throw new FormatError("not a mechanism: its header says nothing about it");
  }
  const plain = canonical({ __metadata__: texts, ...arrays });
  if (text !== plain + " ".repeat((8 - (plain.length % 8)) % 8)) {
    throw new FormatError("the file was changed: its header is not in the form it was written in");
  }
  const data = bytes.subarray(8 + Number(length));
  const found = {};
  let end = 0;
  for (const [name, about] of Object.entries(arrays)) {
    [found[name], end] = readArray(name, about, data, end);
  }
  if (end !== data.length) throw new FormatError("the file must end after its arrays");
  const { sha256: said, ...rest } = texts;
  const told = new TextEncoder().encode(canonical([arrays, rest]) + "\n");
  const digest = await sha256(told, data);
  if (said !== digest) {
    throw new FormatError("the file was changed: it does not have the digest that it says it has");
  }
  if (texts.format !== "whereish mechanism" || texts.version !== "1") {
    throw new FormatError("not a mechanism that this client can read");
  }
  return new Mechanism(found, arrays, JSON.parse(texts.mechanism), JSON.parse(texts.certificate), digest);
}

// --- the plane -----------------------------------------------------------------------------

const WGS84_A = 6378.137;
const WGS84_F = 1 / 298.257223563;
const WGS84_B = WGS84_A * (1 - WGS84_F);

/**
 * Project degrees to km east and north of a centre: azimuthal equidistant on the ellipsoid.
 * Distance and direction from the centre are those of the geodesic (Vincenty's inverse formulas).
 */
export function project(centre, lat, lon) {
  const rad = Math.PI / 180;
  const wrapped = ((((lon - centre[1] + 180) % 360) + 360) % 360) - 180;
  const L = wrapped * rad;
  const u1 = Math.atan((1 - WGS84_F) * Math.tan(centre[0] * rad));
  const u2 = Math.atan((1 - WGS84_F) * Math.tan(lat * rad));
  const [s1, c1, s2, c2] = [Math.sin(u1), Math.cos(u1), Math.sin(u2), Math.cos(u2)];
  let lambda = L;
  let sinSigma, cosSigma, sigma, cosSqAlpha, cos2m, sinL, cosL;
  for (let round = 0; round < 200; round++) {
    [sinL, cosL] = [Math.sin(lambda), Math.cos(lambda)];
    sinSigma = Math.hypot(c2 * sinL, c1 * s2 - s1 * c2 * cosL);
    if (sinSigma === 0) return [0, 0];
    cosSigma = s1 * s2 + c1 * c2 * cosL;
    sigma = Math.atan2(sinSigma, cosSigma);
    const sinAlpha = (c1 * c2 * sinL) / sinSigma;
    cosSqAlpha = 1 - sinAlpha ** 2;
    cos2m = cosSqAlpha === 0 ? 0 : cosSigma - (2 * s1 * s2) / cosSqAlpha;
    const C = (WGS84_F / 16) * cosSqAlpha * (4 + WGS84_F * (4 - 3 * cosSqAlpha));
    const before = lambda;
    lambda =
      L +
      (1 - C) * WGS84_F * sinAlpha *
        (sigma + C * sinSigma * (cos2m + C * cosSigma * (2 * cos2m ** 2 - 1)));
    if (Math.abs(lambda - before) < 1e-13) break;
  }
  const uSq = (cosSqAlpha * (WGS84_A ** 2 - WGS84_B ** 2)) / WGS84_B ** 2;
  const A = 1 + (uSq / 16384) * (4096 + uSq * (-768 + uSq * (320 - 175 * uSq)));
  const B = (uSq / 1024) * (256 + uSq * (-128 + uSq * (74 - 47 * uSq)));
  const turn =
    B * sinSigma *
    (cos2m +
      (B / 4) *
        (cosSigma * (2 * cos2m ** 2 - 1) -
          (B / 6) * cos2m * (4 * sinSigma ** 2 - 3) * (4 * cos2m ** 2 - 3)));
  const km = WGS84_B * A * (sigma - turn);
  const bearing = Math.atan2(c2 * sinL, c1 * s2 - s1 * c2 * cosL);
  return [km * Math.sin(bearing), km * Math.cos(bearing)];
}

// --- the mechanism -------------------------------------------------------------------------

/** A certified mechanism: what is reported from each place, how often, out of 2^63. */
export class Mechanism {
  #sums;
  #xy;
  #outputs;

  constructor(arrays, about, told, certificate, digest) {
    const { counts, inputs } = arrays;
    if (!counts || !inputs) throw new FormatError("not a mechanism: it has no counts or no places");
    [this.places, this.reports] = about.counts.shape;
    if (about.inputs.shape[0] !== this.places || about.outputs?.shape[0] !== this.reports) {
      throw new FormatError("not a mechanism: counts and places do not fit");
    }
    this.epsilon = told.epsilon;
    this.epsilonUnit = told.epsilon_unit;
    this.certificate = certificate;
    this.digest = digest;
    this.plane = told.inputs.plane ?? null;
    this.cellKm = told.inputs.cell_km ?? null;
    this.#xy = inputs;
    this.#outputs = { xy: arrays.outputs, latlon: arrays.outputs_latlon ?? null };
    this.#sums = runningSums(counts, this.places, this.reports);
    if (this.epsilon !== null) checkZeros(counts, this.places, this.reports);
    this.reachKm = this.cellKm ? Math.hypot(...this.cellKm) / 2 : furthestNeighbour(inputs);
    Object.freeze(this);
  }

  /** How often a place is reported as each output, out of 2^63: a row of the counts. */
  countsOf(place) {
    const row = [];
    let before = 0n;
    for (let z = 0; z < this.reports; z++) {
      const sum = this.#sums[this.#index(place) * this.reports + z];
      row.push(sum - before);
      before = sum;
    }
    return row;
  }

  /** Where an output is: degrees where the places lie on the earth, km in the plane always. */
  output(number) {
    if (!Number.isInteger(number) || number < 0 || number >= this.reports) {
      throw new InputError(`an output must be from 0 to ${this.reports - 1}`);
    }
    const { xy, latlon } = this.#outputs;
    const pair = (array) => [array[2 * number], array[2 * number + 1]];
    return { output: number, xyKm: pair(xy), latlon: latlon ? pair(latlon) : null };
  }

  /** Where a place is, in km in the plane. */
  input(place) {
    const i = this.#index(place);
    return [this.#xy[2 * i], this.#xy[2 * i + 1]];
  }

  /** Find the place that stands for a point. Keep what it returns: it is where somebody is. */
  locate(latitude, longitude) {
    if (!this.plane) throw new InputError("this mechanism's places do not lie on the earth");
    const sane = Math.abs(latitude) <= 90 && Math.abs(longitude) <= 180; // not so for NaN
    if (!sane) throw new InputError("a point must be latitude and longitude in degrees");
    const [x, y] = project(this.plane, latitude, longitude);
    let place = 0;
    let best = Infinity;
    for (let i = 0; i < this.places; i++) {
      const away = Math.hypot(this.#xy[2 * i] - x, this.#xy[2 * i + 1] - y);
      if (away < best) [place, best] = [i, away];
    }
    return { place, snappedKm: best, outside: best > this.reachKm * (1 + 1e-9) };
  }

  /**
   * Draw an output for a place from 63 uniform random bits: one more for every running sum that
   * is not above them. Every comparison is made, whatever is drawn.
   */
  draw(place, bits = randomBits()) {
    if (typeof bits !== "bigint" || bits < 0n || bits >= TOTAL) {
      throw new InputError("random bits must be a whole number from 0 to 2^63 - 1");
    }
    const start = this.#index(place) * this.reports;
    let output = 0;
    for (let z = 0; z < this.reports; z++) output += Number(bits >= this.#sums[start + z]);
    return output;
  }

  /** Draw one report of a point. Who reports more than once needs a Reporter. */
  report(latitude, longitude, { outside = "error" } = {}) {
    const found = this.locate(latitude, longitude);
    checkOutside(found, outside, this.reachKm);
    return this.output(this.draw(found.place));
  }

  #index(place) {
    if (!Number.isInteger(place) || place < 0 || place >= this.places) {
      throw new InputError(`a place must be from 0 to ${this.places - 1}`);
    }
    return place;
  }
}

function checkOutside(found, outside, reachKm) {
  if (outside !== "error" && outside !== "nearest") {
    throw new InputError('outside must be "error" or "nearest"');
  }
  if (outside === "error" && found.outside) {
    throw new InputError(`the point must be inside the area, within ${reachKm.toPrecision(3)} km of a place`);
  }
}

/** 63 uniform bits from the system's generator. */
export function randomBits() {
  return crypto.getRandomValues(new BigUint64Array(1))[0] >> 1n;
}

function runningSums(counts, places, reports) {
  const sums = new BigUint64Array(counts.length);
  for (let x = 0; x < places; x++) {
    let sum = 0n;
    for (let z = 0; z < reports; z++) {
      sum += counts[x * reports + z];
      if (sum > TOTAL) throw new FormatError(`row ${x} of the counts must sum to 2^63`);
      sums[x * reports + z] = sum;
    }
    if (sum !== TOTAL) throw new FormatError(`row ${x} of the counts must sum to 2^63`);
  }
  return sums;
}

function checkZeros(counts, places, reports) {
  for (let z = 0; z < reports; z++) {
    let zeros = 0;
    for (let x = 0; x < places; x++) zeros += Number(counts[x * reports + z] === 0n);
    if (zeros > 0 && zeros < places) {
      throw new FormatError(`output ${z} is reported from some places and never from others`);
    }
  }
}

function furthestNeighbour(xy) {
  const n = xy.length / 2;
  let reach = 0;
  for (let i = 0; i < n && n > 1; i++) {
    let nearest = Infinity;
    for (let j = 0; j < n; j++) {
      if (i !== j) {
        nearest = Math.min(nearest, Math.hypot(xy[2 * i] - xy[2 * j], xy[2 * i + 1] - xy[2 * j + 1]));
      }
    }
    reach = Math.max(reach, nearest);
  }
  return reach;
}

// --- many reports --------------------------------------------------------------------------

/**
 * Reports within a budget: the same place gets the same report all period, for nothing; a new
 * place costs epsilon. What was spent is written before a report is handed over, and is never
 * given back.
 *
 * @param storage an object like localStorage: getItem and setItem
 */
export class Reporter {
  #mechanism;
  #storage;
  #options;

  constructor(mechanism, storage, { budget, period = "day", outside = "error", key = "whereish", clock = Date.now } = {}) {
    if (!(mechanism instanceof Mechanism) || mechanism.epsilon === null) {
      throw new InputError("a Reporter needs a mechanism with an epsilon");
    }
    if (!(budget > 0) || !Number.isFinite(budget)) {
      throw new InputError("budget must be a positive epsilon per period");
    }
    if (!(period in PERIODS_MS)) throw new InputError("period must be hour, day or week");
    this.#mechanism = mechanism;
    this.#storage = storage;
    this.#options = { budget, period, outside, key, clock };
  }

  /** What has been spent in this period, and how much there is. */
  get state() {
    const { spent } = this.#ledger();
    return { spent, budget: this.#options.budget, period: this.#options.period };
  }

  /** Report a point; throws BudgetError where the budget does not allow it. */
  report(latitude, longitude) {
    const found = this.#mechanism.locate(latitude, longitude);
    checkOutside(found, this.#options.outside, this.#mechanism.reachKm);
    const ledger = this.#ledger();
    const name = `${this.#mechanism.digest.slice(0, 16)}:${found.place}`;
    const known = ledger.sticky[name];
    if (known !== undefined) return { ...this.#mechanism.output(known), fresh: false, cost: 0 };
    const cost = this.#mechanism.epsilon;
    if (ledger.spent + cost > this.#options.budget * (1 + 1e-12)) {
      throw new BudgetError(
        `a report costs epsilon ${cost}, and ${this.#options.budget - ledger.spent} is left this ${this.#options.period}`,
      );
    }
    const output = this.#mechanism.draw(found.place);
    ledger.spent += cost;
    ledger.sticky[name] = output;
    this.#storage.setItem(this.#options.key, JSON.stringify(ledger));
    return { ...this.#mechanism.output(output), fresh: true, cost };
  }

  #ledger() {
    const { key, period, clock } = this.#options;
    const now = Math.floor(clock() / PERIODS_MS[period]);
    const text = this.#storage.getItem(key);
    if (text === null || text === undefined) return { period, number: now, spent: 0, sticky: {} };
    let kept;
    try {
      kept = JSON.parse(text);
    } catch {
      kept = null;
    }
    const whole =
      kept && kept.period in PERIODS_MS && Number.isInteger(kept.number) && kept.spent >= 0 &&
      kept.sticky !== null && typeof kept.sticky === "object";
    if (!whole) throw new FormatError(`what is stored under ${key} is no ledger: it is left alone`);
    if (kept.period !== period) {
      throw new InputError(`the ledger under ${key} counts by the ${kept.period}, not by the ${period}`);
    }
    // A clock that was put back does not begin a period anew.
    return now > kept.number ? { period, number: now, spent: 0, sticky: {} } : kept;
  }
}

// --- navigator.geolocation -----------------------------------------------------------------

/**
 * Replace getCurrentPosition and watchPosition, so that pages get reports instead of positions:
 * no altitude, heading or speed, and an accuracy that says how far off a report may be.
 *
 * @param options.levels per origin: a Mechanism, or "real" or "never"; `mechanism` for all others
 * @returns a function that puts the originals back
 */
export function wrapGeolocation(navigator, mechanism, options = {}) {
  const { storage = globalThis.localStorage, levels = {}, origin = globalThis.location?.origin ?? "", ...rest } = options;
  const level = levels[origin] ?? mechanism;
  const real = navigator.geolocation;
  const original = {
    getCurrentPosition: real.getCurrentPosition.bind(real),
    watchPosition: real.watchPosition.bind(real),
  };
  if (level === "real") return () => {};
  const reporter = level === "never" ? null : new Reporter(level, storage, rest);
  const deny = (fail, code, message) =>
    fail?.({ code, message, PERMISSION_DENIED: 1, POSITION_UNAVAILABLE: 2, TIMEOUT: 3 });
  const hidden = (succeed, fail) => (position) => {
    let told;
    try {
      const made = reporter.report(position.coords.latitude, position.coords.longitude);
      told = asPosition(made, level, position.timestamp);
    } catch (wrong) {
      // Nothing of where one is: neither outside, nor out of budget, nor how far.
      deny(fail, 2, wrong instanceof BudgetError ? "the privacy budget is spent" : "no report");
      return;
    }
    succeed(told);
  };
  // What the real call is asked never depends on the page: its accuracy wish is not passed on.
  const asked = { maximumAge: 60_000 };
  const replace = (name, value) =>
    Object.defineProperty(real, name, { value, configurable: true, writable: true });
  replace("getCurrentPosition", (succeed, fail) => {
    if (!reporter) return deny(fail, 1, "denied");
    original.getCurrentPosition(hidden(succeed, fail), fail, asked);
  });
  replace("watchPosition", (succeed, fail) => {
    if (!reporter) {
      deny(fail, 1, "denied");
      return 0;
    }
    return original.watchPosition(hidden(succeed, fail), fail, asked);
  });
  return () => {
    replace("getCurrentPosition", original.getCurrentPosition);
    replace("watchPosition", original.watchPosition);
  };
}

/** How far off 95 % of the reports of any place are, in km: what an accuracy has to say. */
export function accuracyKm(mechanism, share = 0.95) {
  let worst = 0;
  for (let x = 0; x < mechanism.places; x++) {
    const row = mechanism.countsOf(x);
    const here = mechanism.input(x);
    const away = row
      .map((count, z) => {
        const [a, b] = mechanism.output(z).xyKm;
        return [Math.hypot(a - here[0], b - here[1]), Number(count) / 2 ** 63];
      })
      .sort((one, other) => one[0] - other[0]);
    let sum = 0;
    for (const [km, probability] of away) {
      sum += probability;
      if (sum >= share) {
        worst = Math.max(worst, km);
        break;
      }
    }
  }
  return worst + mechanism.reachKm;
}

const accuracies = new WeakMap();

function asPosition(made, mechanism, timestamp) {
  if (!accuracies.has(mechanism)) accuracies.set(mechanism, accuracyKm(mechanism) * 1000);
  const coords = {
    latitude: made.latlon[0],
    longitude: made.latlon[1],
    accuracy: accuracies.get(mechanism),
    altitude: null,
    altitudeAccuracy: null,
    heading: null,
    speed: null,
  };
  return { coords, timestamp };
}
