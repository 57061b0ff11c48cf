// The built-in functions, saved when this module is loaded. Scripts that run later may replace
// Math.tan, Array.prototype.push or crypto.getRandomValues. All code that accepts a file, handles a
// position or draws a report uses the saved ones. For the same reason that code has
//   - no [a, b] = c, for-of, or spread of an array: they call Array.prototype[Symbol.iterator],
//   - no regular expression: it calls RegExp.prototype.exec,
//   - no .length or .buffer of a typed array: these are getters of its prototype,
//   - no array that grows by a[i] = v: a setter on Array.prototype would take the value,
//   - no decision that depends on the result of `await`: it may call Promise.prototype.then.
// clients/js/test/hooks.test.js replaces every function of the language in turn.

const { apply } = Reflect;

/** Turn a method into a function whose first argument is the object. */
export const uncurry = (method) => (self, ...rest) => apply(method, self, rest);
export const reflectApply = apply;
export const { deleteProperty, ownKeys, setPrototypeOf } = Reflect;

export const { abs, atan, atan2, ceil, cos, exp, expm1, floor, hypot, sin, sqrt, tan, PI } = Math;
export const { isFinite, isInteger, isSafeInteger } = Number;
export const toNumber = Number;
export const toBigInt = BigInt;
export const { create, defineProperty, freeze, getOwnPropertyDescriptor, getPrototypeOf, keys } =
  Object;
export const isArray = Array.isArray;
export const U8 = Uint8Array;
export const U32 = Uint32Array;
export const U64 = BigUint64Array;
export const I32 = Int32Array;
export const I64 = BigInt64Array;
export const F64 = Float64Array;
export const { parse, stringify } = JSON;
export const now = Date.now;
export const later = globalThis.setTimeout?.bind(globalThis);
export const charCodeAt = uncurry(String.prototype.charCodeAt);
export const charOf = String.fromCharCode;
export const toLowerCase = uncurry(String.prototype.toLowerCase);
export const sliceText = uncurry(String.prototype.slice);
export const weakGet = uncurry(WeakMap.prototype.get);
export const weakSet = uncurry(WeakMap.prototype.set);

const TYPED = getPrototypeOf(U8.prototype);
const getter = (prototype, name) => uncurry(getOwnPropertyDescriptor(prototype, name).get);
/** The length of a typed array. */
export const lengthOf = getter(TYPED, "length");
/** The buffer of a typed array. */
export const bufferOf = getter(TYPED, "buffer");
/** Sort a typed array in place by a comparison. */
export const sortTyped = uncurry(TYPED.sort);

const isView = ArrayBuffer.isView;
const viewStart = getter(TYPED, "byteOffset");
const viewSize = getter(TYPED, "byteLength");
const dataBuffer = getter(DataView.prototype, "buffer");
const dataStart = getter(DataView.prototype, "byteOffset");
const dataSize = getter(DataView.prototype, "byteLength");
const bufferSizes = [getter(ArrayBuffer.prototype, "byteLength")];
if (globalThis.SharedArrayBuffer) bufferSizes[1] = getter(SharedArrayBuffer.prototype, "byteLength");

/** A copy of the bytes from one position to another. */
export function copyBytes(bytes, start, end) {
  const copy = new U8(end - start);
  for (let i = start; i < end; i++) copy[i - start] = bytes[i];
  return copy;
}

/** A copy of the bytes of a buffer or of a view of one; null for anything else. */
export function bytesOf(source) {
  if (isView(source)) {
    let view;
    try {
      view = new U8(bufferOf(source), viewStart(source), viewSize(source));
    } catch {
      view = new U8(dataBuffer(source), dataStart(source), dataSize(source));
    }
    return copyBytes(view, 0, lengthOf(view));
  }
  for (let i = 0; i < bufferSizes.length; i++) {
    let size;
    try {
      size = bufferSizes[i](source); // throws if `source` is not such a buffer
    } catch {
      continue;
    }
    return copyBytes(new U8(source), 0, size);
  }
  return null;
}

/** Define an element of an array: an assignment would call a setter of Array.prototype. */
export function put(array, i, value) {
  defineProperty(array, i, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
}

const hasOwnProperty = uncurry(Object.prototype.hasOwnProperty);
/** An object's own property, or `otherwise`. A property of Object.prototype is never used. */
export const own = (object, name, otherwise) =>
  object !== null && object !== undefined && hasOwnProperty(object, name)
    ? object[name] ?? otherwise
    : otherwise;
export const has = hasOwnProperty;

const ROOT = Object.prototype;
/**
 * Options by name, each read once: own and inherited ones, but never those of Object.prototype.
 * Returns null if there is an unknown name, or if the argument is not an object.
 */
export function optionsOf(object, names) {
  if (object === null || typeof object !== "object") return null;
  const found = create(null);
  for (let level = object; level !== null && level !== ROOT; level = getPrototypeOf(level)) {
    const here = ownKeys(level);
    for (let i = 0; i < here.length; i++) {
      const name = here[i];
      let known = level !== object && name === "constructor"; // the prototype of a class has it
      for (let j = 0; j < names.length; j++) known ||= names[j] === name;
      if (!known) return null;
      if (name !== "constructor" && !hasOwnProperty(found, name)) found[name] = object[name];
    }
  }
  return found;
}

const source = globalThis.crypto;
const getRandomValues = source?.getRandomValues;
/** Fill a typed array with the system's randomness. */
export function fillRandom(array) {
  if (!getRandomValues) throw new TypeError("this runtime has no crypto.getRandomValues");
  return apply(getRandomValues, source, [array]);
}

const NativePromise = Promise;
const then = Promise.prototype.then;
/**
 * The result of a promise. After `await state.settled`, `ok` is true and there is a `value`, or `ok`
 * is false. The saved `then` sets them, so a replaced `then` cannot.
 */
function outcome(promise) {
  const state = create(null);
  state.ok = false;
  state.settled = new NativePromise((go) => {
    const kept = (value) => {
      state.ok = true;
      state.value = value;
      go();
    };
    apply(then, promise, [kept, (wrong) => {
      state.wrong = wrong;
      go();
    }]);
  });
  return state;
}

/** Let other tasks of the page run. Nothing may depend on how long this takes. */
export const pause = () => new NativePromise((go) => (later ? later(go) : go()));

const subtle = source?.subtle;
const importKey = subtle?.importKey;
const verify = subtle?.verify;
/**
 * Verify an Ed25519 signature with WebCrypto. The result { settled, done, good, wrong } is valid
 * after `await found.settled`. Null if there is no WebCrypto.
 */
export const verifyEd25519 = typeof verify !== "function" || typeof importKey !== "function"
  ? null
  : (key, signature, message) => {
      const algorithm = { __proto__: null, name: "Ed25519" };
      const found = create(null);
      found.done = false;
      found.good = false;
      found.settled = (async () => {
        const imported = outcome(apply(importKey, subtle, ["raw", key, algorithm, false, ["verify"]]));
        await imported.settled;
        found.wrong = imported.wrong;
        if (!imported.ok) return;
        const verified = outcome(apply(verify, subtle, [algorithm, imported.value, signature, message]));
        await verified.settled;
        found.wrong = verified.wrong;
        found.done = verified.ok;
        found.good = verified.ok && verified.value === true;
      })();
      return found;
    };

const DateFormat = globalThis.Intl?.DateTimeFormat;
const formatOf = DateFormat ? getter(DateFormat.prototype, "format") : null;
/**
 * The clock of a time zone: a function from seconds since 1970 to seconds of the day there. Null if
 * the zone is unknown here.
 */
export function clockIn(zone) {
  const inDay = (seconds) => ((seconds % 86400) + 86400) % 86400;
  if (zone === "UTC") return inDay;
  const options = create(null);
  options.timeZone = zone;
  options.hourCycle = "h23";
  options.hour = "2-digit";
  options.minute = "2-digit";
  options.second = "2-digit";
  let format;
  try {
    format = formatOf(new DateFormat("en-GB", options));
  } catch {
    return null;
  }
  return (seconds) => {
    const text = format(floor(seconds) * 1000); // like 23:59:59
    const two = (at) => 10 * (charCodeAt(text, at) - 48) + charCodeAt(text, at + 1) - 48;
    return 3600 * two(0) + 60 * two(3) + two(6) + (seconds - floor(seconds));
  };
}

const complain = globalThis.console?.warn;
/** Write a warning to the console. */
export const warn = (text) => complain && apply(complain, globalThis.console, [text]);

const HEX = "0123456789abcdef";
/** Bytes as hexadecimal digits. */
export function hex(bytes) {
  let text = "";
  const length = lengthOf(bytes);
  for (let i = 0; i < length; i++) text += HEX[bytes[i] >> 4] + HEX[bytes[i] & 15];
  return text;
}

/** The codes of an ASCII text. */
export function ascii(text) {
  const bytes = new U8(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = charCodeAt(text, i);
  return bytes;
}

/** The value of a hexadecimal digit in lower case, or -1. */
function digitOf(code) {
  if (code >= 48 && code <= 57) return code - 48;
  return code >= 97 && code <= 102 ? code - 87 : -1;
}

/** Whether a value is a string of `length` hexadecimal digits in lower case. */
export function isHex(text, length) {
  if (typeof text !== "string" || text.length !== length) return false;
  for (let i = 0; i < length; i++) if (digitOf(charCodeAt(text, i)) < 0) return false;
  return true;
}

/** The bytes of hexadecimal digits in lower case. */
export function fromHex(text) {
  const bytes = new U8(text.length / 2);
  for (let i = 0; i < text.length; i += 2) {
    bytes[i / 2] = 16 * digitOf(charCodeAt(text, i)) + digitOf(charCodeAt(text, i + 1));
  }
  return bytes;
}

/** Whether a value is a string of 1 to `most` decimal digits. */
export function isDecimal(text, most) {
  if (typeof text !== "string" || text.length < 1 || text.length > most) return false;
  for (let i = 0; i < text.length; i++) {
    const code = charCodeAt(text, i);
    if (code < 48 || code > 57) return false;
  }
  return true;
}
