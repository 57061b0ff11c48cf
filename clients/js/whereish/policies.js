// Policies for reports over time. Every decision here depends on the public run and the clock only:
// whether a report is due, the guess, whether a draw is behind a test, and which mechanism draws. The
// true location is used in two places, the private test and the draw; both are audited mechanisms. So
// the costs along a run bound what it reveals (docs/proofs/traces.md). The same steps as
// src/whereish/device/policies.py.
//
//     sporadic     draw after every `rate`, repeat the last report in between
//     filtered     the same, and send the best report that follows from the draws and a movement model
//     predictive   test whether the guess is near; repeat it if so, and draw otherwise
//
// Sticky reports are no policy of this kind: whether a report is repeated depends on the true place.
import { BudgetManager, checkedManager, pricesOf } from "./budget-manager.js";
import { memberAt } from "./by-time.js";
import { FormatError, InputError } from "./errors.js";
import { ForwardFilter } from "./filtering.js";
import { randomBits } from "./mechanism.js";
import { MovementModel } from "./movement.js";
import { abs, freeze, put } from "./primordials.js";
import { LatticeTests, PlaceTests } from "./private-test.js";
import { DrawSchedule } from "./schedule.js";

const LONGEST_RATE_S = 1e9;
const UNTESTED = { epsilonTest: 0, threshold: null };

/** Decides when to draw, when to test and what to send, for one run (runs.js); null is a new one. */
export class TracePolicy {
  name;
  prices;
  threshold;
  #mechanism;
  #isEverywhere;
  #rateMs;
  #filter;
  #tests;
  #schedule;
  #prices;

  /**
   * @param options.rate seconds between two decisions, or null to decide for every report
   * @param options.model a movement model or null; options.manager a budget manager or null
   * @param options.later the checked mechanisms of later draws; options.periodMs of the ledger
   */
  constructor(name, mechanism, isEverywhere, { rate, model, manager, later, periodMs }) {
    checkParts(name, { rate, model, manager, later });
    const isTested = name === "predictive";
    const { epsilonTest, threshold } = isTested ? managerOf(mechanism, manager) : UNTESTED;
    this.name = name;
    this.prices = pricesOf(mechanism.epsilon, epsilonTest);
    this.threshold = threshold;
    this.#mechanism = mechanism;
    this.#isEverywhere = isEverywhere;
    this.#rateMs = rate === null ? null : 1000 * rate;
    this.#filter = model === null ? null : new ForwardFilter(mechanism, model, later);
    this.#schedule = new DrawSchedule(mechanism, later, periodMs);
    this.#prices = [this.prices];
    for (let i = 0; i < later.length; i++) put(this.#prices, i + 1, pricesOf(later[i].epsilon, 0));
    if (!isTested) this.#tests = null;
    else if (isEverywhere) this.#tests = new LatticeTests(mechanism, epsilonTest, threshold);
    else this.#tests = new PlaceTests(mechanism, epsilonTest, threshold);
    freeze(this);
  }

  /** Refuse a run that this mechanism and this model cannot have made. */
  check(run) {
    const { reports } = this.#mechanism;
    const known = run.guess < reports && run.shown < reports &&
      (run.belief !== null || this.#filter === null);
    if (!known) throw new FormatError("the ledger holds a run that this mechanism cannot have made");
  }

  /**
   * Whether a test or a draw is needed now; otherwise a report is repeated. Decided by the clock alone:
   * one that goes back by more than the rate counts as one that has gone on.
   */
  isDue(run, time) {
    return run === null || this.#rateMs === null || abs(time - run.decided) >= this.#rateMs;
  }

  /** Whether the next draw is behind a test: all but the first one of a run. */
  isTested(run) {
    return run !== null && this.#tests !== null;
  }

  /** What a step costs whose draw is the next one of a run. */
  pricesAt(run, time) {
    return this.#prices[this.#schedule.level(run, time)];
  }

  /** What is sent if nothing is due: the last report, or what the filter expects. */
  repeated(run, time) {
    if (this.#filter === null || this.name !== "filtered") return run.shown;
    return this.#filter.best(this.#filter.predicted(run.belief, time / 1000), run.shown);
  }

  /** The prediction, which depends on the run only. */
  #guess(run, time) {
    if (this.#filter === null) return run.guess;
    return this.#filter.best(this.#filter.predicted(run.belief, time / 1000), run.guess);
  }

  /**
   * Test and draw at a true location: { place } or { east, north } in km. Only for a run that is due,
   * and whose budget covers both. Returns { output, fresh, run }: the report to send, whether it was
   * drawn now, and the run after it.
   */
  take(run, at, time) {
    let belief = run === null ? null : run.belief;
    if (this.isTested(run)) {
      const guess = this.#guess(run, time);
      const isFar = this.#tests.isFar(guess, at, randomBits);
      if (this.#filter !== null) {
        const seen = this.#tests.likelihood(guess, isFar, this.#filter.xy);
        belief = this.#filter.observed(belief, time / 1000, seen);
      }
      if (!isFar) {
        return { output: guess, fresh: false, run: { ...run, shown: guess, decided: time, belief } };
      }
    }
    const level = this.#schedule.level(run, time);
    const mechanism = memberAt(this.#schedule.mechanism(level), time); // by the clock, see by-time.js
    const drawn = this.#isEverywhere ? mechanism.drawKm(at.east, at.north) : mechanism.draw(at.place);
    let sent = drawn;
    if (this.#filter !== null) {
      belief = this.#filter.observed(belief, time / 1000, this.#filter.emission(drawn, time, level));
      sent = this.#filter.best(belief, drawn);
    }
    return { output: sent, fresh: true, run: { guess: drawn, shown: sent, decided: time, belief, ...this.#schedule.after(run, time) } };
  }
}
freeze(TracePolicy.prototype);
freeze(TracePolicy);

function managerOf(mechanism, manager) {
  if (manager === null) return BudgetManager.forDraw(mechanism.epsilon);
  const checked = checkedManager(manager);
  if (checked.epsilonDraw !== mechanism.epsilon) {
    throw new InputError(
      `the manager must be for draws of epsilon ${mechanism.epsilon}, that of the mechanism: make it with ` +
        "BudgetManager.forDraw(mechanism.epsilon)",
    );
  }
  return checked;
}

function checkParts(name, { rate, model, manager, later }) {
  if (later.length > 0 && name === "predictive") {
    throw new InputError(
      "later mechanisms are for filtered and sporadic reports: tests and draws of predictive ones have one epsilon each",
    );
  }
  if (rate !== null && !(typeof rate === "number" && rate > 0 && rate <= LONGEST_RATE_S)) {
    throw new InputError("rateSeconds must be a number of seconds above 0");
  }
  if (name === "sporadic" && rate === null) {
    throw new InputError("rateSeconds must be given for sporadic reports: 1800 for a draw every 30 minutes");
  }
  if (model !== null && !(model instanceof MovementModel)) {
    throw new InputError("model must be a movement model: readMovement makes one of its file");
  }
  if (name === "filtered" && model === null) {
    throw new InputError(
      "a movement model must be given for filtered reports: write one with whereish profile --model from " +
        "the traces of other people, and read it with readMovement",
    );
  }
  if (manager !== null && name !== "predictive") {
    throw new InputError(`a budget manager is for predictive reports, and the policy is ${name}`);
  }
}
