// Gives reports instead of positions to callers of navigator.geolocation in one page. A convenience
// for the author of the page, not a security boundary: docs/limitations.md lists what a script can
// still do.
import { BudgetError, InputError } from "./errors.js";
import {
  defineProperty, deleteProperty, getOwnPropertyDescriptor, getPrototypeOf, has, own, reflectApply,
  setPrototypeOf, toNumber, weakGet, weakSet,
} from "./primordials.js";
import { isMechanism, Reporter } from "./reporter.js";

// The getters of a position, saved when this module is loaded.
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
// The navigator of the page and its geolocation, saved because a script may replace them.
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
      // Not an object of the browser: in a test.
    }
    return object[name];
  };
}

let pageStorage;
try {
  if (NATIVE) pageStorage = globalThis.localStorage; // reading it prints a warning in node
} catch {
  // Storage is blocked: the caller of wrapGeolocation must give a storage.
}
const pageOrigin = globalThis.location?.origin ?? "";

// By prototype: { active }, the handlers of the replaced methods, or null while switched off.
const switches = new WeakMap();

/**
 * Replace getCurrentPosition, watchPosition and the position of a <geolocation> element, so that
 * callers get reports instead of positions. A report has no altitude, heading or speed; its
 * accuracy is the radius in metres that holds 95 % of the reports. The callers' `timeout` and
 * `maximumAge` are honoured; without a `maximumAge`, a position may be a minute old.
 *
 * The methods of the prototype are replaced permanently; the returned function switches the
 * replacement off. Reports are kept in this page only, unless options.remember is "storage": every
 * script of the page can read and forge localStorage.
 *
 * @param options.accuracyKm the accuracy of reports, for a file that holds no prior: a number (what
 *   `buildPlaces` returned as build.accuracyKm), or a function of the mechanism; otherwise
 *   mechanism.accuracyKm()
 * @param options.levels by origin: a Mechanism, "real" or "never"; other origins use `mechanism`
 * @returns a function that makes the original methods work again
 */
export function wrapGeolocation(navigator, mechanism, options = {}) {
  const origin = own(options, "origin", pageOrigin);
  const level = own(own(options, "levels", {}), origin, mechanism);
  if (level === "real") return () => {};
  if (level !== "never" && !isMechanism(level)) {
    throw new InputError('a level must be a mechanism, "real" or "never"');
  }
  const geolocation = trueGeolocation(navigator);
  if (!geolocation) throw new InputError("there is no geolocation here: it needs https or localhost");
  const storage = own(options, "storage", pageStorage);
  const reporter =
    level === "never"
      ? null
      : new Reporter(level, storage, { ...options, remember: own(options, "remember", "page") });
  const accuracy = level === "never" ? null : 1000 * accuracyOf(level, own(options, "accuracyKm", null));
  const state = replaced(geolocation);
  if (state.active) throw new InputError("geolocation is wrapped already: undo that first");
  const active = handlers(reporter, accuracy);
  state.active = active;
  return () => {
    if (state.active === active) state.active = null;
  };
}

/** The accuracy of reports in km: as given, or that of the mechanism. */
function accuracyOf(mechanism, given) {
  if (given === null) return mechanism.accuracyKm();
  const km = typeof given === "function" ? reflectApply(given, undefined, [mechanism]) : given;
  if (typeof km !== "number" || !(km >= 0 && km < 1e6)) {
    throw new InputError("accuracyKm must be a number of km, at least 0, or a function that returns one");
  }
  return km;
}

/**
 * The geolocation of a navigator. In a browser it is read with the getter of the browser, so a
 * replaced geolocation or a fake navigator has no effect.
 */
function trueGeolocation(navigator) {
  if (!geolocationOf) return navigator?.geolocation;
  try {
    return reflectApply(geolocationOf, navigator, []); // a navigator of this page, or of a frame
  } catch {
    return reflectApply(geolocationOf, PAGE, []);
  }
}

/** Restore navigator.geolocation and its prototype to the browser's, permanently. */
function fixNavigator(geolocation) {
  if (!deleteProperty(PAGE, "geolocation") || !setPrototypeOf(geolocation, NATIVE)) {
    throw new InputError("navigator.geolocation cannot be replaced: another script has fixed it already");
  }
  fix(NAVIGATOR, "geolocation", { get: geolocationOf });
}

/** Replace the methods on the object that has them, unless that was done before. */
function replaced(geolocation) {
  const native = geolocationOf !== undefined && geolocation === reflectApply(geolocationOf, PAGE, []);
  const holder = native ? NATIVE : holderOf(geolocation, "getCurrentPosition");
  if (native) fixNavigator(geolocation);
  // Own properties of the object would be called instead of the replaced methods.
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
    // The page's timeout and maximumAge are passed on to the real call; its enableHighAccuracy is not.
    // A position of a minute ago is as good for a report: it is taken if the page does not say.
    const asked = { __proto__: null, maximumAge: 60_000 };
    const any = wishes !== null && wishes !== undefined;
    const maximumAge = any ? wishes.maximumAge : undefined;
    const timeout = any ? wishes.timeout : undefined;
    if (maximumAge !== undefined) asked.maximumAge = toNumber(maximumAge);
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
        // The message must not depend on the position, not even on whether it is outside.
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
