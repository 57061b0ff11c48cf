// Mechanisms by time: one for each period of the day, on the same places with the same epsilon. The clock
// chooses, in the time zone of the file and never in that of the device, so the choice tells nothing of
// the location (docs/proofs/by-time.md). The same choice as src/whereish/day_periods.py.
import { checkClaims, every, fail, isNumber } from "./checks.js";
import { isObject, parseObject } from "./container.js";
import { FormatError, GuaranteeError, InputError } from "./errors.js";
import { checkedParts, checkOutside } from "./mechanism.js";
import {
  abs, clockIn, create, floor, freeze, has, isArray, isInteger, keys, lengthOf, now, own, put, sliceText,
} from "./primordials.js";

const FACTS = ["hours", "zone", "builds", "epsilon", "epsilon_unit", "outputs_are_inputs", "inputs", "outputs"];
const SHARED = ["inputs", "outputs", "inputs_latlon", "outputs_latlon", "metric"];
const NUMBERED = ["counts", "prior", "proof_output", "proof_left", "proof_right", "proof_value"];
const WEIGHTS = "period_weights";
const FORM = {
  __proto__: null, words: ["created"], numbers: ["quality_loss_km", "largest_snap_km"],
  names: [
    "certified", "epsilon", "epsilon_unit", "metric", "places", "outputs", "hours", "zone", "ratios_checked",
    "largest_snap_km", "quality_loss_km", "created", "versions", "guarantee", "periods",
  ],
};
const MOST_ZONE = 100; // characters of a name
const LATEST_MS = 8.64e15; // of a Date
// Private to this module, so that no other code can make mechanisms by time without the checks.
const CHECKED = Symbol("checked");

/** Checked mechanisms, one for each period of the day. */
export class MechanismByTime {
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
  hours;
  zone;
  #members;
  #clock;

  constructor(token, parts) {
    if (token !== CHECKED) {
      throw new FormatError("mechanisms by time must be read from a file: use readMechanism");
    }
    const { members, hours, zone, clock, certificate, digest, signer } = parts;
    const first = members[0];
    this.places = first.places;
    this.reports = first.reports;
    this.epsilon = first.epsilon;
    this.epsilonUnit = first.epsilonUnit;
    this.certified = true;
    this.certificate = certificate;
    this.digest = digest;
    this.signer = signer;
    this.metricDigest = first.metricDigest;
    this.holdsPrior = first.holdsPrior;
    this.plane = first.plane;
    this.cellKm = first.cellKm;
    this.reachKm = first.reachKm;
    this.hours = hours;
    this.zone = zone;
    this.#members = members;
    this.#clock = clock;
    freeze(this);
  }

  /** The number of the period of a time, in milliseconds since 1970. No location is looked at. */
  periodAt(time) {
    if (typeof time !== "number" || !(abs(time) <= LATEST_MS)) {
      throw new InputError("the time must be milliseconds since 1970, as of Date.now()");
    }
    // As in Python, the hour is that of the beginning of the minute.
    const hour = floor(this.#clock(60 * floor(time / 60_000)) / 3600);
    const { length } = this.hours;
    for (let i = length - 1; i >= 0; i--) if (hour >= this.hours[i]) return i;
    return length - 1; // before the first period begins, the last one of the day before
  }

  /** The mechanism of a period by its number, from 0. */
  ofPeriod(number) {
    if (!isInteger(number) || number < 0 || number >= this.hours.length) {
      throw new InputError(`a period must be from 0 to ${this.hours.length - 1}`);
    }
    return this.#members[number];
  }

  /** The mechanism of a time, in milliseconds since 1970. */
  at(time) {
    return this.#members[this.periodAt(time)];
  }

  /** The position of a place, in km in the plane. */
  input(place) {
    return this.#members[0].input(place);
  }

  /** The distances from a place to all places, in the metric that epsilon is for. */
  distances(place) {
    return this.#members[0].distances(place);
  }

  /** The position of an output: km in the plane, and degrees if the places lie on the earth. */
  output(number) {
    return this.#members[0].output(number);
  }

  /** The position of an output in the plane of the places, in km. */
  outputInPlane(number) {
    return this.#members[0].outputInPlane(number);
  }

  /** Find the place nearest to a point. The result is a true location: never send it. */
  locate(latitude, longitude) {
    return this.#members[0].locate(latitude, longitude);
  }

  /** Draw one report of a point, at options.time or now. To report more than once, use a Reporter. */
  report(latitude, longitude, options = {}) {
    const member = this.at(own(options, "time", null) ?? now());
    const found = member.locate(latitude, longitude);
    checkOutside(found, own(options, "outside", "error"), this.reachKm);
    return this.output(member.draw(found.place));
  }

  /** The radius in km that holds a share of the reports at every time: the largest of the periods. */
  accuracyKm(share = 0.95, prior) {
    let radius = 0;
    for (let i = 0; i < this.#members.length; i++) {
      const here = this.#members[i].accuracyKm(share, prior);
      if (here > radius) radius = here;
    }
    return radius;
  }
}
freeze(MechanismByTime.prototype);
freeze(MechanismByTime);

/** The mechanism that draws at a time, in milliseconds since 1970: by the clock alone. */
export const memberAt = (mechanism, time) =>
  mechanism instanceof MechanismByTime ? mechanism.at(time) : mechanism;

/** The mechanism of each period; one that serves all day is alone. */
export function membersOf(mechanism) {
  if (!(mechanism instanceof MechanismByTime)) return [mechanism];
  const found = [];
  for (let i = 0; i < mechanism.hours.length; i++) put(found, i, mechanism.ofPeriod(i));
  return found;
}

/** The number of the mechanism of a time among `membersOf`. */
export const numberAt = (mechanism, time) =>
  mechanism instanceof MechanismByTime ? mechanism.periodAt(time) : 0;

/** Check a file of version 3; as `checkedMechanism`, for the mechanism of every period in turn. */
export function checkedByTime({ arrays, texts, digest, signer }) {
  const told = parseObject(texts.mechanism ?? "", "what it says of the mechanism");
  const claimed = parseObject(texts.certificate ?? "", "its certificate");
  if (keys(told).length !== FACTS.length || !every(FACTS, FACTS.length, (name) => has(told, name))) {
    fail("its header does not say of the mechanism what it must say");
  }
  const hours = checkedHours(told.hours);
  const { zone } = told;
  const clock = typeof zone === "string" && zone.length <= MOST_ZONE ? clockIn(zone) : null;
  if (clock === null) fail("zone must be the name of a time zone that this browser knows, like Europe/Paris");
  if (told.epsilon === null) fail("mechanisms by time must have an epsilon");
  const count = hours.length;
  checkEach("builds", told.builds, count);
  checkEach("certificate.periods", claimed.periods, count);
  checkNames(arrays, count);
  const checks = [];
  for (let i = 0; i < count; i++) {
    const about = { __proto__: null, ...told, build: told.builds[i] };
    put(checks, i, checkedParts({
      arrays: arraysOf(arrays, i), told: about, claimed: claimed.periods[i], digest, signer,
    }));
  }
  const members = [];
  return () => {
    const made = checks[members.length]();
    if (made === null) return null;
    put(members, members.length, made);
    if (members.length < count) return null;
    return joined(members, { arrays, claimed, hours, zone, clock, digest, signer });
  };
}

/** Join the mechanisms of all periods, each of which has passed its audit. */
function joined(members, { arrays, claimed, hours, zone, clock, digest, signer }) {
  const first = members[0].certificate;
  let ratios = 0;
  for (let i = 0; i < members.length; i++) {
    ratios += members[i].certificate.ratios_checked;
    if (members[i].holdsPrior !== members[0].holdsPrior) fail("there must be a prior for each period, or none");
  }
  const loss = meanLoss(members, arrays[WEIGHTS]);
  const { certified, epsilon, epsilon_unit, metric, places, outputs, largest_snap_km } = first;
  const found = {
    certified, epsilon, epsilon_unit, metric, places, outputs, ratios_checked: ratios, largest_snap_km, zone,
  };
  if (loss !== null) found.quality_loss_km = loss; // without priors it cannot be checked, and is not shown
  checkClaims(claimed, found, FORM);
  const same = isArray(claimed.hours) && claimed.hours.length === hours.length &&
    every(hours, hours.length, (hour, i) => claimed.hours[i] === hour);
  if (!same) throw new GuaranteeError("the certificate does not hold: its hours are not those of the file");
  const certificate = freeze({ ...found, hours, quality_loss_km: loss });
  return new MechanismByTime(CHECKED, { members, hours, zone, clock, certificate, digest, signer });
}

/** The mean of the losses, weighted by the share of reports in each period; null without priors. */
function meanLoss(members, weights) {
  if ((weights === undefined) === members[0].holdsPrior) fail(`priors and ${WEIGHTS} come together`);
  if (weights === undefined) return null;
  const { values, shape } = weights;
  if (shape.length !== 1 || shape[0] !== members.length) fail(`${WEIGHTS} must be one for each period`);
  let sum = 0;
  let loss = 0;
  for (let i = 0; i < lengthOf(values); i++) {
    if (!(values[i] >= 0)) fail(`${WEIGHTS} must be at least 0`);
    sum += values[i];
    loss += values[i] * members[i].certificate.quality_loss_km;
  }
  if (!(abs(sum - 1) <= 1e-6)) fail(`${WEIGHTS} must sum to 1`);
  return loss;
}

/** The hours at which a period begins: whole, from 0 to 23, increasing. */
function checkedHours(hours) {
  const fits = (hour, i) => isNumber(hour) && isInteger(hour) && hour >= 0 && hour < 24 && (i === 0 || hour > hours[i - 1]);
  if (!isArray(hours) || hours.length < 1 || !every(hours, hours.length, fits)) {
    fail("hours must be hours of the day from 0 to 23, increasing");
  }
  return freeze(hours);
}

function checkEach(name, parts, count) {
  if (!isArray(parts) || parts.length !== count || !every(parts, count, isObject)) {
    fail(`${name} must have one entry for each of ${count} periods`);
  }
}

/** Check that no array is there which mechanisms by time do not have. */
function checkNames(arrays, count) {
  const names = keys(arrays);
  const known = create(null);
  for (let i = 0; i < SHARED.length; i++) known[SHARED[i]] = true;
  for (let k = 0; k < NUMBERED.length; k++) for (let i = 0; i < count; i++) known[`${NUMBERED[k]}_${i}`] = true;
  for (let i = 0; i < names.length; i++) {
    const isWeights = names[i] === WEIGHTS && arrays[WEIGHTS].dtype === "F64";
    if (!known[names[i]] && !isWeights) fail(`the array ${sliceText(names[i], 0, 40)} is not one that a mechanism has`);
  }
}

/** The arrays of one period, named as in a file of version 1. */
function arraysOf(arrays, number) {
  const found = create(null);
  for (let i = 0; i < SHARED.length; i++) if (arrays[SHARED[i]]) found[SHARED[i]] = arrays[SHARED[i]];
  for (let k = 0; k < NUMBERED.length; k++) {
    const array = arrays[`${NUMBERED[k]}_${number}`];
    if (array) found[NUMBERED[k]] = array;
  }
  return found;
}
