// Reports over time: the runs that Python shares, the ledger of a Tracker, and what a page may replace.
// Run by tests/test_client_tracker.py.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { GLOBALS, HOLDERS, hooked } from "./hooking.js";

// Forced words: replaced before the client is loaded, which saves this function.
let words = null;
const { getRandomValues } = crypto;
const { apply, getOwnPropertyDescriptor, ownKeys } = Reflect;
Object.defineProperty(globalThis.crypto, "getRandomValues", {
  configurable: true,
  writable: true,
  value(array) {
    if (words === null) return apply(getRandomValues, crypto, [array]);
    if (array.BYTES_PER_ELEMENT === 1) { // a key of 32 bytes: node's own function breaks under a hook
      for (let i = 0; i < 32; i++) array[i] = 7 * i;
      return array;
    }
    if (words.at >= words.all.length) throw new Error("the run must not take more words than it has");
    array[0] = words.all[words.at++] << 1n;
    return array;
  },
});
const {
  BudgetError, BudgetManager, FormatError, InputError, MechanismByTime, MovementModel, readMechanism, readMovement, Reporter, Tracker,
} = await import("../whereish.js");
const { ratioCheck } = await import("../whereish/audit.js");
const { units, fromUnits } = await import("../whereish/ledger.js");
const { pricesOf } = await import("../whereish/budget-manager.js");
const { LatticeTests, PlaceTests } = await import("../whereish/private-test.js");

const shared = JSON.parse(readFileSync(new URL("tracker-vectors.json", import.meta.url), "utf8"));
const model = readMovement(shared.model);
const mechanisms = {};
const laterOnes = {};
for (const { name, file, later } of shared.mechanisms) {
  mechanisms[name] = await readMechanism(Buffer.from(file, "base64"));
  laterOnes[name] = await Promise.all(later.map((one) => readMechanism(Buffer.from(one, "base64"))));
}
const { places, lattice } = mechanisms;
const HERE = [48.86, 2.35];
const DAY = 86_400_000;

function shelf(kept = {}) {
  return { kept, getItem: (key) => kept[key] ?? null, setItem: (key, value) => (kept[key] = value) };
}

const wordsOf = (text) => ({ all: text === "" ? [] : text.split(" ").map((word) => BigInt(`0x${word}`)), at: 0 });

function optionsOf({ mechanism, options }) {
  const { epsilon } = mechanisms[mechanism];
  return {
    ...options, model: options.model ? model : undefined,
    later: options.later ? laterOnes[mechanism] : undefined,
    manager: options.manager ? BudgetManager.cheapTests(epsilon) : undefined,
  };
}

/** Replay a run; a `page` is a function that returns the tracker to ask next. */
function replay(run, storage, page) {
  const at = `${run.mechanism}, ${run.policy}`;
  words = wordsOf(run.words);
  try {
    run.steps.forEach((step, k) => {
      const where = `${at}, step ${k}`;
      const begun = words.at;
      let made = null;
      try {
        made = page().report(...step.at, step.time_s * 1000);
      } catch (wrong) {
        assert.ok(wrong instanceof BudgetError && step.refused, `${where}: ${wrong.message}`);
      }
      assert.equal(words.at - begun, step.words, where);
      if (step.refused) return assert.equal(made, null, where);
      for (const part of ["output", "fresh", "cost"]) assert.equal(made[part], step[part], `${where}: ${part}`);
      assert.equal(made.spent, fromUnits(BigInt(step.spent)), where);
      assert.equal(made.spentPerStay, fromUnits(BigInt(step.stay)), where);
      assert.equal(new Date(made.periodEnds).toISOString().replace(".000", ""), step.ends, where);
      // The clock may have moved on since the last charge: then the stored period is an earlier one.
      const told = JSON.parse(storage.kept.whereish);
      if (made.cost > 0) assert.equal(told.spent, step.spent, where);
    });
    assert.equal(words.at, words.all.length);
  } finally {
    words = null;
  }
}

test("every run that Python shares: the same tests, draws, reports and charges", () => {
  assert.ok(shared.runs.length > 20);
  for (const run of shared.runs) {
    const storage = shelf();
    const tracker = new Tracker(mechanisms[run.mechanism], storage, optionsOf(run));
    replay(run, storage, () => tracker);
  }
});

test("a page that is loaded again for every report goes on with the same run", () => {
  for (const run of shared.runs) {
    if (run.mechanism === "noise") continue;
    const kept = {};
    replay(run, { kept }, () => new Tracker(mechanisms[run.mechanism], shelf(kept), optionsOf(run)));
  }
});

test("the counts of the private tests are Python's, up to the last digits, and audited", () => {
  const near = (one, other) => {
    const [a, b] = [BigInt(one), BigInt(other)];
    const far = (1n << 63n) - a;
    const smaller = Number(a < far ? a : far);
    return Math.abs(Number(a - b)) <= 1 + shared.tolerance * smaller;
  };
  for (const { name, test: about } of shared.mechanisms) {
    const mechanism = mechanisms[name];
    const { epsilonTest, threshold } = BudgetManager.forDraw(mechanism.epsilon);
    assert.deepEqual([epsilonTest, threshold], [about.epsilon, about.threshold]);
    if (about.near) {
      const tests = new PlaceTests(mechanism, epsilonTest, threshold);
      about.near.forEach((row, guess) => {
        const counts = tests.nearCounts(guess);
        row.forEach((count, x) => assert.ok(near(count, counts[x]), `${name} ${guess} ${x}`));
        assert.ok(audited(mechanism, counts, epsilonTest));
        assert.ok(!audited(mechanism, counts, 0.98 * epsilonTest)); // and no more private than it says
      });
    } else {
      const tests = new LatticeTests(mechanism, epsilonTest, threshold);
      for (const [x, y, count] of about.counts) assert.ok(near(count, tests.nearCount(x, y)), `${name} ${x} ${y}`);
      assert.ok(tests.innerEpsilon > 0.95 * epsilonTest && tests.innerEpsilon < epsilonTest);
    }
  }
});

/** Whether the counts of "near", with those of "far", pass the exact audit. */
function audited(mechanism, near, epsilon) {
  const n = mechanism.places;
  const counts = new BigUint64Array(2 * n);
  const xy = new Float64Array(2 * n);
  const metric = mechanism.metricDigest ? new Float64Array(n * n) : null;
  for (let x = 0; x < n; x++) {
    counts[2 * x] = near[x];
    counts[2 * x + 1] = (1n << 63n) - near[x];
    xy.set(mechanism.input(x), 2 * x);
    if (metric) metric.set(mechanism.distances(x), n * x);
  }
  const goOn = ratioCheck(counts, n, 2, epsilon, xy, metric);
  try {
    while (!goOn());
    return true;
  } catch {
    return false;
  }
}

test("prices and managers are Python's: a sum is rounded up to a double", () => {
  for (const [draw, test] of [[0.8, 0.3], [1.07, 0.1], [0.1, 0.2], [1 / 3, 1e-9], [3.88972, 1.8106]]) {
    const { both } = pricesOf(draw, test);
    assert.ok(units(both) >= units(draw) + units(test));
    assert.ok(both - (draw + test) <= 2 * Number.EPSILON * both);
  }
  const utility = BudgetManager.fixedUtility(2);
  assert.deepEqual(Object.values(utility).map((value) => +value.toFixed(3)), [1.945, 0.905, 2.222]);
  const rate = BudgetManager.fixedRate(20, 10, 0.6);
  assert.ok(Math.abs(rate.epsilonTest + 0.4 * rate.epsilonDraw - 2) < 1e-12);
  for (const wrong of [-0.1, 1.5, NaN, "1"]) assert.throws(() => BudgetManager.fixedRate(20, 10, wrong), InputError);
  for (const wrong of [0, -1, NaN, "1", null]) assert.throws(() => BudgetManager.forDraw(wrong), InputError);
});

test("both readings of what was spent, and what else was charged counts for the stay", () => {
  const storage = shelf();
  const options = { policy: "sporadic", newPlaces: 9, rateSeconds: 600 };
  const tracker = new Tracker(places, storage, options);
  const [one, other] = [0, 1].map((k) => shared.runs.find((run) => run.mechanism === "places").steps
    .map((step) => step.at).find((at, i, all) => (k === 0 ? i === 0 : away(at, all[0]))));
  const asked = [[one, 0], [one, 700], [one, 1000], [other, 1400], [other, 2100], [other, 2800]];
  const made = asked.map(([at, seconds]) => tracker.report(...at, seconds * 1000));
  assert.deepEqual(made.map(({ cost }) => cost), [0.8, 0.8, 0, 0.8, 0.8, 0.8]);
  assert.deepEqual(made.map(({ spent }) => spent), [0.8, 1.6, 1.6, 2.4, 3.2, 4]);
  assert.deepEqual(made.map(({ spentPerStay }) => spentPerStay), [0.8, 1.6, 1.6, 1.6, 1.6, 2.4]);
  const reporter = new Reporter(places, storage, { newPlaces: 9, clock: () => 2_900_000 });
  reporter.report(...one);
  const after = tracker.report(...other, 2_900_000);
  assert.deepEqual([after.cost, after.spent, after.spentPerStay], [0, 4.8, 3.2]);
  // Another tracker: the largest stays of both are added, and what the reporter has charged.
  const second = new Tracker(places, storage, { ...options, rateSeconds: 700 });
  const both = second.report(...one, 3_000_000);
  assert.deepEqual([both.spent, both.spentPerStay], [5.6, 4]);
  const again = second.report(...other, 4_000_000);
  assert.deepEqual([again.spent, again.spentPerStay], [6.4, 4]);
  const next = tracker.report(...other, DAY);
  assert.deepEqual([next.spent, next.spentPerStay, next.periodEnds], [0.8, 0.8, 2 * DAY]);
  assert.ok(!JSON.stringify(storage.kept).includes(`${one[0]}`));
});

const away = (at, from) => places.locate(...at).place !== places.locate(...from).place;

test("between two decisions nothing is looked at", () => {
  const tracker = new Tracker(places, shelf(), { policy: "sporadic", newPlaces: 6, rateSeconds: 600 });
  const first = tracker.report(...HERE, 0);
  assert.equal(tracker.report(-48, 100, 300_000).output, first.output);
  assert.equal(tracker.report(NaN, undefined, 300_000).output, first.output);
  assert.throws(() => tracker.report(-48, 100, 900_000), /inside the area/);
  assert.equal(tracker.report(...HERE, 900_000).spent, 1.6);
});

test("without its reserve a report is refused, and nothing is tested", () => {
  const storage = shelf();
  const tracker = new Tracker(places, storage, { budget: 1.5 }); // not for a draw, a test and a draw
  tracker.report(...HERE, 0);
  const before = storage.kept.whereish;
  words = { all: [], at: 0 }; // a word that is taken is an error
  try {
    assert.throws(() => tracker.report(...HERE, 60_000), BudgetError);
  } finally {
    words = null;
  }
  assert.equal(storage.kept.whereish, before);
  assert.throws(() => tracker.report(...HERE, 60_000), /nothing was tested, drawn or reported/);
  assert.ok(tracker.report(...HERE, DAY).cost > 0);
  const never = new Tracker(places, shelf(), { budget: 1.1 });
  never.report(...HERE, 0);
  assert.throws(() => never.report(...HERE, DAY), /allows no test: give a larger one/);
});

test("a page that is killed, a full storage: nothing is returned that was not charged", () => {
  const storage = shelf();
  let isFull = false;
  const guarded = { getItem: storage.getItem, setItem(key, value) { if (isFull) throw new Error("full"); storage.setItem(key, value); } };
  const tracker = new Tracker(places, guarded, { newPlaces: 6 });
  let charged = tracker.report(...HERE, 0).cost;
  isFull = true;
  assert.throws(() => tracker.report(...HERE, 1000), /full/);
  isFull = false;
  const after = new Tracker(places, shelf(storage.kept), { newPlaces: 6 }).report(...HERE, 2000);
  charged += after.cost;
  assert.ok(Math.abs(after.spent - charged) < 1e-12);
  // Killed after the write: the report is charged, and was never seen.
  const killed = { getItem: storage.getItem, setItem(key, value) { storage.setItem(key, value); throw new Error("killed"); } };
  const before = BigInt(JSON.parse(storage.kept.whereish).spent);
  assert.throws(() => new Tracker(places, killed, { newPlaces: 6 }).report(...HERE, 3000), /killed/);
  assert.ok(BigInt(JSON.parse(storage.kept.whereish).spent) > before);
});

test("random histories: jumps of the clock, pages and tabs never go over the budget or get a refund", () => {
  let seed = 7;
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  for (let history = 0; history < 30; history++) {
    const kept = {};
    const policy = ["predictive", "sporadic", "predictive"][history % 3];
    const options = { policy, budget: 1 + 4 * random(), rateSeconds: policy === "sporadic" || random() < 0.5 ? 300 : undefined };
    const open = () => new Tracker(places, shelf(kept), options);
    const tabs = [open(), open()];
    const charged = {};
    let time = 1e12;
    let refused = 0;
    for (let step = 0; step < 60; step++) {
      time += 1000 * Math.floor(900 * random());
      if (random() < 0.1) time += DAY * (random() < 0.5 ? 1 : -1);
      if (random() < 0.1) tabs[step % 2] = open(); // loaded again
      const tab = tabs[random() < 0.5 ? 0 : 1];
      try {
        const made = tab.report(...HERE, time);
        charged[made.periodEnds] = (charged[made.periodEnds] ?? 0n) + units(made.cost);
        // More, if this tab remembers an earlier period and another tab has begun a later one.
        assert.ok(made.spent >= fromUnits(charged[made.periodEnds]));
        assert.ok(made.spentPerStay <= made.spent);
      } catch (wrong) {
        assert.ok(wrong instanceof BudgetError, wrong.message);
        refused++;
      }
    }
    for (const sum of Object.values(charged)) assert.ok(sum <= units(options.budget));
    assert.ok(refused > 0 || options.budget > 2);
  }
});

test("an emptied or forged storage gives nothing back while the page lives", () => {
  const storage = shelf();
  const tracker = new Tracker(places, storage, { newPlaces: 4 });
  tracker.report(...HERE, 0);
  const told = JSON.parse(storage.kept.whereish);
  const { runs } = told;
  assert.equal(told.version, 3);
  delete storage.kept.whereish;
  assert.equal(tracker.report(...HERE, 1).spent > 0.8, true);
  const [name] = Object.keys(runs);
  const forged = [
    { guess: -1 }, { guess: 0.5 }, { shown: "0" }, { decided: null }, { steps: 0 }, { belief: 3 },
    { belief: { time: 0, trust: 2, moving: "1", mixed: "1" } }, { belief: { time: 0, trust: 1, moving: "1 x", mixed: "1" } },
    { stay: { number: 0, at: "x", cost: "0", largest: "0", covered: "0" } }, { stay: null },
  ];
  for (const change of forged) {
    const text = JSON.stringify({ ...told, runs: { [name]: { ...runs[name], ...change } } });
    assert.throws(() => new Tracker(places, shelf({ whereish: text }), { newPlaces: 4 }), FormatError);
  }
  for (const wrong of [null, [], { x: runs[name] }, 5]) {
    const text = JSON.stringify({ ...told, runs: wrong });
    assert.throws(() => new Tracker(places, shelf({ whereish: text }), { newPlaces: 4 }), FormatError);
  }
  const far = JSON.stringify({ ...told, runs: { [name]: { ...runs[name], guess: 6, shown: 6 } } });
  assert.throws(() => new Tracker(places, shelf({ whereish: far }), { newPlaces: 5, key: "whereish" }), InputError);
  assert.throws(() => new Tracker(places, shelf({ whereish: far }), { newPlaces: 4 }).report(...HERE, 5), /cannot have made/);
});

test("with remember: page, no run and no stay is stored, and the reading per stay is no smaller", () => {
  const storage = shelf();
  const options = { policy: "sporadic", newPlaces: 9, rateSeconds: 1, remember: "page" };
  const tracker = new Tracker(places, storage, options);
  tracker.report(...HERE, 0);
  tracker.report(...HERE, 5000);
  const told = JSON.parse(storage.kept.whereish);
  assert.deepEqual([told.version, "runs" in told, "sticky" in told, "key" in told], [2, false, false, false]);
  const again = new Tracker(places, shelf(storage.kept), options).report(...HERE, 9000);
  assert.deepEqual([again.spent, again.spentPerStay], [2.4, 2.4]);
});

test("misuse is refused, in words without a coordinate", () => {
  const wrong = [
    { policy: "bold" }, { policy: null }, { policy: "sporadic" }, { policy: "filtered" }, { policy: "sticky", rateSeconds: 60 },
    { rateSeconds: 0 }, { rateSeconds: "often" }, { model: {} }, { model: shared.model }, { manager: {} },
    { manager: BudgetManager.forDraw(0.9) }, { policy: "sporadic", rateSeconds: 5, manager: BudgetManager.forDraw(0.8) },
    { budget: 3 }, { newPlaces: 0 }, { newPlaces: undefined }, { period: "year" }, { outside: "shrug" },
  ];
  for (const options of wrong) {
    if (options.policy === null) continue; // as if it were not given
    assert.throws(() => new Tracker(places, shelf(), { newPlaces: 3, ...options }), InputError, JSON.stringify(options));
  }
  assert.throws(() => new Tracker({}, shelf(), { newPlaces: 3 }), InputError);
  assert.throws(() => new Tracker(lattice, shelf(), { newPlaces: 3, outside: "nearest" }), /must not be given/);
  const tracker = new Tracker(places, shelf(), { newPlaces: 3 });
  for (const time of [NaN, Infinity, 1e16, "0"]) assert.throws(() => tracker.report(...HERE, time), InputError);
  for (const at of [[12.3456789, 98.7654321], [99.123, 0], ["a", 0]]) {
    assert.throws(() => tracker.report(...at), (found) => found instanceof InputError && !/12\.3|98\.7|99\.1/.test(found.message));
  }
  assert.throws(() => (tracker.policy = "sticky"), TypeError);
  assert.throws(() => new Tracker(lattice, shelf(), { newPlaces: 3, manager: { epsilonDraw: 1.07, epsilonTest: 1, threshold: 99 } }), /at most 50/);
});

test("a movement model is read as Python wrote it, and what is none is refused", () => {
  assert.deepEqual([model.places, model.stepSeconds, model.zone], [5, 600, "Europe/Paris"]);
  const text = JSON.stringify(shared.model);
  for (const same of [text, Buffer.from(text)]) assert.deepEqual(readMovement(same).xy, model.xy);
  for (const seconds of [0, 1794787200, 1794787200.5, 1e9]) {
    const sum = model.initialAt(seconds).reduce((total, part) => total + part, 0);
    assert.ok(Math.abs(sum - 1) < 1e-12);
    const later = model.moved(model.initialAt(seconds), seconds, seconds + 10 * DAY / 1000);
    assert.ok(Math.abs(later.reduce((total, part) => total + part, 0) - 1) < 1e-9);
  }
  const changes = [
    { format: "x" }, { version: 2 }, { places: 4 }, { places: 0 }, { step_s: 0 }, { step_s: "600" }, { hours: [] },
    { hours: [7, 7] }, { hours: [24] }, { zone: "Mars/Olympus" }, { zone: 3 }, { xy_km: "AAAA" }, { plane: [99, 0] },
    { prior: shared.model.initial }, { latlon: null },
    { transitions: "!".repeat(shared.model.transitions.length) },
  ];
  for (const change of changes) assert.throws(() => readMovement({ ...shared.model, ...change }), FormatError, JSON.stringify(change));
  for (const wrong of ["", "{", "null", "[]"]) assert.throws(() => readMovement(wrong), FormatError);
  for (const wrong of [3, null, undefined]) assert.throws(() => readMovement(wrong), InputError);
  assert.throws(() => new MovementModel(), FormatError);
});

test("no function that a page replaces changes a test, a draw, a report or a charge", async () => {
  const runs = ["predictive", "filtered at a rate", "sporadic, tapered"].map((policy) =>
    shared.runs.find((run) => run.mechanism === "places" && run.policy === policy));
  runs.push({ ...shared.runs.find((run) => run.mechanism === "lattice" && run.policy === "predictive") });
  runs.push({ ...shared.runs.find((run) => run.mechanism === "by time" && run.policy === "filtered, tapered") });
  const asked = runs.map((run) => ({ run, options: optionsOf(run), all: wordsOf(run.words).all }));
  const { report } = Tracker.prototype;
  const parts = () => {
    let text = "";
    for (let k = 0; k < asked.length; k++) {
      const { run, options, all } = asked[k];
      const kept = { __proto__: null };
      const storage = { getItem: (key) => kept[key] ?? null, setItem: (key, value) => { kept[key] = value; } };
      words = { all, at: 0 };
      const tracker = new Tracker(mechanisms[run.mechanism], storage, options);
      for (let i = 0; i < 4; i++) {
        try {
          const { at, time_s: seconds } = run.steps[i];
          const made = apply(report, tracker, [at[0], at[1], seconds * 1000]);
          text += `${made.output} ${made.fresh} ${made.cost} ${made.spent} ${made.spentPerStay}, `;
        } catch (wrong) {
          text += wrong instanceof BudgetError ? "refused, " : "wrong, ";
        }
      }
      words = null;
    }
    return text;
  };
  const expected = parts();
  assert.ok(!expected.includes("wrong"));
  const found = [];
  let hooks = 0;
  for (const [title, holder] of Object.entries(HOLDERS)) {
    const names = holder === globalThis ? GLOBALS : ownKeys(holder);
    for (const name of names) {
      const { value, get } = getOwnPropertyDescriptor(holder, name) ?? {};
      if (typeof value !== "function" && !get && holder !== globalThis) continue;
      const stand = function () {};
      let said;
      try {
        said = await hooked(holder, name, get ? { get: stand } : { value: stand }, async () => parts());
      } catch (wrong) {
        said = `${wrong}`;
      }
      words = null;
      if (said === null) continue;
      hooks++;
      if (said !== expected) found.push(`${title}.${String(name)}`);
    }
  }
  assert.ok(hooks > 400, `${hooks} hooks`);
  assert.deepEqual(found, []);
});

test("tapered draws: every draw of a period has its own price, and the budget is that of five draws", () => {
  const storage = shelf();
  const options = { policy: "sporadic", newPlaces: 5, rateSeconds: 600, later: laterOnes.places };
  const open = () => new Tracker(places, shelf(storage.kept), options);
  for (const day of [0, 1, 5]) {
    const made = [0, 1, 2, 3, 4].map((k) => open().report(...HERE, DAY * day + 700_000 * k));
    assert.deepEqual(made.map(({ cost }) => cost), [0.8, 0.45, 0.2, 0.2, 0.2]);
    assert.deepEqual([made[4].spent, made[4].budget], [1.85, 1.85]);
    assert.equal(open().report(...HERE, DAY * day + 2_900_000).fresh, false);
    assert.throws(() => open().report(...HERE, DAY * day + 3_500_000), BudgetError);
  }
  assert.throws(() => open().report(...HERE, 4 * DAY), BudgetError); // back by a day: still the last period
  const [name] = Object.keys(JSON.parse(storage.kept.whereish).runs);
  for (const change of [{ made: -1 }, { made: 0.5 }, { made: "1" }, { period: null, made: [] }]) {
    const told = JSON.parse(storage.kept.whereish);
    Object.assign(told.runs[name], change);
    assert.throws(() => new Tracker(places, shelf({ whereish: JSON.stringify(told) }), options), FormatError);
  }
});

test("later mechanisms must be on the same places, with their metric, and are not for tests", () => {
  const options = { policy: "sporadic", budget: 5, rateSeconds: 600 };
  const wrong = [places, "places", [null], [{}], [laterOnes.metric[0]], [laterOnes.noise[0]], [lattice], Array(1000).fill(places)];
  for (const later of wrong) assert.throws(() => new Tracker(places, shelf(), { ...options, later }), InputError);
  assert.throws(() => new Tracker(mechanisms.noise, shelf(), { ...options, later: [lattice] }), InputError);
  for (const policy of ["predictive", "sticky"]) {
    assert.throws(() => new Tracker(places, shelf(), { policy, budget: 5, later: laterOnes.places }), /later/);
  }
});

test("the clock chooses as in Python: changes to summer time and back, half hours, 1975", async () => {
  assert.ok(shared.clocks.length > 5);
  for (const { file, zone, times_s: times, numbers } of shared.clocks) {
    const made = await readMechanism(Buffer.from(file, "base64"));
    assert.ok(made instanceof MechanismByTime && made.zone === zone && made.hours.length > 0);
    assert.deepEqual(times.map((time) => made.periodAt(1000 * time)), numbers, zone);
    assert.equal(made.at(1000 * times[0]), made.ofPeriod(numbers[0]));
    for (const wrong of [NaN, Infinity, 1e16, "0", undefined]) assert.throws(() => made.at(wrong), InputError);
    for (const wrong of [-1, made.hours.length, 0.5, "0"]) assert.throws(() => made.ofPeriod(wrong), InputError);
  }
  assert.throws(() => new MechanismByTime(), FormatError);
});

test("a Reporter draws from the mechanism of its clock, and a place keeps its report", () => {
  const made = mechanisms["by time"];
  const { steps } = shared.runs.find((run) => run.mechanism === "by time");
  const day = Date.UTC(2026, 10, 17);
  for (const hour of [3, 12]) { // night and day in Paris
    const clock = () => day + 3_600_000 * hour;
    for (let k = 0; k < 20; k++) {
      const bits = BigInt(k) * ((1n << 63n) / 20n);
      words = { all: [bits], at: 0 };
      try {
        const report = new Reporter(made, shelf(), { newPlaces: 2, clock }).report(...steps[0].at);
        assert.equal(report.output, made.at(clock()).draw(made.locate(...steps[0].at).place, bits));
      } finally {
        words = null;
      }
    }
  }
  const storage = shelf();
  const at = (hour) => new Reporter(made, storage, { newPlaces: 2, clock: () => day + 3_600_000 * hour }).report(...steps[0].at);
  const early = at(3);
  const later = at(12);
  assert.deepEqual([later.output, later.fresh, later.cost], [early.output, false, 0]);
  assert.ok(made.accuracyKm() >= made.ofPeriod(0).accuracyKm() && made.accuracyKm() >= made.ofPeriod(1).accuracyKm());
  assert.ok(made.report(...steps[0].at, { time: day }).output < made.reports);
});
