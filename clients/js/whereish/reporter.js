// Repeated reports of one person: the same place gets the same report, a new place costs epsilon.
// For a mechanism on a lattice, a place is a cell of the lattice.
import { BudgetError, FormatError, InputError } from "./errors.js";
import { EverywhereMechanism } from "./everywhere.js";
import { fromUnits, isPeriod, Ledger, units } from "./ledger.js";
import { checkOutside, Mechanism } from "./mechanism.js";
import { ascii, bytesOf, freeze, isFinite, isSafeInteger, lengthOf, now, own, toBigInt, toNumber } from "./primordials.js";

/** Whether a value is a mechanism that was read from a file. */
export const isMechanism = (value) =>
  value instanceof Mechanism || value instanceof EverywhereMechanism;

/**
 * Reports within a budget. In one period, the same place gets the same report at no cost; a new
 * place costs epsilon. The cost is stored before the report is returned, and is never refunded.
 *
 * With an EverywhereMechanism, the first report in a cell of the lattice is drawn at the point
 * itself, and later points of the period in the same cell get the same report. `outside` has no
 * effect: a point outside the rectangle is projected onto it.
 *
 * @param storage an object like localStorage: getItem and setItem
 */
export class Reporter {
  #mechanism;
  #isEverywhere;
  #ledger;
  #cost;
  #budget;
  #period;
  #outside;

  constructor(mechanism, storage, options = {}) {
    if (!isMechanism(mechanism) || mechanism.epsilon === null) {
      throw new InputError("a Reporter needs a mechanism with an epsilon");
    }
    const period = own(options, "period", "day");
    if (!isPeriod(period)) throw new InputError("period must be hour, day or week");
    const outside = own(options, "outside", "error");
    if (outside !== "error" && outside !== "nearest") {
      throw new InputError('outside must be "error" or "nearest"');
    }
    const name = own(options, "key", "whereish");
    if (typeof name !== "string") throw new InputError("key must be a string, the name of the ledger");
    const clock = own(options, "clock", now);
    if (typeof clock !== "function") throw new InputError("clock must be a function");
    const remember = own(options, "remember", "storage");
    if (remember !== "storage" && remember !== "page") {
      throw new InputError('remember must be "storage" or "page"');
    }
    this.#mechanism = mechanism;
    this.#isEverywhere = mechanism instanceof EverywhereMechanism;
    this.#cost = units(mechanism.epsilon);
    this.#budget = budgetOf(options, this.#cost);
    this.#period = period;
    this.#outside = outside;
    const metric = mechanism.metricDigest ? ` ${mechanism.metricDigest}` : "";
    const terms = { period, unit: mechanism.epsilonUnit + metric, budget: this.#budget, remember };
    this.#ledger = new Ledger(storage, name, terms, secretOf(options), clock);
    this.#ledger.open(); // refuse now if the stored ledger has other terms
    freeze(this);
  }

  /** The epsilon spent in this period, the budget, and how many new places are left. */
  get state() {
    const { spent } = this.#ledger.open();
    const left = this.#budget > spent ? toNumber((this.#budget - spent) / this.#cost) : 0;
    return {
      spent: fromUnits(spent), budget: fromUnits(this.#budget), period: this.#period,
      newPlacesLeft: left,
    };
  }

  /** Report a point. Throws BudgetError if the budget does not allow it. */
  report(latitude, longitude) {
    const place = this.#placeOf(latitude, longitude);
    const state = this.#ledger.open();
    const name = this.#ledger.nameOf(state, this.#mechanism, place);
    const known = state.sticky[name];
    if (known !== undefined) {
      if (known >= this.#mechanism.reports) {
        throw new FormatError("the ledger holds a report that this mechanism cannot have made");
      }
      return { ...this.#mechanism.output(known), fresh: false, cost: 0 };
    }
    if (state.spent + this.#cost > this.#budget) {
      throw new BudgetError(
        `a report of a new place costs epsilon ${this.#mechanism.epsilon}, and less than that is ` +
          `left of the budget ${fromUnits(this.#budget)} for this ${this.#period}: nothing was reported`,
      );
    }
    const output = this.#isEverywhere
      ? this.#mechanism.draw(latitude, longitude)
      : this.#mechanism.draw(place);
    state.spent += this.#cost;
    state.sticky[name] = output;
    this.#ledger.close(state);
    return { ...this.#mechanism.output(output), fresh: true, cost: this.#mechanism.epsilon };
  }

  /** The number of the place nearest to a point, or of its cell. */
  #placeOf(latitude, longitude) {
    const found = this.#mechanism.locate(latitude, longitude);
    if (this.#isEverywhere) return found.cell;
    checkOutside(found, this.#outside, this.#mechanism.reachKm);
    return found.place;
  }
}
freeze(Reporter.prototype);
freeze(Reporter);

/** The budget in units, from an epsilon or from a number of new places. */
function budgetOf(options, cost) {
  const budget = own(options, "budget", null);
  const places = own(options, "newPlaces", null);
  if ((budget === null) === (places === null)) {
    throw new InputError("give newPlaces (new places per period) or budget (epsilon per period): exactly one of them");
  }
  if (places !== null) {
    if (!isSafeInteger(places) || places < 1 || places > 1e9) {
      throw new InputError("newPlaces must be a whole number, at least 1");
    }
    return cost * toBigInt(places);
  }
  if (typeof budget !== "number" || !(budget > 0) || !isFinite(budget) || budget > 1e20) {
    throw new InputError("budget must be a positive epsilon per period");
  }
  return units(budget);
}

function secretOf(options) {
  const secret = own(options, "secret", null);
  if (secret === null) return null;
  const bytes = typeof secret === "string" ? ascii(secret) : bytesOf(secret);
  if (bytes === null || lengthOf(bytes) < 16) {
    throw new InputError("secret must be at least 16 random bytes, or at least 16 ASCII characters");
  }
  return bytes;
}
