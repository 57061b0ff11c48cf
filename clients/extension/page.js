// Runs in the world of the page (MAIN), at document_start, in every frame: before the scripts of the
// page. It replaces what gives a position by functions that ask the extension for a report.
//
// It knows no secret and no position. It keeps no reference to the browser's own getCurrentPosition
// and watchPosition, so there is nothing to steal. A page that listens to its port, or forges
// messages on it, can ask for reports only, as it can by calling getCurrentPosition.
//
// Scripts of the page run later and may replace any function of the language. So this file saves what
// it needs, and after that has no for-of, no spread of arrays, no regular expression, no array that
// grows by assignment, and no method of an object that a page can reach. A content script in this
// world cannot be a module: everything is in this one file.
(() => {
  "use strict";
  const { apply, defineProperty, getOwnPropertyDescriptor, setPrototypeOf, ownKeys } = Reflect;
  const uncurry = (method) => (self, ...rest) => apply(method, self, rest);
  const weakGet = uncurry(WeakMap.prototype.get);
  const weakSet = uncurry(WeakMap.prototype.set);
  const weakHas = uncurry(WeakMap.prototype.has);
  const then = uncurry(Promise.prototype.then);
  const { create } = Object;
  const { floor, trunc } = Math;
  const { isFinite } = Number;
  const PromiseOf = Promise;
  const ProxyOf = Proxy;
  const hideFrames = Error.captureStackTrace; // V8, and newer versions of Firefox
  const later = setTimeout.bind(window);
  const post = uncurry(MessagePort.prototype.postMessage);
  const dataOf = uncurry(getOwnPropertyDescriptor(MessageEvent.prototype, "data").get);
  const framesOf = uncurry(getOwnPropertyDescriptor(window, "length").get);
  const root = window.top;

  // ---- The channel to bridge.js -----------------------------------------------------------------

  const HELLO = "whereish-bridge";
  const { port1: port, port2: theirs } = new MessageChannel();
  const pending = create(null); // by number: { hear, stays }
  let last = 0;

  function send(message, hear, stays = false) {
    last += 1;
    pending[last] = { __proto__: null, hear, stays };
    message.id = last;
    post(port, message);
    return last;
  }

  port.onmessage = (event) => {
    const told = dataOf(event);
    const waiting = pending[told.id];
    if (!waiting) return;
    if (!waiting.stays) delete pending[told.id];
    waiting.hear(told);
  };

  // Both scripts run before those of the page, in either order. The event is dispatched while
  // bridge.js listens, and never again.
  const offer = () => window.dispatchEvent(new MessageEvent(HELLO, { ports: [theirs] }));
  window.addEventListener(`${HELLO}-ready`, (event) => {
    event.stopImmediatePropagation();
    offer();
  }, { once: true, capture: true });
  offer();

  // ---- Functions that look like the browser's ---------------------------------------------------

  const texts = new WeakMap(); // what Function.prototype.toString says of a replaced function
  const bind = uncurry(Function.prototype.bind);
  const nothing = { method() {} }.method; // no constructor, no `prototype`

  /**
   * A function in place of another of the browser: same name, length and text, no `prototype`. It is
   * a Proxy of a bound function, because any realm prints both as "[native code]". `act(self, given,
   * trap)` is what it does; frames up to `trap` do not belong into the stack of an error.
   */
  function standIn(act, original, realm) {
    const target = bind(nothing, undefined);
    defineProperty(target, "length", getOwnPropertyDescriptor(original, "length"));
    defineProperty(target, "name", getOwnPropertyDescriptor(original, "name"));
    setPrototypeOf(target, realm.Function.prototype);
    const trap = (_, self, given) => act(self, given, trap);
    const made = new ProxyOf(target, { __proto__: null, apply: trap });
    weakSet(texts, made, apply(realm.Function.prototype.toString, original, []));
    return made;
  }

  /** An argument. Missing ones are not looked up: a page may have put a getter on Array.prototype. */
  const at = (given, i) => (i < given.length ? given[i] : undefined);

  /** Replace a method of a prototype (or of a window) if there is one. `make(original)` acts for it. */
  function replaceMethod(realm, holder, name, make) {
    const found = holder && getOwnPropertyDescriptor(holder, name);
    if (!found || typeof found.value !== "function") return;
    const { configurable, enumerable, writable } = found;
    const value = standIn(make(found.value), found.value, realm);
    defineProperty(holder, name, { __proto__: null, value, configurable, enumerable, writable });
  }

  /** The same for the getter or the setter (`side`) of a property. */
  function replaceAccessor(realm, holder, name, side, make) {
    const found = holder && getOwnPropertyDescriptor(holder, name);
    if (!found || !found[side]) return;
    const { get, set, configurable, enumerable } = found;
    const made = { __proto__: null, get, set, configurable, enumerable };
    made[side] = standIn(make(found[side]), found[side], realm);
    defineProperty(holder, name, made);
  }

  // ---- Positions and errors ---------------------------------------------------------------------

  const values = new WeakMap(); // of the objects made here: their properties
  const CLASSES = ["GeolocationPosition", "GeolocationCoordinates", "GeolocationPositionError"];
  const ORDER = {
    __proto__: null,
    chromium: ["timestamp", "coords", "accuracy", "latitude", "longitude", "altitude",
      "altitudeAccuracy", "heading", "speed"],
    gecko: ["coords", "timestamp", "latitude", "longitude", "altitude", "accuracy",
      "altitudeAccuracy", "heading", "speed"],
  };
  const MESSAGES = ["", "User denied Geolocation", "Position unavailable", "Timeout expired"];

  /** An object of a class of the browser whose getters return these properties. */
  function madeOf(prototype, properties) {
    const made = create(prototype);
    weakSet(values, made, properties);
    return made;
  }

  function positionOf(realm, told) {
    const { latitude, longitude, accuracy, altitude, altitudeAccuracy, heading, speed } = told;
    const coords = madeOf(realm.GeolocationCoordinates.prototype, {
      __proto__: null, latitude, longitude, accuracy, altitude, altitudeAccuracy, heading, speed,
    });
    return madeOf(realm.GeolocationPosition.prototype, {
      __proto__: null, coords, timestamp: told.timestamp,
    });
  }

  function errorOf(realm, code) {
    const message = MESSAGES[code];
    return madeOf(realm.GeolocationPositionError.prototype, { __proto__: null, code, message });
  }

  /** Let the getters and toJSON of the three classes accept the objects made here. */
  function acceptOurs(realm) {
    for (let k = 0; k < CLASSES.length; k++) {
      const prototype = realm[CLASSES[k]]?.prototype;
      if (!prototype) continue;
      const names = ownKeys(prototype);
      for (let i = 0; i < names.length; i++) {
        const name = names[i];
        replaceAccessor(realm, prototype, name, "get", (original) => (self) => {
          const ours = weakGet(values, self);
          return ours ? ours[name] : apply(original, self, []);
        });
      }
      replaceMethod(realm, prototype, "toJSON", (original) => (self) => {
        const ours = weakGet(values, self);
        return ours ? plain(realm, ours) : apply(original, self, []);
      });
    }
  }

  /** The result of toJSON, in the order of the browser. */
  function plain(realm, properties) {
    const made = create(realm.Object.prototype);
    const order = isGecko ? ORDER.gecko : ORDER.chromium;
    for (let i = 0; i < order.length; i++) {
      const name = order[i];
      if (!(name in properties)) continue;
      let value = properties[name];
      if (name === "coords") value = plain(realm, weakGet(values, value));
      defineProperty(made, name, {
        __proto__: null, value, writable: true, enumerable: true, configurable: true,
      });
    }
    return made;
  }

  // ---- Arguments, as Web IDL converts them ------------------------------------------------------

  let isGecko = false; // the words of the browser's errors
  try {
    Geolocation.prototype.clearWatch.call(navigator.geolocation);
  } catch (wrong) {
    isGecko = wrong.message.startsWith("Geolocation.");
  }

  /** Throw a TypeError of the realm whose stack trace begins at the caller of `method`. */
  function refuse(realm, method, message) {
    const wrong = new realm.TypeError(message);
    if (hideFrames) hideFrames(wrong, method);
    throw wrong;
  }

  function checkThis(realm, self, name, method) {
    try {
      apply(realm.clearWatch, self, [0]); // harmless: it throws unless `self` is a Geolocation
    } catch {
      refuse(realm, method, isGecko
        ? `'${name}' called on an object that does not implement interface Geolocation.`
        : "Illegal invocation");
    }
  }

  const words = (name, chromium, gecko) => isGecko
    ? `Geolocation.${name}: ${gecko}`
    : `Failed to execute '${name}' on 'Geolocation': ${chromium}`;

  function checkCount(realm, name, count, method) {
    if (count > 0) return;
    refuse(realm, method, words(name, "1 argument required, but only 0 present.",
      "At least 1 argument required, but only 0 passed"));
  }

  /** Check `this` and the arguments of a call; returns the options. */
  function checkedCall(realm, name, self, given, method) {
    checkThis(realm, self, name, method);
    checkCount(realm, name, given.length, method);
    if (typeof given[0] !== "function") {
      refuse(realm, method, words(name, "parameter 1 is not of type 'Function'.",
        "Argument 1 is not callable."));
    }
    const failure = at(given, 1);
    if (failure !== undefined && failure !== null && typeof failure !== "function") {
      refuse(realm, method, words(name, "parameter 2 is not of type 'Function'.",
        "Argument 2 is not callable."));
    }
    const options = at(given, 2);
    const kind = typeof options;
    if (options !== undefined && options !== null && kind !== "object" && kind !== "function") {
      refuse(realm, method, words(name, "The provided value is not of type 'PositionOptions'.",
        "Argument 3 can't be converted to a dictionary."));
    }
    // In the order of their names. Each is read once and converted before the next is read.
    if (options === undefined || options === null) return { maximumAge: 0, timeout: 0xffffffff };
    const { enableHighAccuracy } = options; // read, because a native call reads it; not used
    void enableHighAccuracy;
    const maximumAge = clamped(realm, name, "maximumAge", options.maximumAge, 0, method);
    const timeout = clamped(realm, name, "timeout", options.timeout, 0xffffffff, method);
    return { maximumAge, timeout };
  }

  /** [Clamp] unsigned long: limited to its range, and rounded to the nearest integer, ties to even. */
  function clamped(realm, name, member, value, otherwise, method) {
    if (value === undefined) return otherwise;
    const kind = typeof value;
    if (kind === "symbol" || kind === "bigint") {
      const what = kind === "symbol" ? "Symbol" : "BigInt";
      refuse(realm, method, isGecko
        ? `can't convert ${what} to number`
        : `Failed to execute '${name}' on 'Geolocation': Failed to read the '${member}' property ` +
          `from 'PositionOptions': Cannot convert a ${what} value to a number`);
    }
    const number = +value;
    if (number !== number || number <= 0) return 0;
    if (!isFinite(number) || number >= 0xffffffff) return 0xffffffff;
    const low = floor(number);
    if (number - low < 0.5) return low;
    if (number - low > 0.5) return low + 1;
    return low % 2 === 0 ? low : low + 1;
  }

  // ---- Geolocation ------------------------------------------------------------------------------

  /** Call a function of the page in a task of its own: no frame of this file is in its stack. */
  function call(callback, value) {
    if (typeof callback === "function") later(callback, 0, value);
  }

  function answerTo(realm, success, failure, told) {
    if (told.error) call(failure, errorOf(realm, told.error));
    else call(success, positionOf(realm, told.report));
  }

  const watches = create(null); // by the number that the page got
  let lastWatch = 0;

  function replaceGeolocation(realm, prototype) {
    realm.clearWatch = prototype.clearWatch;
    replaceMethod(realm, prototype, "getCurrentPosition", () => (self, given, trap) => {
      const asked = checkedCall(realm, "getCurrentPosition", self, given, trap);
      const success = given[0];
      const failure = at(given, 1);
      send({ __proto__: null, kind: "current", ...asked },
        (told) => answerTo(realm, success, failure, told));
    });
    replaceMethod(realm, prototype, "watchPosition", () => (self, given, trap) => {
      const asked = checkedCall(realm, "watchPosition", self, given, trap);
      const success = given[0];
      const failure = at(given, 1);
      lastWatch += 1;
      watches[lastWatch] = send({ __proto__: null, kind: "watch", ...asked },
        (told) => answerTo(realm, success, failure, told), true);
      return lastWatch;
    });
    replaceMethod(realm, prototype, "clearWatch", () => (self, given, trap) => {
      checkThis(realm, self, "clearWatch", trap);
      checkCount(realm, "clearWatch", given.length, trap);
      const kind = typeof given[0];
      if (kind === "symbol" || kind === "bigint") {
        const what = kind === "symbol" ? "Symbol" : "BigInt";
        refuse(realm, trap, isGecko ? `can't convert ${what} to number`
          : words("clearWatch", `Cannot convert a ${what} value to a number`, ""));
      }
      const number = trunc(+given[0]);
      const id = watches[number];
      if (id === undefined) return;
      delete watches[number];
      delete pending[id];
      post(port, { __proto__: null, kind: "clear", id });
    });
  }

  // ---- Permissions ------------------------------------------------------------------------------

  const states = new WeakMap(); // PermissionStatus of geolocation -> the extension's answer

  /** The site's permission is that of the extension: the browser's own is not used any more. */
  function replacePermissions(realm) {
    const status = realm.PermissionStatus?.prototype;
    const nameOf = status && getOwnPropertyDescriptor(status, "name")?.get;
    if (!nameOf) return;
    replaceMethod(realm, realm.Permissions?.prototype, "query", (original) => (self, given) =>
      then(apply(original, self, given), (found) => {
        if (apply(nameOf, found, []) !== "geolocation") return found;
        return new PromiseOf((done) => {
          send({ __proto__: null, kind: "state" }, (told) => {
            weakSet(states, found, told.state);
            done(found);
          });
        });
      }));
    replaceAccessor(realm, status, "state", "get", (original) => (self) =>
      weakGet(states, self) ?? apply(original, self, []));
  }

  /** The <geolocation> element: it tells no position. */
  function replaceElement(realm) {
    replaceAccessor(realm, realm.HTMLGeolocationElement?.prototype, "position", "get",
      (original) => (self) => {
        apply(original, self, []); // throws unless `self` is such an element
        return null;
      });
  }

  // ---- Other realms: frames and windows that the page can reach before content scripts run there --

  const done = new WeakMap(); // documents whose realm has been replaced

  function guard(realm) {
    let document;
    try {
      document = realm.document; // throws for another origin
    } catch {
      return;
    }
    if (!document || weakHas(done, document)) return;
    weakSet(done, document, true);
    try {
      install(realm);
    } catch {
      // A window that is being closed.
    }
  }

  /** Visit all windows of this tab, also those below windows of other origins. */
  function sweep(from) {
    guard(from);
    const count = framesOf(from);
    for (let i = 0; i < count; i++) sweep(from[i]);
  }

  /** The same from several windows: those of frames in a shadow root have no number in their parent. */
  function swept(window, node) {
    try {
      sweep(root);
      if (window) sweep(window);
      const view = node && defaultView(ownerDocument(node) ?? node);
      if (view && view !== window) sweep(view);
    } catch {
      // The tab is being closed, or `node` is no node.
    }
  }

  const INSERTING = {
    __proto__: null,
    Node: ["appendChild", "insertBefore", "replaceChild"],
    Element: ["append", "prepend", "before", "after", "replaceWith", "replaceChildren", "moveBefore",
      "insertAdjacentElement", "insertAdjacentHTML", "setHTML", "setHTMLUnsafe"],
    CharacterData: ["before", "after", "replaceWith"],
    DocumentType: ["before", "after", "replaceWith"],
    Document: ["append", "prepend", "replaceChildren", "moveBefore", "write", "writeln", "open",
      "close", "execCommand"],
    DocumentFragment: ["append", "prepend", "replaceChildren", "moveBefore"],
    ShadowRoot: ["setHTML", "setHTMLUnsafe"],
    Range: ["insertNode", "surroundContents"],
    HTMLSelectElement: ["add"],
    HTMLOptionsCollection: ["add"],
  };
  const SETTERS = {
    __proto__: null,
    Element: ["innerHTML", "outerHTML"],
    ShadowRoot: ["innerHTML"],
    HTMLElement: ["outerText", "innerText"],
    Document: ["body"],
    HTMLTableElement: ["caption", "tHead", "tFoot"],
    HTMLIFrameElement: ["src", "srcdoc"],
    HTMLObjectElement: ["data"],
    HTMLEmbedElement: ["src"],
  };
  const forEach = (table, act) => {
    const kinds = ownKeys(table);
    for (let i = 0; i < kinds.length; i++) {
      const names = table[kinds[i]];
      for (let j = 0; j < names.length; j++) act(kinds[i], names[j]);
    }
  };
  const FRAMES = ["HTMLIFrameElement", "HTMLFrameElement", "HTMLObjectElement", "HTMLEmbedElement"];
  const ownerDocument = uncurry(getOwnPropertyDescriptor(Node.prototype, "ownerDocument").get);
  const defaultView = uncurry(getOwnPropertyDescriptor(Document.prototype, "defaultView").get);

  function watchFrames(realm) {
    const guarded = (document) => {
      const view = document && defaultView(document);
      if (view) guard(view);
      return document;
    };
    for (let i = 0; i < FRAMES.length; i++) {
      const prototype = realm[FRAMES[i]]?.prototype;
      replaceAccessor(realm, prototype, "contentWindow", "get", (original) => (self) => {
        const found = apply(original, self, []);
        if (found) guard(found);
        return found;
      });
      const document = (original) => (self) => guarded(apply(original, self, []));
      replaceAccessor(realm, prototype, "contentDocument", "get", document);
      replaceMethod(realm, prototype, "getSVGDocument", document);
    }
    const inserting = (original) => (self, given) => {
      try {
        return apply(original, self, given);
      } finally {
        swept(realm, self);
      }
    };
    forEach(INSERTING, (kind, name) =>
      replaceMethod(realm, realm[kind]?.prototype, name, inserting));
    forEach(SETTERS, (kind, name) =>
      replaceAccessor(realm, realm[kind]?.prototype, name, "set", inserting));
    replaceMethod(realm, realm, "open", (original) => (self, given) => {
      const found = apply(original, self, given);
      if (found) guard(found);
      return found;
    });
    // Frames that the parser inserts: this runs before the next script of the page.
    const { document } = realm;
    const look = () => swept(realm);
    new realm.MutationObserver(look).observe(document, { childList: true, subtree: true });
    document.addEventListener("load", look, true);
  }

  // ---- All of it, in one realm ------------------------------------------------------------------

  function install(window) {
    // What is used later is saved now: the page may replace it in `window`.
    const { Function, Object, TypeError, GeolocationPosition, GeolocationCoordinates } = window;
    const { GeolocationPositionError, PermissionStatus, Permissions, HTMLGeolocationElement } = window;
    const realm = {
      __proto__: null, Function, Object, TypeError, GeolocationPosition, GeolocationCoordinates,
      GeolocationPositionError, PermissionStatus, Permissions, HTMLGeolocationElement,
    };
    const geolocation = window.Geolocation?.prototype;
    if (geolocation) {
      replaceGeolocation(realm, geolocation);
      acceptOurs(realm);
      replacePermissions(realm);
      replaceElement(realm);
    }
    watchFrames(window);
    replaceMethod(realm, Function.prototype, "toString", (original) => (self) =>
      weakGet(texts, self) ?? apply(original, self, []));
  }

  guard(window);
})();
//# sourceURL=<anonymous>
