// The mechanisms of the draws of a period: which one is used follows from the number of the draw, which
// is public. Tapered draws begin with a large epsilon and end with a small one. Every mechanism was
// audited at its own epsilon when its file was read. The same as src/whereish/device/draw_schedule.py.
import { InputError } from "./errors.js";
import { floor, freeze, isArray, put } from "./primordials.js";
import { isEverywhere, isMechanism } from "./reporter.js";

const MOST_LATER = 999;

/** The mechanism of each draw of a period; the last one also makes all draws after it. */
export class DrawSchedule {
  size;
  #mechanisms;
  #periodMs;

  constructor(first, later, periodMs) {
    const all = [first];
    for (let i = 0; i < later.length; i++) put(all, i + 1, later[i]);
    this.#mechanisms = all;
    this.#periodMs = periodMs;
    this.size = all.length;
    freeze(this);
  }

  mechanism(level) {
    return this.#mechanisms[level];
  }

  /** How many draws a run made before in the period of a time, and the number of that period. */
  before(run, time) {
    const reading = floor(time / this.#periodMs);
    // A clock that goes back does not begin another period, as in the ledger.
    if (run === null || run.made === 0 || reading > run.period) return { made: 0, period: reading };
    return { made: run.made, period: run.period };
  }

  /** The number of the mechanism of the next draw of a run. */
  level(run, time) {
    const { made } = this.before(run, time);
    return made < this.size ? made : this.size - 1;
  }

  /** The run counts a draw: { made, period } after it; zeros if one mechanism makes all draws. */
  after(run, time) {
    if (this.size === 1) return { made: 0, period: 0 };
    const { made, period } = this.before(run, time);
    return { made: made + 1, period };
  }
}
freeze(DrawSchedule.prototype);
freeze(DrawSchedule);

/** A copy of the mechanisms of later draws, if they are on the places of the first. */
export function checkedLater(first, given) {
  const found = [];
  if (given === null) return found;
  if (!isArray(given) || given.length > MOST_LATER) {
    throw new InputError(`later must be a list of at most ${MOST_LATER} mechanisms`);
  }
  for (let i = 0; i < given.length; i++) {
    const other = given[i];
    if (!isMechanism(other) || other.epsilon === null) {
      throw new InputError("later must be a list of mechanisms with an epsilon, as of readMechanism");
    }
    checkSamePlaces(first, other);
    put(found, i, other);
  }
  return found;
}

function checkSamePlaces(first, other) {
  const refuse = (what) => {
    throw new InputError(`the mechanisms of later draws must have the ${what} of the first, and one differs`);
  };
  if (isEverywhere(first) !== isEverywhere(other)) refuse("guarantee");
  if (first.epsilonUnit !== other.epsilonUnit || first.metricDigest !== other.metricDigest) refuse("metric");
  if (first.reports !== other.reports) refuse("outputs");
  for (let z = 0; z < first.reports; z++) {
    const one = first.output(z);
    const two = other.output(z);
    if (!samePair(one.xyKm, two.xyKm) || !samePair(one.latlon, two.latlon)) refuse("outputs");
  }
  if (isEverywhere(first)) return;
  if (first.places !== other.places || !samePair(first.plane, other.plane)) refuse("places");
  for (let x = 0; x < first.places; x++) if (!samePair(first.input(x), other.input(x))) refuse("places");
}

/** Whether two pairs of numbers are equal. Both may be null. */
function samePair(one, two) {
  if (one === null || two === null) return one === two;
  return one[0] === two[0] && one[1] === two[1];
}
