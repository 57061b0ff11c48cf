// A mechanism: how often each output is reported from each place, and the sampler.
import { ratioCheck } from "./audit.js";
import {
  checkBuild, checkClaims, checkEpsilon, checkMetric, checkNames, checkNearCentre, checkPlaces,
  checkPrior, checkProof, runningSums,
} from "./checks.js";
import { METRIC_KINDS } from "./constants.js";
import { parseObject } from "./container.js";
import { FormatError, InputError } from "./errors.js";
import { project } from "./plane.js";
import {
  abs, F64, fillRandom, freeze, has, hex, hypot, I32, isInteger, lengthOf, own, put, sortTyped, toNumber,
  U64,
} from "./primordials.js";
import { sha256 } from "./sha256.js";

const TOTAL = 1n << 63n;
export const EUCLIDEAN = "Euclidean distance between the places in their plane, in km";
const NONE = { unit: null, words: null };
const PER_KM = { unit: "per km", words: EUCLIDEAN };
const GIVEN = { unit: "per unit of its own metric", words: "given in the file, for every pair of places" };
// Private to this module, so that no other code can make a Mechanism without the checks.
const CHECKED = Symbol("checked");

/** A checked mechanism: how often each output is reported from each place, out of 2^63. */
export class Mechanism {
  // Declared, because an assignment to an undeclared field could call a setter of Object.prototype.
  places;
  reports;
  epsilon;
  epsilonUnit;
  certified;
  certificate;
  digest;
  signer;
  metricDigest;
  holdsPrior;
  plane;
  cellKm;
  reachKm;
  #sums;
  #xy;
  #outputs;
  #prior;
  #metric;

  constructor(token, parts) {
    if (token !== CHECKED) {
      throw new FormatError("a mechanism must be read from a file: use readMechanism");
    }
    this.places = parts.n;
    this.reports = parts.m;
    this.epsilon = parts.epsilon;
    this.epsilonUnit = parts.unit;
    this.certified = parts.epsilon !== null;
    this.certificate = parts.certificate;
    this.digest = parts.digest;
    this.signer = parts.signer;
    this.metricDigest = parts.metricDigest;
    this.holdsPrior = parts.prior !== null;
    this.plane = parts.plane;
    this.cellKm = parts.cell;
    this.reachKm = parts.reachKm;
    this.#xy = parts.xy;
    this.#outputs = parts.outputs;
    this.#sums = parts.sums;
    this.#prior = parts.prior;
    this.#metric = parts.metric;
    freeze(this);
  }

  /** A row of the counts: how often each output is reported from a place, out of 2^63. */
  countsOf(place) {
    const x = this.#index(place);
    const row = [];
    for (let z = 0; z < this.reports; z++) put(row, z, this.#count(x, z));
    return row;
  }

  #count(x, z) {
    const at = x * this.reports + z;
    return z === 0 ? this.#sums[at] : this.#sums[at] - this.#sums[at - 1];
  }

  /** The position of an output: km in the plane, and degrees if the places lie on the earth. */
  output(number) {
    return outputAt(this.#outputs, this.reports, number);
  }

  /** The position of a place, in km in the plane. */
  input(place) {
    const i = this.#index(place);
    return [this.#xy[2 * i], this.#xy[2 * i + 1]];
  }

  /** The distances from a place to all places, in the metric that epsilon is for. */
  distances(place) {
    const x = this.#index(place);
    const row = new F64(this.places);
    for (let o = 0; o < this.places; o++) {
      row[o] = this.#metric !== null
        ? this.#metric[x * this.places + o]
        : hypot(this.#xy[2 * o] - this.#xy[2 * x], this.#xy[2 * o + 1] - this.#xy[2 * x + 1]);
    }
    return row;
  }

  /** The position of an output in the plane of the places, in km. */
  outputInPlane(number) {
    const { output } = this.output(number); // refuses what is no output
    const { plane, latlon, xy } = this.#outputs;
    const same = !plane || (plane[0] === this.plane[0] && plane[1] === this.plane[1]);
    return same
      ? [xy[2 * output], xy[2 * output + 1]]
      : project(this.plane, latlon[2 * output], latlon[2 * output + 1]);
  }

  /** Find the place nearest to a point. The result is a true location: never send it. */
  locate(latitude, longitude) {
    if (!this.plane) throw new InputError("this mechanism's places do not lie on the earth");
    const sane =
      typeof latitude === "number" && typeof longitude === "number" &&
      abs(latitude) <= 90 && abs(longitude) <= 180; // false for NaN
    if (!sane) throw new InputError("a point must be latitude and longitude in degrees");
    const at = project(this.plane, latitude, longitude);
    let place = 0;
    let best = Infinity;
    for (let i = 0; i < this.places; i++) {
      const away = hypot(this.#xy[2 * i] - at[0], this.#xy[2 * i + 1] - at[1]);
      if (away < best) {
        place = i;
        best = away;
      }
    }
    return { place, snappedKm: best, outside: best > this.reachKm * (1 + 1e-9) };
  }

  /**
   * Draw an output for a place from 63 uniform random bits: the output is the number of running
   * sums that are not above them. Every comparison is made, whatever the output is.
   */
  draw(place, bits = randomBits()) {
    if (typeof bits !== "bigint" || bits < 0n || bits >= TOTAL) {
      throw new InputError("random bits must be a whole number from 0 to 2^63 - 1");
    }
    const start = this.#index(place) * this.reports;
    let output = 0;
    for (let z = 0; z < this.reports; z++) output += toNumber(bits >= this.#sums[start + z]);
    return output;
  }

  /** Draw one report of a point. To report more than once, use a Reporter. */
  report(latitude, longitude, options = {}) {
    const found = this.locate(latitude, longitude);
    checkOutside(found, own(options, "outside", "error"), this.reachKm);
    return this.output(this.draw(found.place));
  }

  /**
   * The radius in km that holds a share of the reports, averaged over a prior: the given one, or that
   * of the file. If there is neither, the person is taken to be at places as often as these are
   * reported: a mechanism reports the places that are likely under the prior it was built for.
   */
  accuracyKm(share = 0.95, prior = this.#prior) {
    checkShare(share);
    const weights = prior ? weightsOf(prior, this.places) : this.#reported();
    const away = new F64(this.places * this.reports);
    const parts = new F64(this.places * this.reports);
    for (let x = 0; x < this.places; x++) {
      const weight = weights[x];
      for (let z = 0; z < this.reports; z++) {
        const at = x * this.reports + z;
        away[at] = this.#away(x, z);
        parts[at] = weight * (toNumber(this.#count(x, z)) / 2 ** 63);
      }
    }
    return shareRadius(away, parts, share);
  }

  /** How often each place is reported if all are equally likely; 1 for each if they are no outputs. */
  #reported() {
    const weights = new F64(this.places);
    for (let x = 0; x < this.places; x++) {
      for (let o = 0; this.#outputs.areInputs && o < this.places; o++) {
        weights[x] += toNumber(this.#count(o, x)) / 2 ** 63;
      }
      if (!this.#outputs.areInputs) weights[x] = 1;
    }
    return weights;
  }

  /** The quality loss in km: the average distance to a report, for the file's prior, or null. */
  qualityLossKm() {
    if (!this.#prior) return null;
    let loss = 0;
    for (let x = 0; x < this.places; x++) {
      for (let z = 0; z < this.reports; z++) {
        loss += this.#prior[x] * this.#away(x, z) * (toNumber(this.#count(x, z)) / 2 ** 63);
      }
    }
    return loss;
  }

  #away(x, z) {
    const at = this.outputInPlane(z);
    return hypot(at[0] - this.#xy[2 * x], at[1] - this.#xy[2 * x + 1]);
  }

  #index(place) {
    if (!isInteger(place) || place < 0 || place >= this.places) {
      throw new InputError(`a place must be from 0 to ${this.places - 1}`);
    }
    return place;
  }
}
freeze(Mechanism.prototype);
freeze(Mechanism);

/** An output by its number, from the coordinates of all `reports` outputs. */
export function outputAt({ xy, latlon }, reports, number) {
  if (!isInteger(number) || number < 0 || number >= reports) {
    throw new InputError(`an output must be from 0 to ${reports - 1}`);
  }
  return {
    output: number,
    xyKm: [xy[2 * number], xy[2 * number + 1]],
    latlon: latlon ? [latlon[2 * number], latlon[2 * number + 1]] : null,
  };
}

/** A prior given by a caller, as numbers: one of at least 0 for each place, not all of them 0. */
function weightsOf(prior, n) {
  const weights = new F64(n);
  let sum = 0;
  for (let x = 0; x < n; x++) {
    weights[x] = prior[x];
    sum += weights[x];
    if (!(weights[x] >= 0)) sum = NaN;
  }
  if (prior[n] !== undefined || !(sum > 0 && sum < Infinity)) {
    throw new InputError(`a prior must have ${n} numbers of at least 0, not all of them 0`);
  }
  return weights;
}

export function checkShare(share) {
  if (!(share > 0 && share <= 1)) throw new InputError("share must be above 0 and at most 1");
}

/** The smallest distance within which there is this share of all parts. */
export function shareRadius(away, parts, share) {
  const length = lengthOf(parts);
  const order = new I32(length);
  for (let i = 0; i < length; i++) order[i] = i;
  sortTyped(order, (one, other) => away[one] - away[other]);
  let total = 0;
  for (let i = 0; i < length; i++) total += parts[order[i]];
  let sum = 0;
  let km = 0;
  for (let i = 0; i < length; i++) {
    if (!(parts[order[i]] > 0)) continue;
    sum += parts[order[i]];
    km = away[order[i]];
    if (sum >= share * total * (1 - 1e-12)) break;
  }
  return km;
}

/** 63 uniform bits from the system's generator. */
export function randomBits() {
  return fillRandom(new U64(1))[0] >> 1n;
}

/** The radius in km that holds 95 % of the reports: see `Mechanism.accuracyKm`. */
export const accuracyKm = (mechanism, share = 0.95, prior) => mechanism.accuracyKm(share, prior);

/** Refuse a point outside the area, unless `outside` is "nearest". */
export function checkOutside(found, outside, reachKm) {
  if (outside !== "error" && outside !== "nearest") {
    throw new InputError('outside must be "error" or "nearest"');
  }
  if (outside === "error" && found.outside) {
    throw new InputError(`the point must be inside the area, within ${reachKm} km of a place`);
  }
}

/**
 * Check everything in a file except the ratios. Returns a function that continues the check of the
 * ratios for 0.1 s. It returns the mechanism when all ratios hold, and null while there is more to
 * do. The result does not depend on a promise, because a script could replace what `await` gives.
 */
export function checkedMechanism({ arrays, texts, digest, signer }) {
  const told = parseObject(texts.mechanism ?? "", "what it says of the mechanism");
  const claimed = parseObject(texts.certificate ?? "", "its certificate");
  return checkedParts({ arrays, told, claimed, digest, signer });
}

/** What epsilon is per, and which metric it is for: by the kind of metric that the build record names. */
function metricWords(build) {
  const kind = build?.metric;
  if (typeof kind !== "string" || !has(METRIC_KINDS, kind)) return GIVEN;
  return { unit: METRIC_KINDS[kind][0], words: METRIC_KINDS[kind][1] };
}

/** The same for what a file says of one mechanism, `told` and `claimed`: of several in a file of version 3. */
export function checkedParts({ arrays, told, claimed, digest, signer }) {
  const { n, m } = checkNames(arrays);
  const inputs = checkPlaces("inputs", arrays, told);
  const outputs = checkPlaces("outputs", arrays, told);
  if (typeof told.outputs_are_inputs !== "boolean") {
    throw new FormatError("a file must say whether outputs are the inputs");
  }
  const xy = arrays.inputs.values;
  const same = // the same km, degrees, centre and cell size
    sameNumbers(arrays.inputs, arrays.outputs) && samePair(inputs.plane, outputs.plane) &&
    samePair(inputs.cell, outputs.cell) && sameNumbers(arrays.inputs_latlon, arrays.outputs_latlon);
  if (told.outputs_are_inputs && !same) {
    throw new FormatError("outputs must be the inputs, as it says they are");
  }
  if ((inputs.plane === null) !== (outputs.plane === null)) {
    throw new FormatError("inputs and outputs must both lie on the earth, or neither");
  }
  const prior = arrays.prior?.values ?? null;
  if (prior) checkPrior(prior);
  checkProof(arrays, n, m);
  checkBuild(told.build);
  const epsilon = checkEpsilon(told);
  const metric = arrays.metric?.values ?? null;
  if (metric && epsilon === null) throw new FormatError("a metric comes with an epsilon only");
  if (metric) checkMetric(metric, n);
  const counts = arrays.counts.values;
  const sums = runningSums(counts, n, m);
  if (epsilon !== null && inputs.plane !== null && metric === null) checkNearCentre(xy);
  const goOn = epsilon === null ? () => true : ratioCheck(counts, n, m, epsilon, xy, metric);
  const reachKm = inputs.cell ? hypot(inputs.cell[0], inputs.cell[1]) / 2 : furthestNeighbour(xy);
  const { unit, words } = epsilon === null ? NONE : metric ? metricWords(told.build) : PER_KM;
  // Values that are computed here, and the kind of metric that the file names. Other claims are left out.
  const checked = {
    certified: epsilon !== null, epsilon, epsilon_unit: unit,
    metric: words, places: n, outputs: m,
    ratios_checked: epsilon === null ? 0 : n * (n - 1) * m, largest_snap_km: reachKm,
    prior_sha256: prior && hex(sha256(arrays.prior.bytes)), quality_loss_km: null,
  };
  const parts = {
    n, m, epsilon, unit, certificate: checked, digest, signer, xy, sums, prior, metric, reachKm,
    plane: inputs.plane && freeze(inputs.plane),
    cell: inputs.cell && freeze(inputs.cell),
    metricDigest: metric && hex(sha256(arrays.metric.bytes)),
    outputs: {
      xy: arrays.outputs.values, latlon: arrays.outputs_latlon?.values ?? null, plane: outputs.plane,
      areInputs: told.outputs_are_inputs,
    },
  };
  return () => {
    if (goOn() !== true) return null;
    const made = new Mechanism(CHECKED, parts);
    checked.quality_loss_km = made.qualityLossKm();
    const found = { ...checked };
    if (!prior) { // claims of an older file about a prior that it does not hold cannot be checked
      delete found.prior_sha256;
      delete found.quality_loss_km;
    }
    checkClaims(claimed, found);
    freeze(checked);
    return made;
  };
}

/** Whether two pairs of numbers are equal. Both may be null. */
function samePair(one, other) {
  if (one === null || other === null) return one === other;
  return one[0] === other[0] && one[1] === other[1];
}

/** Whether two arrays of a file hold the same numbers. Both may be missing. */
function sameNumbers(one, other) {
  if (!one || !other) return one === other;
  if (one.count !== other.count) return false;
  for (let i = 0; i < one.count; i++) if (one.values[i] !== other.values[i]) return false;
  return true;
}

function furthestNeighbour(xy) {
  const n = lengthOf(xy) / 2;
  let reach = 0;
  for (let i = 0; i < n && n > 1; i++) {
    let nearest = Infinity;
    for (let j = 0; j < n; j++) {
      if (i === j) continue;
      const away = hypot(xy[2 * i] - xy[2 * j], xy[2 * i + 1] - xy[2 * j + 1]);
      if (away < nearest) nearest = away;
    }
    if (nearest > reach) reach = nearest;
  }
  return reach;
}
