// Reports instead of positions for the callers of navigator.geolocation in one page. A convenience
// for the page's author, not a boundary: docs/limitations.md lists what a script can still do.
import { BudgetError, InputError } from "./errors.js";
import { Mechanism } from "./mechanism.js";
import {
  defineProperty, deleteProperty, getOwnPropertyDescriptor, getPrototypeOf, has, own, reflectApply,
  setPrototypeOf, toNumber, weakGet, weakSet,
} from "./primordials.js";
import { Reporter } from "./reporter.js";

// The getters of a position as they were when this module was loaded.
const coordsOf = reader("GeolocationPosition", "coords");
const timestampOf = reader("GeolocationPosition", "timestamp");
const latitudeOf = reader("GeolocationCoordinates", "latitude");
const longitudeOf = reader("GeolocationCoordinates", "longitude");
const codeOf = reader("GeolocationPositionError", "code");
const messageOf = reader("GeolocationPositionError", "message");
const NATIVE = globalThis.Geolocation?.prototype;
const METHODS = ["getCurrentPosition", "watchPosition"];
const originals = { __proto__: null };
for (const name of METHODS) originals[name] = NATIVE?.[name];
// The page's navigator and what it calls its geolocation: a script may put another in their place.
const PAGE = globalThis.navigator;
const NAVIGATOR = globalThis.Navigator?.prototype;
const geolocationOf = NATIVE && getterOf("Navigator", "geolocation");
const ELEMENT = globalThis.HTMLGeolocationElement?.prototype;
const elementPosition = getterOf("HTMLGeolocationElement", "position");

function getterOf(kind, name) {
  const prototype = globalThis[kind]?.prototype;
  return prototype ? getOwnPropertyDescriptor(prototype, name)?.get : undefined;
}

function reader(kind, name) {
  const getter = getterOf(kind, name);
  return (object) => {
    try {
      if (getter) return reflectApply(getter, object, []);
    } catch {
      // Not an object of this browser: a test's.
    }
    return object[name];
  };
}

let pageStorage;
try {
  if (NATIVE) pageStorage = globalThis.localStorage; // node's prints a warning when it is read
} catch {
  // Forbidden here: the caller of wrapGeolocation has to give one.
}
const pageOrigin = globalThis.location?.origin ?? "";

// What stands in for a prototype's methods: { active }, which is null while nothing is hidden.
const switches = new WeakMap();

/**
 * Replace getCurrentPosition and watchPosition, and what a <geolocation> element finds, so that
 * callers get reports instead of positions: no altitude, heading or speed, and an accuracy that
 * says how far off 95 % of the reports are.
 *
 * The methods are replaced on the prototype, once and for good; the function that is returned
 * turns the replacement off. Reports are remembered in this page only unless options.remember is
 * "storage": what lies in localStorage every script of the page can read and forge.
 *
 * @param options.levels per origin: a Mechanism, or "real" or "never"; `mechanism` for all others
 * @returns a function that lets the originals through again
 */
export function wrapGeolocation(navigator, mechanism, options = {}) {
  const origin = own(options, "origin", pageOrigin);
  const level = own(own(options, "levels", {}), origin, mechanism);
  if (level === "real") return () => {};
  if (level !== "never" && !(level instanceof Mechanism)) {
    throw new InputError('a level must be a Mechanism, "real" or "never"');
  }
  const geolocation = trueGeolocation(navigator);
  if (!geolocation) throw new InputError("there is no geolocation here: it needs https or localhost");
  const storage = own(options, "storage", pageStorage);
  const reporter =
    level === "never"
      ? null
      : new Reporter(level, storage, { ...options, remember: own(options, "remember", "page") });
  const accuracy = level === "never" ? null : level.accuracyKm() * 1000;
  const state = replaced(geolocation);
  if (state.active) throw new InputError("geolocation is wrapped already: undo that first");
  const active = handlers(reporter, accuracy);
  state.active = active;
  return () => {
    if (state.active === active) state.active = null;
  };
}

/**
 * The geolocation of a navigator. In a browser it is asked for by the browser's own getter: another
 * one that a script has put there, or a navigator that is none, does not count.
 */
function trueGeolocation(navigator) {
  if (!geolocationOf) return navigator?.geolocation;
  try {
    return reflectApply(geolocationOf, navigator, []); // of this page, or of a frame
  } catch {
    return reflectApply(geolocationOf, PAGE, []);
  }
}

/** Make navigator.geolocation the browser's again, with the browser's prototype, and for good. */
function fixNavigator(geolocation) {
  if (!deleteProperty(PAGE, "geolocation") || !setPrototypeOf(geolocation, NATIVE)) {
    throw new InputError("navigator.geolocation cannot be replaced: another script has fixed it already");
  }
  fix(NAVIGATOR, "geolocation", { get: geolocationOf });
}

/** Replace the methods where they are found, unless they are replaced already. */
function replaced(geolocation) {
  const native = geolocationOf !== undefined && geolocation === reflectApply(geolocationOf, PAGE, []);
  const holder = native ? NATIVE : holderOf(geolocation, "getCurrentPosition");
  if (native) fixNavigator(geolocation);
  // What was put before the prototype's methods would be called instead of ours.
  for (let i = 0; native && i < METHODS.length; i++) {
    if (!deleteProperty(geolocation, METHODS[i])) {
      throw new InputError(`${METHODS[i]} cannot be replaced: another script has fixed it already`);
    }
  }
  const known = weakGet(switches, holder);
  if (known) return known;
  const state = { active: null };
  for (let i = 0; i < METHODS.length; i++) {
    const name = METHODS[i];
    const at = native ? NATIVE : holderOf(geolocation, name);
    const original = native ? originals[name] : at[name];
    const stand = {
      [name](succeed, fail, wishes) {
        if (!state.active) return reflectApply(original, this, arguments);
        return state.active.ask(original, this, succeed, fail, wishes, name);
      },
    };
    fix(at, name, { value: stand[name], writable: false });
  }
  if (ELEMENT && elementPosition && native) {
    const stand = {
      get position() {
        const found = reflectApply(elementPosition, this, []);
        return found && state.active ? state.active.see(found) : found;
      },
    };
    fix(ELEMENT, "position", { get: getOwnPropertyDescriptor(stand, "position").get });
  }
  weakSet(switches, holder, state);
  return state;
}

function holderOf(object, name) {
  for (let at = object; at !== null && at !== undefined; at = getPrototypeOf(at)) {
    if (has(at, name)) return at;
  }
  throw new InputError(`geolocation must have a method ${name}`);
}

function fix(object, name, property) {
  try {
    defineProperty(object, name, { __proto__: null, enumerable: true, configurable: false, ...property });
  } catch {
    throw new InputError(`${name} cannot be replaced: another script has fixed it already`);
  }
}

function handlers(reporter, accuracy) {
  const refuse = (fail, code, message) => {
    if (typeof fail !== "function") return;
    reflectApply(fail, undefined, [
      { code, message, PERMISSION_DENIED: 1, POSITION_UNAVAILABLE: 2, TIMEOUT: 3 },
    ]);
  };
  const reportOf = (position) => {
    const coords = coordsOf(position);
    const made = reporter.report(latitudeOf(coords), longitudeOf(coords));
    return asPosition(made, accuracy, timestampOf(position));
  };
  const ask = (original, self, succeed, fail, wishes, name) => {
    if (typeof succeed !== "function") {
      throw new TypeError(`${name} needs a function to call with the position`);
    }
    if (fail !== null && fail !== undefined && typeof fail !== "function") {
      throw new TypeError(`${name} needs a function, or nothing, to call with an error`);
    }
    // What the real call is asked depends on the page by its patience only: a wish for accuracy
    // or for a fresh fix is not passed on.
    const asked = { __proto__: null, maximumAge: 60_000 };
    const timeout = wishes === null || wishes === undefined ? undefined : wishes.timeout;
    if (timeout !== undefined) asked.timeout = toNumber(timeout);
    if (!reporter) {
      refuse(fail, 1, "denied");
      return name === "watchPosition" ? 0 : undefined;
    }
    const found = (position) => {
      let told;
      try {
        told = reportOf(position);
      } catch (wrong) {
        // Nothing of where one is: neither outside, nor how far.
        refuse(fail, 2, wrong instanceof BudgetError ? "the privacy budget is spent" : "no report");
        return;
      }
      reflectApply(succeed, undefined, [told]);
    };
    const failed = (wrong) => refuse(fail, codeOf(wrong), messageOf(wrong));
    return reflectApply(original, self, [found, failed, asked]);
  };
  const see = (position) => {
    try {
      return reporter ? reportOf(position) : null;
    } catch {
      return null;
    }
  };
  return { ask, see };
}

function asPosition(made, accuracy, timestamp) {
  const coords = {
    latitude: made.latlon[0],
    longitude: made.latlon[1],
    accuracy,
    altitude: null,
    altitudeAccuracy: null,
    heading: null,
    speed: null,
  };
  return { coords, timestamp };
}
