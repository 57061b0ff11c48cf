// The parts of the client that no other language has: the ledger in a browser's storage, and the
// wrapped geolocation. Run by tests/test_client.py with a file of a real mechanism.
import assert from "node:assert/strict";
import { createHash, createHmac, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const said = [];
console.warn = (text) => said.push(text);
const { readMechanism, ...client } = await import("../whereish.js");
const {
  BudgetError, FormatError, GuaranteeError, InputError, Mechanism, Reporter, randomBits, wrapGeolocation,
} = client;
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

test("SHA-256 and HMAC are what node says they are", async () => {
  const { sha256, hmac } = await import("../whereish/sha256.js");
  for (let length = 0; length < 300; length++) {
    const bytes = randomBytes(length);
    assert.equal(Buffer.from(sha256(bytes)).toString("hex"), createHash("sha256").update(bytes).digest("hex"));
    const key = randomBytes(1 + (length % 100));
    assert.equal(Buffer.from(hmac(key, bytes)).toString("hex"), createHmac("sha256", key).update(bytes).digest("hex"));
  }
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
  const day = { period: "day", number: 1, unit: "per km", budget: "1", spent: "0", version: 2 };
  const spoiled = [
    { spent: "-1" }, { spent: 0 }, { spent: "NaN" }, { number: "1" }, { number: 1.5 },
    { sticky: null }, { sticky: { x: 1 } }, { sticky: { ["0".repeat(32)]: "1" } },
    { sticky: { ["0".repeat(32)]: -1 } }, { key: 3 }, { version: 3 }, { budget: 9 }, { unit: 1 },
    { period: "toString" }, { period: ["day"] },
  ].map((change) => JSON.stringify({ ...day, ...change }));
  const old = ['{"period":"day"}', '{"period":"day","number":1,"spent":-1,"sticky":{}}',
    '{"period":"day","number":1,"spent":"0","sticky":{}}', '{"period":"day","number":1,"spent":0,"sticky":{"0":1}}'];
  for (const text of ["", "{", "3", "null", "[]", ...old, ...spoiled]) {
    const storage = shelf({ whereish: text });
    assert.throws(() => new Reporter(mechanism, storage, { budget: 9 }), FormatError);
    assert.equal(storage.kept.whereish, text);
  }
  const weekly = shelf();
  new Reporter(mechanism, weekly, { budget: 9, period: "week" }).report(lat, lon);
  assert.throws(() => new Reporter(mechanism, weekly, { budget: 9 }), /by the week/);
  for (const budget of [0, -1, NaN, Infinity, undefined]) {
    assert.throws(() => new Reporter(mechanism, shelf(), { budget }), InputError);
  }
  assert.throws(() => new Reporter({}, shelf(), { budget: 1 }), InputError);
  assert.throws(() => new Reporter(mechanism, null, { budget: 1 }), InputError);
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
  // And it can be wrapped again, once at a time.
  const again = wrapGeolocation(navigator, mechanism, { storage: shelf(), newPlaces: 1 });
  assert.throws(
    () => wrapGeolocation(navigator, mechanism, { storage: shelf(), newPlaces: 9 }), /wrapped already/,
  );
  again();
});

test("an error is passed on by its code and message, and a timeout is kept", () => {
  const failing = { code: 3, message: "late", where: [lat, lon] };
  const asked = [];
  const navigator = {
    geolocation: {
      getCurrentPosition(succeed, fail, options) {
        asked.push(options);
        fail(failing);
      },
      watchPosition() {},
    },
  };
  wrapGeolocation(navigator, mechanism, { storage: shelf(), newPlaces: 3 });
  const told = [];
  navigator.geolocation.getCurrentPosition(assert.fail, (wrong) => told.push(wrong), { timeout: 250 });
  assert.deepEqual(told, [
    { code: 3, message: "late", PERMISSION_DENIED: 1, POSITION_UNAVAILABLE: 2, TIMEOUT: 3 },
  ]);
  assert.equal(asked[0].timeout, 250);
  navigator.geolocation.getCurrentPosition(assert.fail);
  assert.equal("timeout" in asked[1], false);
  assert.throws(() => navigator.geolocation.getCurrentPosition(), TypeError);
  assert.throws(() => navigator.geolocation.getCurrentPosition(() => {}, 3), TypeError);
});

test("new places are counted exactly, and a budget in epsilon too", () => {
  const points = (count) => Array.from({ length: count }, (_, place) => {
    // Places are found from their own coordinates: the outputs are the inputs here.
    return mechanism.output(place).latlon;
  });
  for (const places of [1, 3, 7]) {
    const reporter = new Reporter(mechanism, shelf(), { newPlaces: places });
    assert.equal(reporter.state.newPlacesLeft, places);
    const fresh = points(10).map((point) => {
      try {
        return reporter.report(...point).fresh;
      } catch (wrong) {
        assert.ok(wrong instanceof BudgetError);
        return false;
      }
    });
    assert.equal(fresh.filter(Boolean).length, places);
    assert.equal(reporter.state.newPlacesLeft, 0);
    assert.equal(reporter.report(...points(1)[0]).fresh, false);
  }
  // 3 x 1.07 = 3.21 as people count: doubles would say 3.2100000000000004.
  const allowed = (budget) => {
    const reporter = new Reporter(mechanism, shelf(), { budget });
    return reporter.state.newPlacesLeft;
  };
  assert.equal(mechanism.epsilon, 1.07);
  assert.deepEqual([3.2, 3.21, 3.22, 1.06, 1e-300, 1e19].map(allowed).slice(0, 5), [2, 3, 3, 0, 0]);
  for (const newPlaces of [0, -1, 1.5, NaN, "3", Infinity]) {
    assert.throws(() => new Reporter(mechanism, shelf(), { newPlaces }), InputError);
  }
  assert.throws(() => new Reporter(mechanism, shelf(), { newPlaces: 3, budget: 3.21 }), /one of them/);
  assert.throws(() => new Reporter(mechanism, shelf(), {}), /one of them/);
});

test("the budget of a ledger is kept: neither raised nor lowered", () => {
  const storage = shelf();
  new Reporter(mechanism, storage, { newPlaces: 2 }).report(lat, lon);
  for (const other of [{ newPlaces: 3 }, { newPlaces: 1 }, { budget: 99 }, { newPlaces: 2, period: "week" }]) {
    assert.throws(() => new Reporter(mechanism, storage, other), InputError);
    // Nor with a copy of the storage, which another page would find.
    assert.throws(() => new Reporter(mechanism, shelf({ ...storage.kept }), other), InputError);
  }
  assert.equal(new Reporter(mechanism, storage, { budget: 2.14 }).state.spent, 1.07);
});

test("an emptied or forged storage gives nothing back while the page lives", () => {
  for (const remember of ["page", "storage"]) {
    const storage = shelf();
    const options = { newPlaces: 1, remember, clock: () => 5 * 86_400_000 };
    const reporter = new Reporter(mechanism, storage, options);
    const first = reporter.report(lat, lon);
    const kept = JSON.parse(storage.kept.whereish);
    const forgeries = [
      undefined, { ...kept, spent: "0" }, { ...kept, number: 6, spent: "0", sticky: {} },
      { ...kept, number: 1, spent: "0" }, { ...kept, number: 2 ** 40, spent: "0" },
    ];
    for (const forged of forgeries) {
      if (forged === undefined) delete storage.kept.whereish;
      else storage.kept.whereish = JSON.stringify(forged);
      for (const one of [reporter, new Reporter(mechanism, storage, options)]) {
        assert.equal(one.state.spent, mechanism.epsilon, JSON.stringify(forged));
        assert.throws(() => one.report(farLat, farLon), BudgetError);
        assert.equal(one.report(lat, lon).output, first.output);
      }
    }
    storage.kept.whereish = JSON.stringify({ ...kept, budget: "9".repeat(40) });
    assert.throws(() => new Reporter(mechanism, storage, { ...options, newPlaces: 9 }), InputError);
  }
});

test("no place is named in the storage, and what it says decides no report in a page", () => {
  const { place } = mechanism.locate(lat, lon);
  const storage = shelf();
  const made = new Reporter(mechanism, storage, { newPlaces: 3 }).report(lat, lon);
  const kept = JSON.parse(storage.kept.whereish);
  assert.deepEqual(Object.keys(kept.sticky).filter((name) => !/^[0-9a-f]{32}$/.test(name)), []);
  assert.ok(!storage.kept.whereish.includes(`:${place}"`));
  // The same key for another page; a secret that is kept elsewhere is not in it.
  assert.equal(
    new Reporter(mechanism, shelf({ ...storage.kept }), { newPlaces: 3 }).report(lat, lon).output,
    made.output,
  );
  const apart = shelf();
  const secret = "a secret of the extension's own";
  new Reporter(mechanism, apart, { newPlaces: 3, secret }).report(lat, lon);
  assert.equal("key" in JSON.parse(apart.kept.whereish), false);
  assert.notDeepEqual(Object.keys(JSON.parse(apart.kept.whereish).sticky), Object.keys(kept.sticky));
  assert.throws(() => new Reporter(mechanism, shelf(), { newPlaces: 3, secret: "short" }), InputError);
  // In a page: only what was spent.
  const page = shelf();
  new Reporter(mechanism, page, { newPlaces: 3, remember: "page" }).report(lat, lon);
  assert.deepEqual(Object.keys(JSON.parse(page.kept.whereish)).sort(),
    ["budget", "number", "period", "spent", "unit", "version"]);
  // A forged ledger would name a report for every place: it is not believed.
  const forged = shelf({ whereish: JSON.stringify({ ...kept, spent: "0" }) });
  const drawn = new Reporter(mechanism, forged, { newPlaces: 3, remember: "page" }).report(lat, lon);
  assert.equal(drawn.fresh, true);
});

test("a ledger of the first version is taken over", () => {
  const { place } = mechanism.locate(lat, lon);
  const number = Math.floor(Date.now() / 86_400_000);
  const old = { period: "day", number, spent: 1.07, sticky: { [`${mechanism.digest.slice(0, 16)}:${place}`]: 4 } };
  const storage = shelf({ whereish: JSON.stringify(old) });
  const reporter = new Reporter(mechanism, storage, { newPlaces: 2 });
  assert.deepEqual(reporter.state, { spent: 1.07, budget: 2.14, period: "day", newPlacesLeft: 1 });
  const again = reporter.report(lat, lon);
  assert.deepEqual([again.output, again.fresh], [4, false]);
  assert.equal(reporter.report(farLat, farLon).fresh, true);
  assert.equal(reporter.state.newPlacesLeft, 0);
  assert.equal(reporter.report(lat, lon).output, 4);
});

test("what Object.prototype says is nobody's option", () => {
  const polluted = { levels: { "": "real" }, origin: "https://map", "https://map": "real", budget: 99, clock: () => 0 };
  for (const [name, value] of Object.entries(polluted)) {
    Object.defineProperty(Object.prototype, name, { value, configurable: true });
  }
  try {
    const navigator = fakeNavigator(here);
    wrapGeolocation(navigator, mechanism, { storage: shelf(), newPlaces: 1, levels: {} });
    let seen;
    navigator.geolocation.getCurrentPosition((position) => (seen = position));
    assert.notEqual(seen, here);
  } finally {
    for (const name of Object.keys(polluted)) delete Object.prototype[name];
  }
});

test("a file is pinned by its digest; a name is not a file", async () => {
  const bytes = readFileSync(process.env.WHEREISH_FILE);
  const pinned = await readMechanism(bytes, { sha256: mechanism.digest.toUpperCase(), warn: false });
  assert.equal(pinned.digest, mechanism.digest);
  await assert.rejects(readMechanism(bytes, { sha256: "0".repeat(64) }), GuaranteeError);
  for (const sha256 of ["", "xyz", 3, {}]) {
    await assert.rejects(readMechanism(bytes, { sha256 }), InputError);
  }
  await assert.rejects(readMechanism(bytes, { key: "11".repeat(32) }), /not signed/);
  await assert.rejects(readMechanism(bytes, { key: "short" }), InputError);
  for (const name of ["k.whereish", new URL("https://example.org/k"), null, undefined, 3, {}]) {
    await assert.rejects(readMechanism(name), /bytes of a file.*fetch it first/);
  }
  assert.equal((await readMechanism(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))).places, mechanism.places);
});

test("a pin that is empty, misspelt or inherited never lets a file through unchecked", async () => {
  const bytes = readFileSync(process.env.WHEREISH_FILE);
  const other = "0".repeat(64);
  const key = "11".repeat(32);
  class Pins { get sha256() { return other; } }
  class NoPins { get key() { return undefined; } }
  const hidden = (name, value) => Object.defineProperty({}, name, { value, enumerable: false });
  const wrong = [
    { key: undefined }, { key: null }, { sha256: undefined }, { sha256: null }, { warn: false, key: undefined },
    { Key: key }, { SHA256: other }, { sha: other }, { digest: other }, { publicKey: key }, { [Symbol("key")]: key },
    Object.create({ key: undefined }), Object.create({ sha256: null }), Object.create({ Key: key }),
    Object.create(Object.create(null, { key: { value: undefined } })), new NoPins(), hidden("Key", key),
    hidden("key", undefined), null, "0".repeat(64), 3, [other], new Uint8Array(32), () => {}, true,
    { key: "" }, { sha256: "" }, { key: false }, { sha256: 0 }, { constructor: key },
  ];
  for (const options of wrong) {
    await assert.rejects(readMechanism(bytes, options), (error) => error.constructor === InputError);
  }
  // An inherited pin is a pin.
  const pins = [
    Object.create({ key }), Object.create({ sha256: other }), new Pins(), hidden("key", key),
    Object.assign(Object.create(null), { sha256: other }), Object.freeze({ key }), new (class extends Pins {})(),
  ];
  for (const options of pins) await assert.rejects(readMechanism(bytes, options), GuaranteeError);
  let reads = 0;
  const shifty = { get sha256() { return reads++ ? mechanism.digest : other; } };
  await assert.rejects(readMechanism(bytes, shifty), GuaranteeError);
  const good = [
    undefined, {}, { warn: false }, { warn: undefined }, Object.create(null), { sha256: mechanism.digest },
    Object.create({ sha256: mechanism.digest }),
  ];
  for (const options of good) assert.equal((await readMechanism(bytes, options)).digest, mechanism.digest);
  Object.prototype.key = null;
  Object.prototype.sha512 = "x";
  try {
    assert.equal((await readMechanism(bytes)).digest, mechanism.digest);
  } finally {
    delete Object.prototype.key;
    delete Object.prototype.sha512;
  }
});

test("a file with a prior is pointed out, once", async () => {
  // The first file that was read here holds one: see the beginning of this file.
  assert.equal(mechanism.holdsPrior, true);
  assert.equal(said.filter((text) => /holds a prior/.test(text)).length, 1);
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
