// The language's own functions as they were when this module was loaded. Scripts that run later may
// replace Math.tan or crypto.getRandomValues; what handles a position uses these. For the same
// reason that code takes no array apart by [a, b] = c and has no for-of, spread or push: each of
// them calls what a script can replace.

const { apply } = Reflect;

/** Turn a method into a function whose first argument is the object. */
export const uncurry = (method) => (self, ...rest) => apply(method, self, rest);
export const reflectApply = apply;
export const { deleteProperty, ownKeys } = Reflect;

export const { abs, atan, atan2, ceil, cos, floor, hypot, sin, sqrt, tan, PI, max } = Math;
export const { isFinite, isInteger, isSafeInteger } = Number;
export const toNumber = Number;
export const toBigInt = BigInt;
export const { create, defineProperty, freeze, getOwnPropertyDescriptor, getPrototypeOf, keys } =
  Object;
export const isArray = Array.isArray;
export const U8 = Uint8Array;
export const U32 = Uint32Array;
export const U64 = BigUint64Array;
export const { parse, stringify } = JSON;
export const now = Date.now;
export const later = globalThis.setTimeout?.bind(globalThis);
export const charCodeAt = uncurry(String.prototype.charCodeAt);
export const sliceText = uncurry(String.prototype.slice);
export const weakGet = uncurry(WeakMap.prototype.get);
export const weakSet = uncurry(WeakMap.prototype.set);

const hasOwnProperty = uncurry(Object.prototype.hasOwnProperty);
/** An object's own property, or what is given instead: never one of Object.prototype. */
export const own = (object, name, otherwise) =>
  object !== null && object !== undefined && hasOwnProperty(object, name)
    ? object[name] ?? otherwise
    : otherwise;
export const has = hasOwnProperty;

const ROOT = Object.prototype;
/**
 * Options by name, each read once: an object's own and inherited ones, but never those of
 * Object.prototype. Returns null where there is one of another name, or this is no object.
 */
export function optionsOf(object, names) {
  if (object === null || typeof object !== "object") return null;
  const found = create(null);
  for (let level = object; level !== null && level !== ROOT; level = getPrototypeOf(level)) {
    const here = ownKeys(level);
    for (let i = 0; i < here.length; i++) {
      const name = here[i];
      let known = level !== object && name === "constructor"; // of a class
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

const subtle = source?.subtle;
const importKey = subtle?.importKey;
const verify = subtle?.verify;
/** WebCrypto's verification of an Ed25519 signature; null where there is none. */
export const verifyEd25519 = !subtle
  ? null
  : async (key, signature, message) => {
      const imported = await apply(importKey, subtle, ["raw", key, { name: "Ed25519" }, false, ["verify"]]);
      return apply(verify, subtle, [{ name: "Ed25519" }, imported, signature, message]);
    };

const complain = globalThis.console?.warn;
/** Say something to whoever looks at the console. */
export const warn = (text) => complain && apply(complain, globalThis.console, [text]);

const HEX = "0123456789abcdef";
/** Bytes in hexadecimal digits. */
export function hex(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length; i++) text += HEX[bytes[i] >> 4] + HEX[bytes[i] & 15];
  return text;
}

/** The codes of an ASCII text. */
export function ascii(text) {
  const bytes = new U8(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = charCodeAt(text, i);
  return bytes;
}
