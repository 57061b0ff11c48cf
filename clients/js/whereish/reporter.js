// Repeated reports of one person: the same place gets the same report, a new place costs epsilon.
// For a mechanism with a guarantee for every point, a place is a square of 100 m.
import { memberAt, MechanismByTime } from "./by-time.js";
import { BudgetError, FormatError, InputError } from "./errors.js";
import { EverywhereMechanism } from "./everywhere.js";
import { fromUnits, Ledger } from "./ledger.js";
import { checkOutside, Mechanism } from "./mechanism.js";
import { PlanarLaplaceEverywhere } from "./planar-laplace.js";
import { freeze, toNumber } from "./primordials.js";
import { checkedTerms } from "./terms.js";

/** Whether a mechanism has a guarantee for every point. */
export const isEverywhere = (value) =>
  value instanceof EverywhereMechanism || value instanceof PlanarLaplaceEverywhere;
/** Whether a value is a mechanism that was read from a file. */
export const isMechanism = (value) =>
  value instanceof Mechanism || value instanceof MechanismByTime || isEverywhere(value);

/**
 * Reports within a budget. In one period, the same place gets the same report at no cost; a new
 * place costs epsilon. The cost is stored before the report is returned, and is never refunded.
 *
 * With a mechanism for every point, a place is a square of 100 m: the first report in it is drawn at the
 * point itself, and later points of the period in the same square get the same report. The option
 * `outside` is refused: a point outside the rectangle is projected onto it.
 *
 * Of mechanisms by time, the clock chooses the one that draws. A place that has a report keeps it until
 * the budget's period ends, even if the next period of the day begins before.
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
  #clock;

  constructor(mechanism, storage, options = {}) {
    if (!isMechanism(mechanism) || mechanism.epsilon === null) {
      throw new InputError("a Reporter needs a mechanism with an epsilon");
    }
    this.#mechanism = mechanism;
    this.#isEverywhere = isEverywhere(mechanism);
    const { name, terms, secret, clock, cost, outside } = checkedTerms(mechanism, options, this.#isEverywhere);
    this.#cost = cost;
    this.#budget = terms.budget;
    this.#period = terms.period;
    this.#outside = outside;
    this.#clock = clock;
    this.#ledger = new Ledger(storage, name, terms, secret, clock);
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
      : memberAt(this.#mechanism, this.#clock()).draw(place);
    state.spent += this.#cost;
    state.sticky[name] = output;
    this.#ledger.close(state);
    return { ...this.#mechanism.output(output), fresh: true, cost: this.#mechanism.epsilon };
  }

  /** The number of the place nearest to a point, or of its square of 100 m. */
  #placeOf(latitude, longitude) {
    const found = this.#mechanism.locate(latitude, longitude);
    if (this.#isEverywhere) return found.square;
    checkOutside(found, this.#outside, this.#mechanism.reachKm);
    return found.place;
  }
}
freeze(Reporter.prototype);
freeze(Reporter);
