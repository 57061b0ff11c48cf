// What a script may replace after the client was loaded, for the tests that replace it in turn.

// The test's own copies: it must go on while the language is broken.
const { defineProperty, deleteProperty, getOwnPropertyDescriptor, getPrototypeOf } = Reflect;

const TYPED = getPrototypeOf(Uint8Array);
export const HOLDERS = {
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
export const GLOBALS = [
  "Array", "ArrayBuffer", "Uint8Array", "Uint32Array", "Int32Array", "Float64Array", "BigUint64Array", "BigInt",
  "Boolean", "DataView", "Date", "Error", "Function", "JSON", "Map", "Math", "Number", "Object", "Promise", "Proxy",
  "Reflect", "RegExp", "Set", "String", "Symbol", "TextDecoder", "TextEncoder", "TypeError", "WeakMap", "atob",
  "btoa", "crypto", "isFinite", "isNaN", "parseFloat", "parseInt", "setTimeout", "structuredClone",
];

/** Replace a property while something runs; null if it cannot be replaced. */
export async function hooked(holder, name, property, run) {
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
