// The forward filter: better reports from the draws so far, at no cost of privacy. The same steps as
// src/whereish/device/filtering.py, which explains them: a filter with a movement model, weighted
// against an expert that forgets the past, by how well each has predicted the draws.
//
// All of it is a function of draws that are paid for, of the clock and of the model.
import { membersOf, numberAt } from "./by-time.js";
import { LEAST_GAIN, SHARED_WEIGHT } from "./constants.js";
import { FormatError, InputError } from "./errors.js";
import { project } from "./plane.js";
import { F64, freeze, hypot, lengthOf, put, toNumber } from "./primordials.js";
import { nearestOf } from "./private-test.js";

/**
 * The filter of a mechanism and a movement model. A belief is { time, trust, moving, mixed }: the time
 * of the last observation in seconds, the weight of the filter, its distribution, and that of both
 * experts together. Nothing of it is secret. Null before the first observation.
 */
export class ForwardFilter {
  #model;
  #xy;
  #emission;
  #levels;
  #distances;
  #outputs;

  /** @param later other mechanisms with the same outputs, of later draws */
  constructor(mechanism, model, later = []) {
    const n = model.places;
    const m = mechanism.reports;
    this.#model = model;
    this.#xy = inPlaneOf(mechanism, model);
    this.#outputs = m;
    this.#levels = [mechanism];
    for (let i = 0; i < later.length; i++) put(this.#levels, i + 1, later[i]);
    this.#emission = [];
    for (let i = 0; i < this.#levels.length; i++) {
      const members = membersOf(this.#levels[i]);
      const each = [];
      for (let k = 0; k < members.length; k++) put(each, k, emissions(members[k], this.#xy, n));
      put(this.#emission, i, each);
    }
    this.#distances = new F64(n * m);
    for (let z = 0; z < m; z++) {
      const at = mechanism.outputInPlane ? mechanism.outputInPlane(z) : mechanism.output(z).xyKm;
      for (let x = 0; x < n; x++) {
        this.#distances[x * m + z] = hypot(this.#xy[2 * x] - at[0], this.#xy[2 * x + 1] - at[1]);
      }
    }
    freeze(this);
  }

  /** The number of places of the model. */
  get places() {
    return this.#model.places;
  }

  /** The places of the model in the plane of the mechanism: F64 of pairs. */
  get xy() {
    return this.#xy;
  }

  /**
   * The probability of a draw at each place of the model: at a time in milliseconds, which chooses among
   * mechanisms by time, from the mechanism of this number, 0 or that of `later` plus 1.
   */
  emission(output, time, level = 0) {
    const found = new F64(this.places);
    const of = this.#emission[level][numberAt(this.#levels[level], time)];
    for (let x = 0; x < this.places; x++) found[x] = of[x * this.#outputs + output];
    return found;
  }

  /** The belief at a later time, before an observation. */
  predicted(belief, time) {
    const n = this.places;
    const still = this.#model.initialAt(time);
    if (belief === null) return { time, trust: 0.5, moving: still, mixed: still };
    if (lengthOf(belief.moving) !== n || lengthOf(belief.mixed) !== n) {
      throw new FormatError("the ledger holds a filter that this movement model cannot have made");
    }
    const moving = time > belief.time ? this.#model.moved(belief.moving, belief.time, time) : belief.moving;
    const mixed = new F64(n);
    for (let x = 0; x < n; x++) mixed[x] = belief.trust * moving[x] + (1 - belief.trust) * still[x];
    return { time, trust: belief.trust, moving, mixed };
  }

  /** The belief after an observation, of which `likelihood` is the probability at each place. */
  observed(belief, time, likelihood) {
    const n = this.places;
    const before = this.predicted(belief, time);
    const initial = this.#model.initialAt(time);
    const still = new F64(n);
    const moving = new F64(n);
    let seenStill = 0;
    let seenMoving = 0;
    for (let x = 0; x < n; x++) {
      seenStill += still[x] = initial[x] * likelihood[x];
      seenMoving += moving[x] = before.moving[x] * likelihood[x];
    }
    if (!(seenStill > 0) && !(seenMoving > 0)) return before; // impossible for the model
    const forgot = new F64(n);
    const filtered = new F64(n);
    for (let x = 0; x < n; x++) {
      forgot[x] = seenStill > 0 ? still[x] / seenStill : moving[x] / seenMoving;
      filtered[x] = seenMoving > 0 ? moving[x] / seenMoving : forgot[x];
    }
    const weight = before.trust * seenMoving;
    const trust = weight / (weight + (1 - before.trust) * seenStill);
    const mixed = new F64(n);
    for (let x = 0; x < n; x++) mixed[x] = trust * filtered[x] + (1 - trust) * forgot[x];
    return { time, trust: (1 - SHARED_WEIGHT) * trust + SHARED_WEIGHT / 2, moving: filtered, mixed };
  }

  /** The output with the least expected distance; `otherwise`, unless a gain is expected. */
  best(belief, otherwise) {
    const m = this.#outputs;
    const expected = new F64(m);
    for (let x = 0; x < this.places; x++) {
      for (let z = 0; z < m; z++) expected[z] += belief.mixed[x] * this.#distances[x * m + z];
    }
    let best = 0;
    for (let z = 1; z < m; z++) if (expected[z] < expected[best]) best = z;
    return expected[otherwise] - expected[best] > LEAST_GAIN * expected[otherwise] ? best : otherwise;
  }
}
freeze(ForwardFilter.prototype);
freeze(ForwardFilter);

/** The places of a model in the plane of a mechanism, F64 of pairs. */
function inPlaneOf(mechanism, model) {
  const here = mechanism.plane;
  const there = model.plane;
  const same = here === there || (here && there && here[0] === there[0] && here[1] === there[1]);
  if (same) return model.xy;
  if (!here || model.latlon === null) {
    throw new InputError(
      "the movement model and the mechanism must both lie on the earth, or neither: count the model for " +
        "the places of this mechanism",
    );
  }
  const xy = new F64(2 * model.places);
  for (let x = 0; x < model.places; x++) {
    const at = project(here, model.latlon[2 * x], model.latlon[2 * x + 1]);
    xy[2 * x] = at[0];
    xy[2 * x + 1] = at[1];
  }
  return xy;
}

/** The probabilities of the reports at n places of the plane, row by row. */
function emissions(mechanism, xy, n) {
  const m = mechanism.reports;
  const found = new F64(n * m);
  let inputs = null;
  if (!mechanism.probabilitiesKm) {
    inputs = new F64(2 * mechanism.places);
    for (let i = 0; i < mechanism.places; i++) {
      const at = mechanism.input(i);
      inputs[2 * i] = at[0];
      inputs[2 * i + 1] = at[1];
    }
  }
  for (let x = 0; x < n; x++) {
    const east = xy[2 * x];
    const north = xy[2 * x + 1];
    const row = inputs === null
      ? mechanism.probabilitiesKm(east, north)
      : mechanism.countsOf(nearestOf(inputs, east, north));
    for (let z = 0; z < m; z++) found[x * m + z] = inputs === null ? row[z] : toNumber(row[z]) / 2 ** 63;
  }
  return found;
}
