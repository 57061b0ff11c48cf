// Reports of a person who moves, within a privacy budget for each period.
import { InputError } from "./errors.js";
import { toPlane } from "./everywhere-checks.js";
import { fromUnits, Ledger, periodMs, units } from "./ledger.js";
import { checkOutside } from "./mechanism.js";
import { TracePolicy } from "./policies.js";
import { abs, ascii, freeze, hex, own, sliceText } from "./primordials.js";
import { isEverywhere, isMechanism, Reporter } from "./reporter.js";
import { checkedLater } from "./schedule.js";
import { sha256 } from "./sha256.js";
import { checkedTerms } from "./terms.js";

const LATEST_MS = 8.64e15; // of a Date

/**
 * Draw reports of a person over time, within a budget for each period. Except for sticky reports, the
 * budget bounds what all reports of a period reveal together: for any two sequences of locations, the
 * odds of the reports change by at most exp(spent d), d the largest distance between the two at the same
 * time. The times of the requests are not hidden. The proof is in docs/proofs/traces.md.
 *
 * The cost is stored before a report is returned, and is never refunded. A Reporter with the same
 * storage, key and budget shares the ledger.
 *
 * @param storage an object like localStorage: getItem and setItem
 * @param options.policy "predictive" (the default), "sporadic", "filtered" or "sticky"
 * @param options.rateSeconds between two draws or tests; in between the last report is repeated
 * @param options.later tapered draws, for "filtered" and "sporadic": the mechanisms of the second draw of
 *   a period, the third one and so on. The last one also makes all draws after it.
 * @param options.model a movement model, see `readMovement`; options.manager see `BudgetManager`
 */
export class Tracker {
  policy;
  #mechanism;
  #isEverywhere;
  #policy;
  #reporter;
  #ledger;
  #terms;
  #outside;
  #clock;
  #name;
  #now;

  constructor(mechanism, storage, options = {}) {
    if (!isMechanism(mechanism) || mechanism.epsilon === null) {
      throw new InputError("a Tracker needs a mechanism with an epsilon");
    }
    const policy = own(options, "policy", "predictive");
    const rate = own(options, "rateSeconds", null);
    const model = own(options, "model", null);
    const manager = own(options, "manager", null);
    const later = checkedLater(mechanism, own(options, "later", null));
    this.#isEverywhere = isEverywhere(mechanism);
    const { name, terms, secret, clock, outside } = checkedTerms(mechanism, options, this.#isEverywhere, later);
    this.policy = policy;
    this.#mechanism = mechanism;
    this.#terms = terms;
    this.#outside = outside;
    this.#clock = clock;
    this.#now = 0;
    const reading = () => this.#now; // the time of the request, also for a ledger
    this.#ledger = new Ledger(storage, name, terms, secret, reading);
    this.#policy = null;
    this.#reporter = null;
    if (policy === "sticky") {
      if (rate !== null || model !== null || manager !== null || later.length > 0) {
        throw new InputError("sticky reports take no rateSeconds, model, manager or later: leave them out");
      }
      this.#reporter = new Reporter(mechanism, storage, {
        budget: own(options, "budget", null), newPlaces: own(options, "newPlaces", null), period: terms.period,
        outside, key: name, clock: reading, remember: terms.remember, secret,
      });
    } else if (policy === "predictive" || policy === "sporadic" || policy === "filtered") {
      this.#policy = new TracePolicy(policy, mechanism, this.#isEverywhere, {
        rate, model, manager, later, periodMs: periodMs(terms.period),
      });
      const { prices, threshold } = this.#policy;
      const places = model === null ? 0 : model.places;
      // Another mechanism, policy, price, rate, threshold or model begins another run.
      let text = `${mechanism.digest} ${policy} ${prices.draw} ${prices.test} ${rate} ${threshold} ${places}`;
      for (let i = 0; i < later.length; i++) text += ` ${later[i].digest}`;
      this.#name = sliceText(hex(sha256(ascii(text))), 0, 32);
    } else {
      throw new InputError("policy must be predictive, sporadic, filtered or sticky");
    }
    this.#read(null);
    this.#ledger.open(); // refuse now if the stored ledger has other terms
    freeze(this);
  }

  /** The epsilon spent in this period in both readings, the budget, and the end of the period. */
  get state() {
    this.#read(null);
    const { spent, stay, ends } = this.#ledger.step(this.#name ?? "", () => ({ reserve: 0n }));
    return {
      spent: fromUnits(spent), budget: fromUnits(this.#terms.budget), period: this.#terms.period,
      spentPerStay: fromUnits(this.#reporter === null ? stay : this.#stickyStay()), periodEnds: ends,
    };
  }

  /**
   * Report a point at a time in milliseconds since 1970; by default that of the clock. Throws
   * BudgetError if the budget does not cover what the report may cost: nothing is tested or drawn then.
   */
  report(latitude, longitude, time = null) {
    this.#read(time);
    if (this.#reporter !== null) return this.#sticky(latitude, longitude);
    const at = this.#now;
    let output = 0;
    let fresh = false;
    let price = 0;
    const done = this.#ledger.step(this.#name, (run) => {
      const policy = this.#policy;
      if (run !== null) policy.check(run);
      if (!policy.isDue(run, at)) {
        output = policy.repeated(run, at);
        return { reserve: 0n };
      }
      const { draw, test, both } = policy.pricesAt(run, at);
      const tested = policy.isTested(run);
      const make = () => {
        const here = this.#locate(latitude, longitude);
        const taken = policy.take(run, here, at);
        ({ output, fresh } = taken);
        price = tested ? (fresh ? both : test) : draw;
        return { cost: units(price), run: taken.run, mechanism: this.#mechanism, place: here.place };
      };
      return { reserve: units(tested ? both : draw), make };
    });
    return this.#told(this.#mechanism.output(output), fresh, price, done);
  }

  #sticky(latitude, longitude) {
    const { fresh, cost, ...place } = this.#reporter.report(latitude, longitude);
    const done = this.#ledger.step("", () => ({ reserve: 0n }));
    return this.#told(place, fresh, cost, { ...done, stay: this.#stickyStay() });
  }

  #stickyStay() {
    return this.#ledger.stickyStay(units(this.#mechanism.epsilon));
  }

  #told(place, fresh, cost, { spent, stay, ends }) {
    return {
      ...place, fresh, cost, spent: fromUnits(spent), budget: fromUnits(this.#terms.budget),
      spentPerStay: fromUnits(stay), periodEnds: ends,
    };
  }

  /** The true place, or square of 100 m, and the point in km. */
  #locate(latitude, longitude) {
    if (this.#isEverywhere) {
      const km = toPlane(this.#mechanism.plane, latitude, longitude);
      return { place: this.#mechanism.locateKm(km[0], km[1]).square, east: km[0], north: km[1] };
    }
    const found = this.#mechanism.locate(latitude, longitude);
    checkOutside(found, this.#outside, this.#mechanism.reachKm);
    return { place: found.place, east: 0, north: 0 };
  }

  /** Take the time of a request. */
  #read(time) {
    const reading = time === null ? this.#clock() : time;
    if (typeof reading !== "number" || !(abs(reading) <= LATEST_MS)) {
      throw new InputError("the time must be milliseconds since 1970, as of Date.now()");
    }
    this.#now = reading;
  }
}
freeze(Tracker.prototype);
freeze(Tracker);
