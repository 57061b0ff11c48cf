// No function of the language that a script replaces after the client was loaded decides whether a
// file is taken, or what is drawn from it. Each is replaced in turn, by several others. Run by
// tests/test_client.py with a folder of files: "honest", "lattice", "noise", "signed", and forged ones.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { GLOBALS, HOLDERS, hooked } from "./hooking.js";
import { EverywhereMechanism, Mechanism, PlanarLaplaceEverywhere, readMechanism } from "../whereish.js";

const folder = process.env.WHEREISH_FOLDER;
const files = readdirSync(folder).sort().map((name) => [name, readFileSync(join(folder, name))]);
const honest = files.find(([name]) => name === "honest")[1];
const lattice = files.find(([name]) => name === "lattice")[1]; // honest, of version 2
const noise = files.find(([name]) => name === "noise")[1]; // honest, of planar Laplace noise
const signed = files.find(([name]) => name === "signed")[1]; // by a signature of another file
const forged = files.filter(([name]) => !["honest", "lattice", "noise", "signed"].includes(name));
const here = JSON.parse(process.env.WHEREISH_POINT);
const key = process.env.WHEREISH_KEY;
const other = "0".repeat(64);

// The test's own copies: it must go on while the language is broken.
const { apply, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
const { then } = Promise.prototype;
const NativePromise = Promise;
const NO_SPECIES = Object.create(null);
const wait = setImmediate;
const { countsOf, draw, locate } = Mechanism.prototype;
const everywhere = EverywhereMechanism.prototype;
const { countsOf: countsAt, draw: drawAt, drawKm, locate: locateAt } = everywhere;
const { drawKm: drawNoise } = PlanarLaplaceEverywhere.prototype;

const now = performance.now.bind(performance);
const PATIENCE_MS = 60_000;
const AT_ONCE = 10; // names on a prototype

/**
 * Whether a file is taken, "never" if the promise is not settled. A hook may have broken promises; only
 * then is a short wait enough: WebCrypto answers from another thread, late on a busy machine.
 */
function verdict(bytes, options, broken = false) {
  return new NativePromise((done) => {
    let promise;
    try {
      promise = readMechanism(bytes, options);
    } catch {
      return done("refused");
    }
    let rounds = 0;
    const started = now();
    const end = (word) => {
      rounds = Infinity;
      done(word);
    };
    const late = () => {
      if (rounds++ < 200 || (!broken && rounds < Infinity && now() - started < PATIENCE_MS)) wait(late);
      else if (rounds !== Infinity) end("never");
    };
    const taken = (value) => {
      try {
        // Throws for everything that is no mechanism.
        apply(getPrototypeOf(value) === everywhere ? countsAt : countsOf, value, [0]);
        end("taken");
      } catch {
        end("refused");
      }
    };
    defineProperty(promise, "constructor", { value: NO_SPECIES }); // or `then` asks Promise for one
    apply(then, promise, [taken, () => end("refused")]);
    late();
  });
}

const quiet = { warn: false };
const pinned = { sha256: other, warn: false };
const keyed = { key, warn: false };

/** Under a hook: which forged files are accepted, and whether the honest one is. */
async function judge(verify = false, broken = verify) {
  let wrong = "";
  for (let i = 0; i < forged.length; i++) {
    if ((await verdict(forged[i][1], quiet, broken)) === "taken") wrong += forged[i][0] + " ";
  }
  if ((await verdict(honest, pinned, broken)) === "taken") wrong += "another digest ";
  if ((await verdict(honest, keyed, broken)) === "taken") wrong += "no signature ";
  if (verify && (await verdict(signed, keyed, broken)) === "taken") wrong += "a signature of another file ";
  const both = [await verdict(honest, quiet, broken), await verdict(lattice, quiet, broken)];
  return { wrong, honest: both[0] === both[1] ? both[0] : "taken once" };
}

/** What takes a function's place. Each says what it returns; one drops what it is given. */
const REPLACEMENTS = {
  nothing: () => function () {},
  true: () => function () { return true; },
  "its first argument": () => function (first) { return first; },
  "calls back with true": () => function (first) { if (typeof first === "function") first(true); },
  "an empty list": () => function () { return []; },
  "nothing that is a number": (original) => function (...all) {
    let kept = [];
    for (let i = 0; i < all.length; i++) if (typeof all[i] !== "number") kept = [all[i]];
    return new.target ? Reflect.construct(original, kept) : apply(original, this, kept);
  },
};

// Node's WebCrypto is written in JavaScript and calls this itself: docs/limitations.md.
const KNOWN = "Promise.prototype.then -> calls back with true: a signature of another file ";

test("without a hook the forged files are refused and the honest one is taken", async () => {
  assert.ok(forged.length >= 10);
  assert.deepEqual(await judge(true, false), { wrong: "", honest: "taken" });
  assert.equal(await verdict(signed, keyed), "refused");
  assert.equal(await verdict(signed, quiet), "taken"); // without a key a signature says nothing
});

test("no replaced function has a forged file taken", async () => {
  const found = [];
  let hooks = 0;
  for (const [title, holder] of Object.entries(HOLDERS)) {
    const names = holder === globalThis ? GLOBALS : ownKeys(holder);
    const promises = title.startsWith("Promise") || title.startsWith("crypto"); // what verifies
    for (const name of names) {
      const { value, get } = getOwnPropertyDescriptor(holder, name) ?? {};
      if (typeof value !== "function" && !get && holder !== globalThis) continue;
      for (const [what, make] of Object.entries(REPLACEMENTS)) {
        if (what === "calls back with true" && !promises) continue;
        const original = value ?? get;
        const stand = typeof original === "function" ? make(original) : {};
        const result = await hooked(holder, name, get ? { get: stand } : { value: stand }, () => judge(promises));
        if (result === null) continue;
        hooks++;
        const where = `${title}.${String(name)} -> ${what}`;
        if (result.wrong) found.push(`${where}: ${result.wrong}`);
        // Not even honest files are judged otherwise, as long as promises work at all.
        if (result.honest !== "taken" && !promises) found.push(`${where}: ${result.honest}`);
      }
    }
  }
  assert.ok(hooks > 1500, `${hooks} hooks`);
  assert.deepEqual(found.filter((words) => words !== KNOWN), []);
});

test("no setter or value on a prototype has a forged file taken", async () => {
  const sources = readdirSync(new URL("../whereish/", import.meta.url));
  const names = new Set(Array.from({ length: 12 }, (_, i) => `${i}`));
  for (const source of sources) {
    const text = readFileSync(new URL(`../whereish/${source}`, import.meta.url), "utf8");
    for (const [, name] of text.matchAll(/(?:\.|\{ |, )([a-zA-Z_]\w*)\b/g)) names.add(name);
  }
  // Of these node itself, or this test, breaks.
  for (const name of ["then", "get", "set", "value", "writable", "configurable", "enumerable"]) names.delete(name);
  const found = [];
  // Several names at once: there are thousands. What is found is then said of each name alone.
  const tried = async (holder, some, value) => {
    const hook = (k) => () =>
      k === some.length ? judge() : hooked(holder, some[k], { get: () => value, set() {} }, hook(k + 1));
    const result = await hook(0)();
    if (!result.wrong && result.honest === "taken") return;
    if (some.length === 1) found.push(`${some[0]} -> ${String(value)}: ${result.wrong} ${result.honest}`);
    else for (const name of some) await tried(holder, [name], value);
    if (found.length === 0) found.push(`${some.join(" and ")} -> ${String(value)}`);
  };
  for (const holder of [Object.prototype, Array.prototype]) {
    const free = [];
    for (const name of names) {
      if (getOwnPropertyDescriptor(holder, name) || (holder === Array.prototype && !(name >= 0))) continue;
      free.push(name);
    }
    for (let first = 0; first < free.length; first += AT_ONCE) {
      const some = free.slice(first, first + AT_ONCE);
      for (const value of holder === Array.prototype ? [undefined] : [undefined, 1]) await tried(holder, some, value);
    }
  }
  assert.deepEqual(found, []);
});

test("no replaced function changes what is drawn, or the place of a point", async () => {
  const mechanism = await readMechanism(honest, quiet);
  const spread = await readMechanism(lattice, quiet);
  const noisy = await readMechanism(noise, quiet);
  const bits = Array.from({ length: 60 }, (_, i) => (BigInt(i) * 0x7fffffffffffffffn) / 60n);
  const all = () => {
    let text = "";
    for (let i = 0; i < bits.length; i++) text += apply(draw, mechanism, [i % 4, bits[i]]) + " ";
    const at = apply(locate, mechanism, [here[0], here[1]]);
    text += at.place + " " + at.snappedKm;
    let word = 0;
    const next = () => bits[word++ % 60];
    for (let i = 0; i < 40; i++) text += " " + apply(drawKm, spread, [i / 40 - 0.5, i / 80 - 0.2, next]);
    text += " " + apply(drawAt, spread, [here[0], here[1], next]);
    let seed = 5n;
    const random = () => (seed = (seed * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn) >> 1n;
    for (let i = 0; i < 10; i++) text += " " + apply(drawNoise, noisy, [i / 10 - 0.5, 0.2, random]);
    const found = apply(locateAt, spread, [here[0], here[1]]);
    return text + " " + found.cell + " " + found.steps[0] + " " + found.steps[1] + " " + found.movedKm;
  };
  const expected = all();
  const found = [];
  for (const [title, holder] of Object.entries(HOLDERS)) {
    const names = holder === globalThis ? GLOBALS : ownKeys(holder);
    for (const name of names) {
      const { value, get } = getOwnPropertyDescriptor(holder, name) ?? {};
      if (typeof value !== "function" && !get && holder !== globalThis) continue;
      const stand = function () {};
      const said = await hooked(holder, name, get ? { get: stand } : { value: stand }, async () => all());
      if (said !== null && said !== expected) found.push(`${title}.${String(name)}`);
    }
  }
  assert.deepEqual(found, []);
});
