// The ledger: the epsilon spent in a period. It is kept in an object like localStorage, and in
// memory. The larger value of the two counts, so emptying the storage refunds nothing while the
// page is open. The storage holds no index of a place.
import { BudgetError, FormatError, InputError } from "./errors.js";
import {
  ascii, create, fillRandom, floor, getPrototypeOf, has, hex, isArray, isDecimal, isFinite, isHex,
  isSafeInteger, keys, parse, reflectApply, sliceText, stringify, toBigInt, toNumber, U8, weakGet, weakSet,
} from "./primordials.js";
import { chargedStay, checkedRuns, spentPerStay, storedRuns, takeRuns } from "./runs.js";
import { hmac } from "./sha256.js";

const PERIODS_MS = { __proto__: null, hour: 3_600_000, day: 86_400_000, week: 604_800_000 };
const VERSION = 2;
const WITH_RUNS = 3; // a ledger gets this version with the first step of a Tracker
const PLACES_OF_DECIMALS = 30;
// Saved now: another script may replace the methods of Storage.prototype later.
const read = globalThis.Storage?.prototype.getItem;
const write = globalThis.Storage?.prototype.setItem;
// The ledgers of this page, by storage and then by name. Reporters with the same name share one.
const memories = new WeakMap();

/** The length of a period in milliseconds. */
export const periodMs = (period) => PERIODS_MS[period];
export const isPeriod = (period) => typeof period === "string" && period in PERIODS_MS;

/**
 * An epsilon in integer units of 10^-30. It is exactly the decimal number that is printed for the
 * double, so three times 1.07 is 3.21; a sum of doubles is not. A rest below one unit is dropped.
 */
export function units(number) {
  if (!isFinite(number) || !(number >= 0)) throw new InputError("an epsilon must be a positive number");
  const text = `${number}`; // like 1.07, 12 or 1.5e-7
  let digits = 0n;
  let shift = PLACES_OF_DECIMALS;
  let fraction = false;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "e") {
      shift += toNumber(sliceText(text, i + 1));
      break;
    }
    if (text[i] === ".") {
      fraction = true;
      continue;
    }
    digits = 10n * digits + toBigInt(text[i]);
    if (fraction) shift -= 1;
  }
  return shift >= 0 ? digits * 10n ** toBigInt(shift) : digits / 10n ** toBigInt(-shift);
}

const ONE = 10n ** toBigInt(PLACES_OF_DECIMALS);
/** Units as the nearest double, for display. */
export function fromUnits(amount) {
  const fraction = sliceText(`${ONE + (amount % ONE)}`, 1);
  return toNumber(`${amount / ONE}.${fraction}`);
}

export class Ledger {
  #storage;
  #name;
  #terms;
  #secret;
  #clock;

  /**
   * @param terms.period "hour", "day" or "week"; terms.unit the unit of epsilon; terms.budget
   *   units per period; terms.remember "storage" or "page": where earlier reports are kept
   * @param secret the key of place names in the storage, or null for a key that is stored there
   */
  constructor(storage, name, terms, secret, clock) {
    if (storage === null || (typeof storage !== "object" && typeof storage !== "function")) {
      throw new InputError("a ledger needs a storage with getItem and setItem, like localStorage");
    }
    this.#storage = storage;
    this.#name = name;
    this.#terms = terms;
    this.#secret = secret;
    this.#clock = clock;
  }

  /** The current state { number, spent, sticky, runs, key }. Throws if the stored value is no ledger. */
  open() {
    const { period, remember } = this.#terms;
    const time = this.#clock();
    if (!isFinite(time)) throw new InputError("the clock must return milliseconds since 1970");
    const kept = this.#stored();
    const known = this.#memory();
    this.#checkTerms(kept);
    this.#checkTerms(known);
    // A clock or a storage that goes back in time does not start a new period.
    let number = floor(time / PERIODS_MS[period]);
    if (known && known.number > number) number = known.number;
    const state = { number, spent: 0n, sticky: create(null), runs: create(null), key: null };
    if (known) {
      state.key = known.key;
      takeRuns(state.runs, known.runs, true);
      if (known.number === number) take(state, known);
    }
    if (kept) {
      if (kept.number >= number) {
        state.number = kept.number;
        if (kept.spent > state.spent) state.spent = kept.spent;
      }
      if (remember === "storage") {
        if (state.key === null) state.key = kept.key;
        takeRuns(state.runs, kept.runs, state.key === kept.key);
        if (kept.number >= number && state.key === kept.key) takeReports(state.sticky, kept.sticky);
      }
    }
    if (state.key === null) state.key = hex(fillRandom(new U8(32)));
    return state;
  }

  /** The stored name of a place: without the key it does not show which place it is. */
  nameOf(state, mechanism, place) {
    const secret = this.#secret ?? ascii(state.key);
    return sliceText(hex(hmac(secret, ascii(`${sliceText(mechanism.digest, 0, 16)}:${place}`))), 0, 32);
  }

  /**
   * Make a step of a run, if the budget covers what it may cost. Several runs share the budget.
   *
   * @param plan a function of the public state of the run, which is null before its first step. It
   *   returns { reserve, make }: the most units that the step can cost, 0n if it looks at nothing; and
   *   a function that makes the step and returns { cost, run, mechanism, place }: units, the public
   *   state after it, and the true place, for the cost of the present stay.
   * @returns { cost, spent, stay, ends }: units of the step, of the period, and the largest of a stay;
   *   and the end of the period, in milliseconds since 1970
   */
  step(name, plan) {
    const { period, budget } = this.#terms;
    const state = this.open();
    const before = state.runs[name] ?? null;
    const planned = plan(before);
    let cost = 0n;
    if (planned.reserve > 0n) {
      if (state.spent + planned.reserve > budget) {
        const rest = planned.reserve > budget
          ? "This budget allows no test: give a larger one, with another name (key)"
          : `Repeat the last report, or wait for the next ${period}`;
        throw new BudgetError(
          `the next report may cost epsilon ${fromUnits(planned.reserve)}, and less than that is left of ` +
            `the budget ${fromUnits(budget)} for this ${period}: nothing was tested, drawn or reported. ${rest}`,
        );
      }
      const made = planned.make();
      ({ cost } = made);
      if (cost > planned.reserve) throw new InputError("a step must not cost more than was reserved for it");
      state.spent += cost;
      const at = this.nameOf(state, made.mechanism, made.place);
      const { guess, shown, decided, belief, made: draws, period: last } = made.run;
      state.runs[name] = {
        __proto__: null, guess, shown, decided, belief, made: draws, period: last, steps: (before === null ? 0 : before.steps) + 1,
        stay: chargedStay(before, state.number, at, cost),
      };
      this.close(state); // before the report is returned
    }
    return {
      cost, spent: state.spent, stay: spentPerStay(state.runs, state.number, state.spent),
      ends: (state.number + 1) * PERIODS_MS[period],
    };
  }

  /**
   * The most units that one stay can have cost in this period, for sticky reports at a cost each. A place
   * is drawn once in a period. If anything else is charged to it, all of it may have been for one stay.
   */
  stickyStay(cost) {
    const { sticky, spent } = this.open();
    return spent === cost * toBigInt(keys(sticky).length) && spent > cost ? cost : spent;
  }

  /** Store the state. A report may be returned only after this. */
  close(state) {
    const { period, unit, budget, remember } = this.#terms;
    const told = create(null);
    const withRuns = remember === "storage" && keys(state.runs).length > 0;
    told.version = withRuns ? WITH_RUNS : VERSION;
    told.period = period;
    told.number = state.number;
    told.unit = unit;
    told.budget = `${budget}`;
    told.spent = `${state.spent}`;
    if (remember === "storage") {
      if (!this.#secret) told.key = state.key;
      told.sticky = state.sticky;
      if (withRuns) told.runs = storedRuns(state.runs);
    }
    const text = stringify(told);
    if (isNative(this.#storage)) reflectApply(write, this.#storage, [this.#name, text]);
    else this.#storage.setItem(this.#name, text);
    let names = weakGet(memories, this.#storage);
    if (!names) weakSet(memories, this.#storage, (names = create(null)));
    names[this.#name] = {
      period, unit, budget, number: state.number, spent: state.spent, sticky: state.sticky,
      runs: state.runs, key: state.key,
    };
  }

  #memory() {
    const names = weakGet(memories, this.#storage);
    return names ? names[this.#name] ?? null : null;
  }

  #stored() {
    const text = isNative(this.#storage)
      ? reflectApply(read, this.#storage, [this.#name])
      : this.#storage.getItem(this.#name);
    if (text === null || text === undefined) return null;
    let told = null;
    try {
      if (typeof text === "string") told = parse(text);
    } catch {
      // `checkedLedger(null)` is null, and the error is thrown below.
    }
    const found = checkedLedger(told);
    if (!found) {
      throw new FormatError(`the value stored under ${this.#name} is not a ledger: it was not changed`);
    }
    if (!found.old) return found;
    // The format of version 0.1.0: no terms, and places named by their index.
    found.unit = this.#terms.unit;
    found.budget = this.#terms.budget;
    const sticky = create(null);
    const names = keys(found.sticky);
    found.key = hex(fillRandom(new U8(32)));
    for (let i = 0; i < names.length; i++) {
      const name = sliceText(hex(hmac(this.#secret ?? ascii(found.key), ascii(names[i]))), 0, 32);
      sticky[name] = found.sticky[names[i]];
    }
    found.sticky = sticky;
    return found;
  }

  #checkTerms(found) {
    if (!found) return;
    const { period, unit, budget } = this.#terms;
    const begin = `the ledger under ${this.#name}`;
    const end = "give the same, or give another name (key) to begin a new ledger";
    if (found.period !== period) {
      throw new InputError(`${begin} counts by the ${found.period}, not by the ${period}: ${end}`);
    }
    if (found.unit !== unit) {
      throw new InputError(`${begin} counts epsilon in the unit of another metric: ${end}`);
    }
    if (found.budget !== budget) {
      throw new InputError(
        `${begin} has a budget of epsilon ${fromUnits(found.budget)}, not ${fromUnits(budget)}: ${end}`,
      );
    }
  }
}

const STORAGE = globalThis.Storage?.prototype;
const isNative = (storage) => STORAGE !== undefined && getPrototypeOf(storage) === STORAGE;

function take(state, known) {
  state.spent = known.spent;
  takeReports(state.sticky, known.sticky);
}

function takeReports(into, from) {
  const names = keys(from);
  for (let i = 0; i < names.length; i++) if (!(names[i] in into)) into[names[i]] = from[names[i]];
}

/** The stored value with every type checked, or null. */
function checkedLedger(told) {
  if (told === null || typeof told !== "object") return null;
  const at = (name) => (has(told, name) ? told[name] : undefined);
  const old = !has(told, "version");
  if (!old && at("version") !== VERSION && at("version") !== WITH_RUNS) return null;
  if (!isPeriod(at("period")) || !isSafeInteger(at("number"))) return null;
  const sticky = has(told, "sticky") || old ? at("sticky") : create(null);
  const reports = checkedReports(sticky, old ? isOldName : (name) => isHex(name, 32));
  if (!reports) return null;
  const runs = at("version") === WITH_RUNS ? checkedRuns(at("runs")) : create(null);
  if (!runs) return null;
  const found = { old, period: told.period, number: told.number, sticky: reports, runs, key: null };
  if (old) {
    const spent = at("spent");
    if (typeof spent !== "number" || !isFinite(spent) || spent < 0) return null;
    return { ...found, spent: units(spent) };
  }
  if (!isDecimal(at("spent"), 60) || !isDecimal(at("budget"), 60) || typeof at("unit") !== "string") return null;
  const key = at("key") ?? null;
  if (key !== null && !isHex(key, 64)) return null;
  return {
    ...found, key, unit: told.unit, spent: toBigInt(told.spent), budget: toBigInt(told.budget),
  };
}

/** A place name of version 0.1.0: 16 digits of the digest, a colon, and the index. */
const isOldName = (name) =>
  isHex(sliceText(name, 0, 16), 16) && name[16] === ":" && isDecimal(sliceText(name, 17), 6);

function checkedReports(sticky, isName) {
  if (sticky === null || typeof sticky !== "object" || isArray(sticky)) return null;
  const found = create(null);
  const names = keys(sticky);
  for (let i = 0; i < names.length; i++) {
    const output = sticky[names[i]];
    if (!isName(names[i]) || !isSafeInteger(output) || output < 0) return null;
    found[names[i]] = output;
  }
  return found;
}
