// Runs of reports over time, as the ledger keeps them. A run is public: it follows from the reports,
// { guess, shown, decided, belief }: the last drawn and the last sent report, the time of the last test
// or draw in milliseconds since 1970, and what the filter made of it (or null); and the number of
// `steps`; for tapered draws, how many were `made` in the `period` of the last one. Beside it is the present `stay`: a name of the true place, as for sticky reports, the cost of
// its reports, the largest cost of a stay, and all costs that these two cover, in one period.
import {
  create, F64, has, isArray, isDecimal, isFinite, isHex, isSafeInteger, keys, lengthOf, sliceText, toBigInt,
  toNumber,
} from "./primordials.js";

const NAME = 32; // hexadecimal digits, of runs and of places

/** The stay of a run after a report at a place; a stay of an earlier period does not count. */
export function chargedStay(before, number, at, cost) {
  const stay = before !== null && before.stay !== null && before.stay.number === number ? before.stay : null;
  const total = cost + (stay !== null && stay.at === at ? stay.cost : 0n);
  const largest = stay !== null && stay.largest > total ? stay.largest : total;
  return { __proto__: null, number, at, cost: total, largest, covered: cost + (stay === null ? 0n : stay.covered) };
}

/**
 * The most that the reports of one stay can have cost in a period. At most one stay of each run is the
 * same one, so their largest costs are added up. What was charged beside the runs, as by a Reporter or in
 * a page that kept nothing, may all have been for this stay: it is added, too.
 */
export function spentPerStay(runs, number, spent) {
  let largest = 0n;
  let covered = 0n;
  const names = keys(runs);
  for (let i = 0; i < names.length; i++) {
    const { stay } = runs[names[i]];
    if (stay === null || stay.number !== number) continue;
    largest += stay.largest;
    covered += stay.covered;
  }
  const most = largest + (spent > covered ? spent - covered : 0n);
  return most < spent ? most : spent;
}

/** Take runs over that are new, or that have more steps; their stays only if names mean the same. */
export function takeRuns(into, from, sameKey) {
  const names = keys(from);
  for (let i = 0; i < names.length; i++) {
    const run = from[names[i]];
    const here = into[names[i]];
    if (here !== undefined && here.steps >= run.steps) continue;
    into[names[i]] = sameKey ? run : { __proto__: null, ...run, stay: null };
  }
}

/** Runs as they are stored: numbers and texts only, in objects without a prototype. */
export function storedRuns(runs) {
  const found = create(null);
  const names = keys(runs);
  for (let i = 0; i < names.length; i++) {
    const { guess, shown, decided, steps, belief, stay, made, period } = runs[names[i]];
    const run = create(null);
    run.guess = guess;
    run.shown = shown;
    run.decided = decided;
    run.steps = steps;
    if (made > 0) {
      run.made = made;
      run.period = period;
    }
    if (belief !== null) {
      run.belief = create(null);
      run.belief.time = belief.time;
      run.belief.trust = belief.trust;
      run.belief.moving = textOf(belief.moving);
      run.belief.mixed = textOf(belief.mixed);
    }
    if (stay !== null) {
      run.stay = create(null);
      run.stay.number = stay.number;
      run.stay.at = stay.at;
      run.stay.cost = `${stay.cost}`;
      run.stay.largest = `${stay.largest}`;
      run.stay.covered = `${stay.covered}`;
    }
    found[names[i]] = run;
  }
  return found;
}

/** The stored runs with every type checked, or null. */
export function checkedRuns(told) {
  if (told === null || typeof told !== "object" || isArray(told)) return null;
  const found = create(null);
  const names = keys(told);
  for (let i = 0; i < names.length; i++) {
    const run = isHex(names[i], NAME) ? checkedRun(told[names[i]]) : null;
    if (run === null) return null;
    found[names[i]] = run;
  }
  return found;
}

function checkedRun(told) {
  if (told === null || typeof told !== "object") return null;
  const at = (name) => (has(told, name) ? told[name] : undefined);
  const guess = at("guess");
  const shown = at("shown");
  const decided = at("decided");
  const steps = at("steps");
  const whole = isSafeInteger(guess) && guess >= 0 && isSafeInteger(shown) && shown >= 0 &&
    isSafeInteger(steps) && steps >= 1 && isFinite(decided);
  if (!whole) return null;
  const made = at("made") ?? 0;
  const period = at("period") ?? 0;
  if (!isSafeInteger(made) || made < 0 || !isSafeInteger(period)) return null;
  const belief = at("belief") === undefined ? null : checkedBelief(told.belief);
  const stay = at("stay") === undefined ? null : checkedStay(told.stay);
  if (belief === undefined || stay === undefined) return null;
  return { __proto__: null, guess, shown, decided, steps, belief, stay, made, period };
}

/** A belief, or undefined if it is none. */
function checkedBelief(told) {
  if (told === null || typeof told !== "object") return undefined;
  const at = (name) => (has(told, name) ? told[name] : undefined);
  const time = at("time");
  const trust = at("trust");
  const moving = numbersOf(at("moving"));
  const mixed = numbersOf(at("mixed"));
  if (!isFinite(time) || !(trust >= 0 && trust <= 1) || moving === null || mixed === null) return undefined;
  return { __proto__: null, time, trust, moving, mixed };
}

/** A stay, or undefined if it is none. */
function checkedStay(told) {
  if (told === null || typeof told !== "object") return undefined;
  const at = (name) => (has(told, name) ? told[name] : undefined);
  const number = at("number");
  const amounts = isDecimal(at("cost"), 60) && isDecimal(at("largest"), 60) && isDecimal(at("covered"), 60);
  if (!isSafeInteger(number) || !isHex(at("at"), NAME) || !amounts) return undefined;
  return {
    __proto__: null, number, at: told.at, cost: toBigInt(told.cost), largest: toBigInt(told.largest),
    covered: toBigInt(told.covered),
  };
}

/** Doubles as a text with spaces, from which `numbersOf` makes the same doubles. */
function textOf(numbers) {
  let text = "";
  for (let i = 0; i < lengthOf(numbers); i++) text += i > 0 ? ` ${numbers[i]}` : `${numbers[i]}`;
  return text;
}

/** Shares from 0 to 1, up to rounding, or null. */
function numbersOf(text) {
  if (typeof text !== "string" || text.length === 0) return null;
  let count = 1;
  for (let i = 0; i < text.length; i++) if (text[i] === " ") count++;
  const found = new F64(count);
  let start = 0;
  let k = 0;
  for (let i = 0; i <= text.length; i++) {
    if (i < text.length && text[i] !== " ") continue;
    found[k] = start < i ? toNumber(sliceText(text, start, i)) : NaN;
    if (!(found[k] >= 0 && found[k] <= 1.001)) return null;
    start = i + 1;
    k++;
  }
  return found;
}
