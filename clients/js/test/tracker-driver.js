// Answers the questions of tests/test_client_tracker.py. For every trace it runs through all runs of a
// Tracker, by forced random words, with their exact probabilities.
//
// The edges of all counts divide the words of 63 bits into intervals. Every word of an interval gives
// the same result of every comparison with a count. So one word of each interval is
// tried, at every call of the random generator, with the length of the interval as its weight.
import { readFileSync } from "node:fs";

const asked = JSON.parse(readFileSync(0, "utf8"));
const TOTAL = 1n << 63n;

/** Words that were prescribed; beyond them those of the first interval. */
let script = [];
let taken = [];
let intervals = [];
const { getRandomValues } = crypto;
let isForced = false;
crypto.getRandomValues = (array) => {
  if (!isForced) return Reflect.apply(getRandomValues, crypto, [array]);
  if (!(array instanceof BigUint64Array)) return array.fill(5); // a key: the same in all runs
  const k = script[taken.length] ?? 0;
  taken.push(k);
  // Either end of the interval, by turns: both must give the same.
  const { low, high } = intervals[k];
  array[0] = (taken.length % 2 ? low : high - 1n) << 1n;
  return array;
};

const { BudgetError, BudgetManager, readMechanism, readMovement, Tracker } = await import(`${asked.client}/whereish.js`);
const { PlaceTests, LatticeTests } = await import(`${asked.client}/whereish/private-test.js`);
const mechanism = await readMechanism(readFileSync(asked.file), { warn: false });
const later = [];
for (const file of asked.later ?? []) later.push(await readMechanism(readFileSync(file), { warn: false }));
const options = () => ({ ...asked.options, model, later: later.length > 0 ? later : undefined });
const model = asked.model ? readMovement(readFileSync(asked.model)) : undefined;
const { epsilonTest, threshold } = BudgetManager.forDraw(mechanism.epsilon);

function intervalsOf() {
  const edges = new Set([0n, TOTAL]);
  const tests = new PlaceTests(mechanism, epsilonTest, threshold);
  for (const one of [mechanism, ...later]) {
    for (let x = 0; x < one.places; x++) {
      let sum = 0n;
      for (const count of one.countsOf(x)) edges.add((sum += count));
    }
  }
  const isTested = (asked.options.policy ?? "predictive") === "predictive";
  for (let z = 0; z < mechanism.reports && isTested; z++) for (const count of tests.nearCounts(z)) edges.add(count);
  const sorted = [...edges].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  return sorted.slice(1).map((high, k) => ({ low: sorted[k], high }));
}

/** One report in a page that was just loaded. Returns what was seen, the charge, and the ledger after it. */
function step(kept, at, time) {
  const content = { whereish: kept ?? undefined };
  const storage = { getItem: (key) => content[key] ?? null, setItem: (key, value) => (content[key] = value) };
  taken = [];
  isForced = true;
  try {
    const made = new Tracker(mechanism, storage, options()).report(...at, time);
    const told = JSON.parse(content.whereish);
    const before = kept ? JSON.parse(kept) : null;
    const same = before !== null && before.number === told.number;
    const charge = BigInt(told.spent) - (same ? BigInt(before.spent) : 0n);
    const drawn = Object.values(told.runs ?? {}).map(({ guess, shown }) => [guess, shown]);
    const seen = JSON.stringify([made.output, made.fresh, drawn]);
    // Without a charge nothing is written, and an earlier period may still be stored.
    return { seen, cost: made.cost, charge: `${content.whereish === kept ? 0n : charge}`, kept: content.whereish };
  } catch (wrong) {
    if (!(wrong instanceof BudgetError)) throw wrong;
    if (taken.length > 0) throw new Error("a refused report was tested or drawn");
    return { seen: "refused", cost: 0, charge: "0", kept };
  } finally {
    isForced = false;
  }
}

/** All runs of a trace: what was seen, the charges, and the probability, a numerator out of 2^exponent. */
function runsOf(trace) {
  let states = new Map([["", { seen: [], costs: [], charges: [], kept: null, numerator: 1n, words: 0 }]]);
  trace.forEach((place, k) => {
    const next = new Map();
    for (const state of states.values()) {
      script = [];
      while (script !== null) {
        const made = step(state.kept, asked.points[place], 1000 * asked.times[k]);
        let numerator = state.numerator;
        for (const k of taken) numerator *= intervals[k].high - intervals[k].low;
        const words = state.words + taken.length;
        const run = {
          seen: [...state.seen, made.seen], costs: [...state.costs, made.cost],
          charges: [...state.charges, made.charge], kept: made.kept, numerator, words,
        };
        const name = JSON.stringify([run.seen, run.charges, made.kept]);
        const known = next.get(name);
        if (known) add(known, run);
        else next.set(name, run);
        script = following();
      }
    }
    states = next;
  });
  return [...states.values()].map(({ seen, costs, charges, numerator, words }) =>
    ({ seen, costs, charges, numerator: `${numerator}`, exponent: 63 * words }));
}

function add(known, run) {
  const words = Math.max(known.words, run.words);
  known.numerator = (known.numerator << BigInt(63 * (words - known.words))) +
    (run.numerator << BigInt(63 * (words - run.words)));
  known.words = words;
}

/** The next script, in the order of an odometer; null after the last. */
function following() {
  for (let at = taken.length - 1; at >= 0; at--) {
    if (taken[at] + 1 < intervals.length) return [...taken.slice(0, at), taken[at] + 1];
  }
  return null;
}

const answer = {};
if (asked.traces) {
  intervals = intervalsOf();
  answer.runs = asked.traces.map(runsOf);
}
if (asked.counts && mechanism.input) {
  const tests = new PlaceTests(mechanism, epsilonTest, threshold);
  answer.epsilon = epsilonTest;
  answer.near = Array.from({ length: mechanism.reports }, (_, z) => Array.from(tests.nearCounts(z), String));
} else if (asked.counts) { // the quarter of the lattice around the guess, up to so many steps
  const tests = new LatticeTests(mechanism, epsilonTest, threshold);
  const side = Array.from({ length: asked.counts }, (_, i) => i);
  answer.epsilon = epsilonTest;
  answer.near = side.map((y) => side.map((x) => `${tests.nearCount(x, y)}`));
}
if (asked.free) { // a run with the system's randomness: what the ledger has after every report
  const content = {};
  const storage = { getItem: (key) => content[key] ?? null, setItem: (key, value) => (content[key] = value) };
  const tracker = new Tracker(mechanism, storage, options());
  answer.reports = asked.free.map(([place, seconds]) => {
    try {
      const made = tracker.report(...asked.points[place], 1000 * seconds);
      return { ...made, charged: JSON.parse(content.whereish).spent, budgetUnits: JSON.parse(content.whereish).budget };
    } catch (wrong) {
      if (!(wrong instanceof BudgetError)) throw wrong;
      return null;
    }
  });
}
process.stdout.write(JSON.stringify(answer));
