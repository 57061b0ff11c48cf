// Fetched files, and what a page is told of the accuracy of reports. Run by tests/test_client.py with a
// file of a real mechanism.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  FetchError, fetchMechanism, FormatError, GuaranteeError, InputError, readMechanism, wrapGeolocation,
} from "../whereish.js";

const mechanism = await readMechanism(readFileSync(process.env.WHEREISH_FILE), { warn: false });
const [latitude, longitude] = JSON.parse(process.env.WHEREISH_POINT);
const here = { coords: { latitude, longitude, accuracy: 5 }, timestamp: 1 };

/** A storage like localStorage. */
function shelf() {
  const kept = new Map();
  return { getItem: (name) => kept.get(name) ?? null, setItem: (name, text) => kept.set(name, text) };
}

/** A navigator that records the options of every call. */
function fakeNavigator() {
  const asked = [];
  const answer = (succeed, fail, options) => {
    asked.push(options);
    succeed(here);
  };
  class Geolocation {
    getCurrentPosition(...call) {
      answer(...call);
    }
    watchPosition(...call) {
      answer(...call);
      return 7;
    }
  }
  return { geolocation: new Geolocation(), asked };
}

test("accuracy is that of the caller's prior, and options of the page are honoured", () => {
  const prior = Array.from({ length: mechanism.places }, (_, x) => (x === 20 ? 1 : 0));
  const known = mechanism.accuracyKm(0.95, prior);
  let sum = 0;
  mechanism.countsOf(20).forEach((count, z) => {
    const away = Math.hypot(...mechanism.output(z).xyKm.map((km, k) => km - mechanism.input(20)[k]));
    if (away <= known + 1e-9) sum += Number(count) / 2 ** 63;
  });
  assert.ok(sum >= 0.95 - 1e-9);
  for (const wrong of [[1], [...prior, 1], prior.map(() => 0), prior.map(() => NaN)]) {
    assert.throws(() => mechanism.accuracyKm(0.95, wrong), InputError);
  }
  for (const accuracyKm of [known, () => known]) {
    const navigator = fakeNavigator();
    const undo = wrapGeolocation(navigator, mechanism, { storage: shelf(), budget: 9, accuracyKm });
    const wishes = { maximumAge: 1234, timeout: 99, enableHighAccuracy: true };
    const heard = ({ coords }) => assert.equal(coords.accuracy, known * 1000);
    navigator.geolocation.getCurrentPosition(heard, assert.fail, wishes);
    navigator.geolocation.watchPosition(() => {}, null, { maximumAge: Infinity });
    navigator.geolocation.getCurrentPosition(() => {}, null, { maximumAge: 0 });
    navigator.geolocation.getCurrentPosition(() => {});
    assert.deepEqual(navigator.asked.map((asked) => ({ ...asked })), [
      { maximumAge: 1234, timeout: 99 }, { maximumAge: Infinity }, { maximumAge: 0 }, { maximumAge: 60_000 },
    ]);
    undo();
  }
  for (const accuracyKm of [-1, NaN, "far", () => "far"]) {
    const options = { storage: shelf(), budget: 9, accuracyKm };
    assert.throws(() => wrapGeolocation(fakeNavigator(), mechanism, options), InputError);
  }
});

test("a mechanism is fetched and checked, or the error says why not", async () => {
  const bytes = readFileSync(process.env.WHEREISH_FILE);
  const answers = (body, init) => async () => new Response(body, init);
  const options = { warn: false, fetch: answers(bytes), sha256: mechanism.digest };
  assert.equal((await fetchMechanism("https://example.org/k.whereish", options)).digest, mechanism.digest);
  const refused = async (change, kind, words) =>
    assert.rejects(fetchMechanism("https://example.org/k.whereish?key=hush", { ...options, ...change }), (wrong) => {
      assert.ok(wrong instanceof kind && words.test(wrong.message) && !wrong.message.includes("hush"), String(wrong));
      return true;
    });
  await refused({ fetch: answers("gone", { status: 404 }) }, FetchError, /status 404/);
  await refused({ fetch: async () => { throw new TypeError("no route"); } }, FetchError, /reachable/);
  const html = answers("<html>", { headers: { "content-type": "text/html" } });
  await refused({ fetch: html }, FormatError, /page of text/);
  await refused({ sha256: "0".repeat(64) }, GuaranteeError, /pinned/);
  await refused({ sha: "0" }, InputError, /no other names/);
  await refused({ sha256: undefined }, InputError, /must have a value/);
  const stop = new AbortController();
  stop.abort(new Error("enough"));
  await refused({ signal: stop.signal, fetch: (_, { signal }) => Promise.reject(signal.reason) }, Error, /enough/);
  await assert.rejects(fetchMechanism(bytes), InputError);
});
