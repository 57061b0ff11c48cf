// No function of the language that a script replaces after the client was loaded decides whether a
// file is taken, or what is drawn from it. Each is replaced in turn, by several others. Run by
// tests/test_client.py with a folder of files: "honest", "lattice", "signed", and forged ones.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { EverywhereMechanism, Mechanism, readMechanism } from "../whereish.js";

const folder = process.env.WHEREISH_FOLDER;
const files = readdirSync(folder).sort().map((name) => [name, readFileSync(join(folder, name))]);
const honest = files.find(([name]) => name === "honest")[1];
const lattice = files.find(([name]) => name === "lattice")[1]; // honest, of version 2
const signed = files.find(([name]) => name === "signed")[1]; // by a signature of another file
const forged = files.filter(([name]) => !["honest", "lattice", "signed"].includes(name));
const here = JSON.parse(process.env.WHEREISH_POINT);
const key = process.env.WHEREISH_KEY;
const other = "0".repeat(64);

// The test's own copies: it must go on while the language is broken.
const { apply, defineProperty, deleteProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
const { then } = Promise.prototype;
const NativePromise = Promise;
const NO_SPECIES = Object.create(null);
const wait = setImmediate;
const { countsOf, draw, locate } = Mechanism.prototype;
const everywhere = EverywhereMechanism.prototype;
const { countsOf: countsAt, draw: drawAt, drawKm, locate: locateAt } = everywhere;

/** Whether a file is taken, "never" if the promise is not settled: the hook may have broken that. */
function verdict(bytes, options) {
  return new NativePromise((done) => {
    let promise;
    try {
      promise = readMechanism(bytes, options);
    } catch {
      return done("refused");
    }
    let rounds = 0;
    const end = (word) => {
      rounds = Infinity;
      done(word);
    };
    const late = () => {
      if (rounds++ < 200) wait(late);
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
async function judge(verify = false) {
  let wrong = "";
  for (let i = 0; i < forged.length; i++) {
    if ((await verdict(forged[i][1], quiet)) === "taken") wrong += forged[i][0] + " ";
  }
  if ((await verdict(honest, pinned)) === "taken") wrong += "another digest ";
  if ((await verdict(honest, keyed)) === "taken") wrong += "no signature ";
  if (verify && (await verdict(signed, keyed)) === "taken") wrong += "a signature of another file ";
  const both = [await verdict(honest, quiet), await verdict(lattice, quiet)];
  return { wrong, honest: both[0] === both[1] ? both[0] : "taken once" };
}

const TYPED = getPrototypeOf(Uint8Array);
const HOLDERS = {
  Array, "Array.prototype": Array.prototype, TypedArray: TYPED, "TypedArray.prototype": TYPED.prototype,
  Uint8Array, "Uint8Array.prototype": Uint8Array.prototype, BigUint64Array, Float64Array, Int32Array,
  ArrayBuffer, "ArrayBuffer.prototype": ArrayBuffer.prototype, DataView,
  "DataView.prototype": DataView.prototype, String, "String.prototype": String.prototype, Object,
  "Object.prototype": Object.prototype, Function, "Function.prototype": Function.prototype, Number,
  "Number.prototype": Number.prototype, BigInt, "BigInt.prototype": BigInt.prototype, Math, JSON, Reflect,
  Map, "Map.prototype": Map.prototype, Set, "Set.prototype": Set.prototype,
  "WeakMap.prototype": WeakMap.prototype, RegExp, "RegExp.prototype": RegExp.prototype, Symbol,
  "Symbol.prototype": Symbol.prototype, Date, "Date.prototype": Date.prototype, Promise,
  "Promise.prototype": Promise.prototype, Error, "Error.prototype": Error.prototype,
  "TextDecoder.prototype": TextDecoder.prototype, "TextEncoder.prototype": TextEncoder.prototype,
  "crypto.subtle": getPrototypeOf(crypto.subtle), "iterators": getPrototypeOf([][Symbol.iterator]()),
  "generators": getPrototypeOf(function* () {}).prototype, globalThis,
};
const GLOBALS = [
  "Array", "ArrayBuffer", "Uint8Array", "Uint32Array", "Int32Array", "Float64Array", "BigUint64Array", "BigInt",
  "Boolean", "DataView", "Date", "Error", "Function", "JSON", "Map", "Math", "Number", "Object", "Promise", "Proxy",
  "Reflect", "RegExp", "Set", "String", "Symbol", "TextDecoder", "TextEncoder", "TypeError", "WeakMap", "atob",
  "btoa", "crypto", "isFinite", "isNaN", "parseFloat", "parseInt", "setTimeout", "structuredClone",
];

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

/** Replace a property while something runs; null if it cannot be replaced. */
async function hooked(holder, name, property, run) {
  const before = getOwnPropertyDescriptor(holder, name);
  if (before && !before.configurable && !before.writable) return null;
  const set = before && !before.configurable ? { value: property.value } : { configurable: true, ...property };
  if (!defineProperty(holder, name, set)) return null;
  try {
    return await run();
  } finally {
    if (before) defineProperty(holder, name, before);
    else deleteProperty(holder, name);
  }
}

test("without a hook the forged files are refused and the honest one is taken", async () => {
  assert.ok(forged.length >= 10);
  assert.deepEqual(await judge(true), { wrong: "", honest: "taken" });
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
  for (const holder of [Object.prototype, Array.prototype]) {
    for (const name of names) {
      if (getOwnPropertyDescriptor(holder, name) || (holder === Array.prototype && !(name >= 0))) continue;
      for (const value of holder === Array.prototype ? [undefined] : [undefined, 1]) {
        const result = await hooked(holder, name, { get: () => value, set() {} }, () => judge());
        if (result.wrong || result.honest !== "taken") {
          found.push(`${name} -> ${String(value)}: ${result.wrong} ${result.honest}`);
        }
      }
    }
  }
  assert.deepEqual(found, []);
});

test("no replaced function changes what is drawn, or the place of a point", async () => {
  const mechanism = await readMechanism(honest, quiet);
  const spread = await readMechanism(lattice, quiet);
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
