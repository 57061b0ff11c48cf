// The parts of the client that no other language has: the ledger in a browser's storage, and the
// wrapped geolocation. Run by tests/test_client.py with a file of a real mechanism.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  BudgetError, FormatError, InputError, Mechanism, Reporter, randomBits, readMechanism,
  wrapGeolocation,
} from "../whereish.js";

const mechanism = await readMechanism(readFileSync(process.env.WHEREISH_FILE));
const [lat, lon] = JSON.parse(process.env.WHEREISH_POINT);
const [farLat, farLon] = JSON.parse(process.env.WHEREISH_OTHER);

function shelf(kept = {}) {
  return { kept, getItem: (key) => kept[key] ?? null, setItem: (key, value) => (kept[key] = value) };
}

function fakeNavigator(...positions) {
  const asked = [];
  class Geolocation {
    getCurrentPosition(succeed, fail, options) {
      asked.push(options);
      succeed(positions[0]);
    }
    watchPosition(succeed, fail, options) {
      asked.push(options);
      positions.forEach((position) => succeed(position));
      return 7;
    }
  }
  return { geolocation: new Geolocation(), asked };
}

const here = {
  coords: { latitude: lat, longitude: lon, accuracy: 5, altitude: 35, speed: 1.5, heading: 90 },
  timestamp: 1,
};

test("random bits are 63 and differ", () => {
  const drawn = Array.from({ length: 1000 }, randomBits);
  assert.ok(drawn.every((bits) => bits >= 0n && bits < 1n << 63n));
  assert.equal(new Set(drawn).size, 1000);
  assert.ok(drawn.some((bits) => bits >> 62n === 1n) && drawn.some((bits) => bits >> 62n === 0n));
});

test("what is no place, point or bits is refused", () => {
  for (const place of [-1, mechanism.places, 0.5, "0", null]) {
    assert.throws(() => mechanism.draw(place), InputError);
  }
  for (const bits of [-1n, 1n << 63n, 5, null]) assert.throws(() => mechanism.draw(0, bits), InputError);
  for (const point of [[91, 0], [0, 181], [NaN, 0], [undefined, 0]]) {
    assert.throws(() => mechanism.locate(...point), InputError);
  }
  assert.throws(() => mechanism.report(-lat, lon), /inside the area/);
  assert.throws(() => mechanism.report(lat, lon, { outside: "shrug" }), InputError);
  assert.equal(typeof mechanism.report(-lat, lon, { outside: "nearest" }).output, "number");
  assert.throws(() => (mechanism.epsilon = 9), TypeError);
});

test("the same place gets the same report all period, a new one costs", () => {
  let now = 0;
  const storage = shelf();
  const options = { budget: 1.5 * mechanism.epsilon, clock: () => now };
  const reporter = new Reporter(mechanism, storage, options);
  const first = reporter.report(lat, lon);
  assert.equal(first.fresh, true);
  for (let i = 0; i < 50; i++) {
    const again = new Reporter(mechanism, storage, options).report(lat, lon);
    assert.equal(again.output, first.output);
    assert.equal(again.fresh, false);
  }
  assert.equal(reporter.state.spent, mechanism.epsilon);
  assert.throws(() => reporter.report(farLat, farLon), BudgetError);
  assert.equal(reporter.state.spent, mechanism.epsilon);
  now = 86_400_000;
  assert.equal(reporter.report(farLat, farLon).fresh, true);
  now = 0; // a clock that is put back begins nothing anew
  assert.equal(reporter.state.spent, mechanism.epsilon);
});

test("what was spent is written before a report is handed over", () => {
  const storage = { getItem: () => null, setItem: () => { throw new Error("full"); } };
  const reporter = new Reporter(mechanism, storage, { budget: 9 });
  assert.throws(() => reporter.report(lat, lon), /full/);
});

test("a ledger that is none is left alone", () => {
  for (const text of ["", "{", "3", '{"period":"day"}', '{"period":"day","number":1,"spent":-1,"sticky":{}}']) {
    const storage = shelf({ whereish: text });
    const reporter = new Reporter(mechanism, storage, { budget: 9 });
    assert.throws(() => reporter.report(lat, lon), FormatError);
    assert.equal(storage.kept.whereish, text);
  }
  const weekly = shelf();
  new Reporter(mechanism, weekly, { budget: 9, period: "week" }).report(lat, lon);
  assert.throws(() => new Reporter(mechanism, weekly, { budget: 9 }).report(lat, lon), /by the week/);
  for (const budget of [0, -1, NaN, Infinity, undefined]) {
    assert.throws(() => new Reporter(mechanism, shelf(), { budget }), InputError);
  }
  assert.throws(() => new Reporter({}, shelf(), { budget: 1 }), InputError);
});

test("a page gets reports, and nothing that tells more", () => {
  const navigator = fakeNavigator(here, here, here);
  const undo = wrapGeolocation(navigator, mechanism, { storage: shelf(), budget: 9 });
  const seen = [];
  navigator.geolocation.getCurrentPosition((position) => seen.push(position), assert.fail, {
    enableHighAccuracy: true,
  });
  assert.equal(navigator.geolocation.watchPosition((position) => seen.push(position)), 7);
  assert.equal(seen.length, 4);
  for (const { coords } of seen) {
    assert.notDeepEqual([coords.latitude, coords.longitude], [lat, lon]);
    for (const name of ["altitude", "altitudeAccuracy", "heading", "speed"]) {
      assert.equal(coords[name], null);
    }
    assert.ok(coords.accuracy > 100);
  }
  assert.equal(new Set(seen.map(({ coords }) => `${coords.latitude},${coords.longitude}`)).size, 1);
  assert.ok(navigator.asked.every((options) => options.enableHighAccuracy === undefined));
  undo();
  navigator.geolocation.getCurrentPosition((position) => assert.equal(position, here));
});

test("levels are per origin, and a spent budget says no more than that", () => {
  const options = { storage: shelf(), budget: 1e-3, levels: { "https://map": "real", "https://ad": "never" } };
  const real = fakeNavigator(here);
  wrapGeolocation(real, mechanism, { ...options, origin: "https://map" });
  real.geolocation.getCurrentPosition((position) => assert.equal(position, here));
  const never = fakeNavigator(here);
  wrapGeolocation(never, mechanism, { ...options, origin: "https://ad" });
  const codes = [];
  never.geolocation.getCurrentPosition(assert.fail, (wrong) => codes.push(wrong.code));
  never.geolocation.watchPosition(assert.fail, (wrong) => codes.push(wrong.code));
  assert.deepEqual(codes, [1, 1]);
  const poor = fakeNavigator(here);
  wrapGeolocation(poor, mechanism, { ...options, origin: "https://other" });
  poor.geolocation.getCurrentPosition(assert.fail, (wrong) => {
    assert.deepEqual([wrong.code, wrong.message], [2, "the privacy budget is spent"]);
  });
});

test("a mechanism is only what was read from a file", () => {
  assert.throws(() => new Mechanism({}, {}, {}, {}, ""), FormatError);
});
