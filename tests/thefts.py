"""Pages that want the true position: each is the body of a function that runs first in a page.

The helpers: `ask(method, self)` calls a method for a position and notes what it gets, `note(value)`
notes every number and text that is reachable from a value, `steal(window)` asks the geolocation of a
window by all its methods, `frame(attributes)` makes an iframe that is not inserted yet.
"""

from __future__ import annotations

# The script of a frame that asks, and tells its parent.
TELLING = (
    "const tell = (p) => parent.postMessage("
    "{ stolen: p.coords ? [p.coords.latitude, p.coords.longitude] : [p.message] }, '*');"
    "navigator.geolocation.getCurrentPosition(tell, tell);"
)
HELPERS = """
const { apply, ownKeys, getPrototypeOf } = Reflect;
const log = console.log.bind(console), stringify = JSON.stringify, wait = setTimeout.bind(window);
const P = Promise, text = String, describe = Object.getOwnPropertyDescriptor, isNumber = Number.isFinite;
// LIMIT is the milliseconds for an answer, and all waits are PATIENCE times as long. GOAL is the true
// latitude times 1e10, for a browser without the extension: a page that has it ends.
const [LIMIT = 6000, GOAL = 0, PATIENCE = 1] = location.hash.slice(1).split(",").map(Number);
const later = (ms) => new P((done) => wait(done, ms * PATIENCE));
const seen = { __proto__: null };
let left = 0, quiet = false;
const walk = (value, deep) => {
  const kind = typeof value;
  if (left-- < 0) return;
  if (kind === "number" || kind === "string" || kind === "bigint") {
    seen[text(value)] = 1;
    if (GOAL && kind === "number" && value * 1e10 - GOAL < 1 && GOAL - value * 1e10 < 1) finish();
    return;
  }
  if (value === null || kind !== "object" || deep === 0) return;
  for (let at = value, up = 0; at && up < 3; at = getPrototypeOf(at), up++) {
    const names = ownKeys(at);
    for (let i = 0; i < names.length && i < 60; i++) {
      try { const found = describe(at, names[i]); walk(found.get ? apply(found.get, value, []) : found.value, deep - 1); } catch {}
    }
  }
};
const note = (value) => { if (quiet) return; quiet = true; left = 2500; try { walk(value, 4); } catch {} quiet = false; };
const ask = (method, self = navigator.geolocation, options = undefined, limit = LIMIT) => new P((done) => {
  wait(() => done(null), limit * PATIENCE);
  const hear = (found) => { note(found); done(found); };
  try { apply(method, self, options === undefined ? [hear, hear] : [hear, hear, options]); } catch (wrong) { note(wrong.message); done(null); }
});
const steal = async (w) => {
  const { geolocation } = w.navigator;
  const prototype = w.Geolocation.prototype;
  await P.all([ask(geolocation.getCurrentPosition, geolocation), ask(prototype.watchPosition, geolocation)]);
};
const frame = (attributes = {}) => {
  const made = document.createElement("iframe");
  for (const name in attributes) made.setAttribute(name, attributes[name]);
  return made;
};
const body = () => document.body ?? document.documentElement.appendChild(document.createElement("body"));
const heard = (limit = 3000) => new P((done) => {
  wait(done, limit * PATIENCE);
  addEventListener("message", ({ data }) => { if (data && data.stolen) { note(data); done(); } });
});
const INSIDE = "<script>TELLING</" + "script>";
let finished = false;
const finish = () => { if (finished) return; finished = true; window.theft = stringify(ownKeys(seen)); log("seen:" + window.theft); };
""".replace("TELLING", TELLING)

RUN = "(async () => { try { %s } catch (wrong) { note(wrong.message); } finish(); })();"


def page(body: str) -> str:
    """Return a page whose first script is this attack."""
    return f"<!doctype html><head><script>{HELPERS}{RUN % body}</script></head><body>"


def parsed(html: str, body: str) -> str:
    """Return a page whose attack comes after some HTML."""
    script = RUN % body
    return f"<!doctype html><head><script>{HELPERS}</script></head><body>{html}<script>{script}</script>"


# Files of the site.
FILES = {
    "plain.html": "<!doctype html><p>plain",
    "plain.svg": '<svg xmlns="http://www.w3.org/2000/svg"/>',
    "inside.html": f"<!doctype html><script>{TELLING}</script>",
    "opened.html": f"<!doctype html><script>{TELLING.replace('parent', 'opener')}</script>",
    "inside.svg": '<svg xmlns="http://www.w3.org/2000/svg">'
    f"<script><![CDATA[{TELLING}]]></script></svg>",
    "inside.xhtml": '<html xmlns="http://www.w3.org/1999/xhtml"><head>'
    f"<script><![CDATA[{TELLING}]]></script></head></html>",
}


ASK = "await ask(navigator.geolocation.getCurrentPosition);"
WATCH = "await ask(navigator.geolocation.watchPosition);"

CALLS = {
    "a call": ASK,
    "a watch": WATCH,
    "the method of the prototype": "await ask(Geolocation.prototype.getCurrentPosition);",
    "the watch of the prototype": "await ask(Geolocation.prototype.watchPosition);",
    "call": "await new P((d) => Geolocation.prototype.getCurrentPosition.call(navigator.geolocation, (p) => { note(p); d(); }, d));",
    "bind": "const f = navigator.geolocation.getCurrentPosition.bind(navigator.geolocation); await new P((d) => f((p) => { note(p); d(); }, d));",
    "the getter of the navigator": "await ask(Geolocation.prototype.getCurrentPosition, describe(Navigator.prototype, 'geolocation').get.call(navigator));",
    "high accuracy": "await ask(navigator.geolocation.getCurrentPosition, navigator.geolocation, { enableHighAccuracy: true });",
    "an old position": "await ask(navigator.geolocation.getCurrentPosition, navigator.geolocation, { maximumAge: Infinity, timeout: 0 });",
    "an old position after a new one": ASK
    + "await ask(navigator.geolocation.getCurrentPosition, navigator.geolocation, { maximumAge: Infinity, timeout: 0 });",
    "a hundred calls": "await P.all(Array.from({ length: 100 }, () => ask(navigator.geolocation.getCurrentPosition)));",
    "a call after the page is loaded": "await new P((d) => addEventListener('load', d)); " + ASK,
    "a call in a microtask": "await new P((d) => queueMicrotask(() => ask(navigator.geolocation.getCurrentPosition).then(d)));",
    "a call in a timer": "await later(0);" + ASK,
    "a call of an idle page": "await new P((d) => requestIdleCallback(d));" + ASK,
    "a call in an event handler": "const b = document.createElement('button'); await new P((d) => { b.onclick = () => ask(navigator.geolocation.getCurrentPosition).then(d); b.click(); });",
    "a call in an attribute": "window.go = ask; const b = document.createElement('div'); b.setAttribute('onclick', 'go(navigator.geolocation.getCurrentPosition)'); b.click(); await later(1000);",
    "eval": "await eval('ask(navigator.geolocation.getCurrentPosition)');",
    "new Function": "await new Function('ask', 'return ask(navigator.geolocation.getCurrentPosition)')(ask);",
    "a javascript: address": "window.ask = ask; location.href = 'javascript:void ask(navigator.geolocation.getCurrentPosition)'; await later(1000);",
    "an inserted script": "window.ask = ask; const s = document.createElement('script'); s.textContent = 'ask(navigator.geolocation.getCurrentPosition)'; document.head.append(s); await later(1000);",
    "a module script": "window.ask = ask; const s = document.createElement('script'); s.type = 'module'; s.textContent = 'ask(navigator.geolocation.getCurrentPosition)'; document.head.append(s); await later(1500);",
    "a script at a blob": "window.ask = ask; const s = document.createElement('script'); s.src = URL.createObjectURL(new Blob(['ask(navigator.geolocation.getCurrentPosition)'])); document.head.append(s); await later(1500);",
    "a dynamic import": "window.ask = ask; await import('data:text/javascript,await ask(navigator.geolocation.getCurrentPosition)');",
    "a generator": "function* g() { yield ask(navigator.geolocation.getCurrentPosition); } await g().next().value;",
    "a callback with a proxy": "const f = new Proxy(() => {}, { apply: (t, s, a) => note(a) }); navigator.geolocation.getCurrentPosition(f, f); await later(1500);",
    "an inherited geolocation": "await ask(Geolocation.prototype.getCurrentPosition, Object.create(navigator.geolocation));",
    "a proxy of the geolocation": "await ask(navigator.geolocation.getCurrentPosition, new Proxy(navigator.geolocation, {}));",
    "a proxy of the method": "await ask(new Proxy(Geolocation.prototype.getCurrentPosition, {}));",
    "delete": "delete Geolocation.prototype.getCurrentPosition; delete navigator.geolocation.getCurrentPosition; await ask(navigator.geolocation.getCurrentPosition ?? navigator.geolocation.watchPosition);",
    "delete everything": "for (const n of ownKeys(Geolocation.prototype)) delete Geolocation.prototype[n]; delete window.Geolocation; delete Navigator.prototype.geolocation; note(navigator.geolocation);",
    "redefine": "Object.defineProperty(Geolocation.prototype, 'getCurrentPosition', { value: Geolocation.prototype.watchPosition }); "
    + ASK,
    "another prototype": "const m = Geolocation.prototype.getCurrentPosition; Object.setPrototypeOf(navigator.geolocation, null); await ask(m, navigator.geolocation);",
    "assign": "const m = navigator.geolocation.watchPosition; navigator.geolocation.getCurrentPosition = m; "
    + ASK,
    "clear and watch again": "for (let i = 0; i < 5; i++) navigator.geolocation.clearWatch(navigator.geolocation.watchPosition(note)); "
    + WATCH,
    "constructors": "for (const k of [Geolocation, GeolocationPosition, GeolocationCoordinates]) { try { note(new k()); } catch {} try { note(Reflect.construct(Object, [], k)); } catch {} } "
    + ASK,
    "a subclass": "class X extends GeolocationPosition {} try { note(new X()); } catch {} " + ASK,
    "the page is hidden": "await new P((d) => addEventListener('load', d)); Object.defineProperty(document, 'hidden', { value: true });"
    + ASK,
    "the geolocation element": "const e = document.createElement('geolocation'); e.setAttribute('autolocate', ''); e.setAttribute('watch', ''); body().append(e); e.addEventListener('location', () => note(e.position)); await later(500); note(e.position); note(e.error);"
    + ASK,
    "permission first": "const s = await navigator.permissions.query({ name: 'geolocation' }); note(s.state); s.onchange = note;"
    + ASK,
    "an object of permission": "const s = await navigator.permissions.query({ name: 'geolocation' }); note(s); note(Object.getPrototypeOf(s)); "
    + ASK,
}

# What a page does with the object it gets.
OBJECTS = {
    name: "const p = await ask(navigator.geolocation.getCurrentPosition); if (!p) return; " + body
    for name, body in {
        "JSON": "note(JSON.stringify(p)); note(p.toJSON()); note(p.coords.toJSON());",
        "structured clone": "note(structuredClone(p)); note(structuredClone({ ...p }));",
        "a message": "postMessage({ stolen: p }, '*'); await heard(500);",
        "every getter": "for (const k of [GeolocationPosition, GeolocationCoordinates]) for (const n of ownKeys(k.prototype)) { const d = describe(k.prototype, n); if (d.get) for (const o of [p, p.coords]) { try { note(d.get.call(o)); } catch {} } }",
        "symbols": "for (const s of Object.getOwnPropertySymbols(p)) note(p[s]);",
        "the prototype of the prototype": "note(Object.getPrototypeOf(Object.getPrototypeOf(p.coords)));",
        "the console": "console.debug(p, p.coords); note(String(p)); note(`${p.coords}`);",
        "JSON of another realm": "const f = body().appendChild(frame()); note(f.contentWindow.JSON.stringify(p)); for (const n of ['latitude', 'longitude']) { try { note(describe(f.contentWindow.GeolocationCoordinates.prototype, n).get.call(p.coords)); } catch {} }",
        "a weak map": "const m = new WeakMap([[p, p.coords]]); note(m.get(p));",
        "indexedDB": "const r = indexedDB.open('x' + Math.random()); await new P((d) => { r.onupgradeneeded = () => { r.result.createObjectStore('s'); }; r.onsuccess = d; r.onerror = d; }); try { const t = r.result.transaction('s', 'readwrite').objectStore('s'); t.put(p.toJSON(), 1); await new P((d) => { const g = t.get(1); g.onsuccess = () => { note(g.result); d(); }; g.onerror = d; }); } catch (e) { note(e.message); }",
    }.items()
}

# Functions of the language and of the browser, replaced before the first call. The replacement
# notes whatever passes.
HOOK = """
const hook = (holder, name) => {
  const found = describe(holder, name);
  if (!found) return;
  for (const side of ["value", "get", "set"]) {
    const original = found[side];
    if (typeof original !== "function") continue;
    const made = function (...all) {
      note(all); note(this);
      const result = new.target ? Reflect.construct(original, all) : apply(original, this, all);
      note(result);
      return result;
    };
    try { Object.setPrototypeOf(made, original); if (original.prototype) made.prototype = original.prototype; } catch {}
    Object.defineProperty(holder, name, { ...found, [side]: made });
  }
};
"""
REPLACED = [
    "Reflect.apply", "Reflect.defineProperty", "Reflect.getOwnPropertyDescriptor", "Reflect.ownKeys",
    "Function.prototype.call", "Function.prototype.apply", "Function.prototype.bind",
    "Function.prototype.toString", "Promise.prototype.then", "Promise.resolve", "window.Promise",
    "Array.prototype.push", "Array.prototype.forEach", "Array.prototype.map", "Object.create",
    "Object.defineProperty", "Object.assign", "Object.freeze", "Object.keys", "Object.entries",
    "WeakMap.prototype.get", "WeakMap.prototype.set", "WeakMap.prototype.has", "Map.prototype.get",
    "Map.prototype.set", "WeakSet.prototype.has", "MessagePort.prototype.postMessage",
    "MessagePort.prototype.onmessage", "MessagePort.prototype.start", "MessageEvent.prototype.data",
    "MessageEvent.prototype.ports", "EventTarget.prototype.addEventListener",
    "EventTarget.prototype.dispatchEvent", "JSON.parse", "JSON.stringify", "window.setTimeout",
    "window.Proxy", "window.MessageChannel", "window.structuredClone", "window.queueMicrotask",
    "window.postMessage", "Error.captureStackTrace", "Math.floor", "Math.trunc", "Number.isFinite",
    "window.Number", "String.prototype.slice", "Permissions.prototype.query",
    "Navigator.prototype.geolocation", "Document.prototype.defaultView", "Date.now",
    "GeolocationPosition.prototype.coords", "GeolocationCoordinates.prototype.latitude",
    "GeolocationPosition.prototype.toJSON",
]  # fmt: skip
TAMPERED = {
    f"{name} is replaced": HOOK
    + f"hook({name.rpartition('.')[0]}, '{name.rpartition('.')[2]}');"
    + ASK
    + WATCH
    for name in REPLACED
}
SETTERS = {
    f"a {side} of {holder}": f"""
      for (const name of {names}) {{
        let kept;
        Object.defineProperty({holder}, name, {{ configurable: true,
          get() {{ {"note(this);" if side == "getter" else ""} return kept; }},
          set(value) {{ note(value); note(this); kept = value; }} }});
      }}
    """
    + ASK
    for holder, names in {
        "Object.prototype": "['latitude', 'longitude', 'coords', 'report', 'hear', 'id', 'told', 'position', 'timestamp', 'error', 'state', 'then']",
        "Array.prototype": "['0', '1', '2', '3']",
        "Function.prototype": "['latitude', 'hear', 'call2', 'original']",
    }.items()
    for side in ("setter", "getter")
}
STACKS = {
    "prepareStackTrace": "Error.prepareStackTrace = (e, frames) => { for (const f of frames) { note(f.getThis()); note(f.getFunction()); try { note(f.getFunction().arguments); } catch {} } return ''; };" + ASK + "note(new Error('x').stack);",
    "a getter of the options": "const o = { get timeout() { note(new Error('x').stack); let f = arguments.callee; for (let i = 0; i < 9 && f; i++) { try { note(f.arguments); f = f.caller; } catch { break; } } return 9000; } }; await ask(navigator.geolocation.getCurrentPosition, navigator.geolocation, o);",
    "the callers of the callback": "await new P((d) => navigator.geolocation.getCurrentPosition(function back(p) { note(p); let f = back; for (let i = 0; i < 9 && f; i++) { try { note(f.caller); note(f.arguments); f = f.caller; } catch { break; } } note(this === window ? 0 : this); d(); }, d)); ",
    "an error in the callback": "addEventListener('error', (e) => { note(e.message); note(e.error && e.error.stack); }); navigator.geolocation.getCurrentPosition((p) => { note(p); throw new Error('stop'); }); await later(1500);",
    "too deep a stack": "let n = 0; const deep = () => { n++; try { if (n % 97 === 0) navigator.geolocation.getCurrentPosition(note, note); } catch (e) { note(e.stack); } deep(); }; try { deep(); } catch {} await later(1500);",
}  # fmt: skip
