"""What a page sees of the extension's functions, next to the browser's own: the same.

Every expression is evaluated in a page of a browser with the extension and of one without.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from extensions import browser, built
from littlesite import CHROMIUM, site
from test_extension import WASM

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium"),
    pytest.mark.skipif(not WASM.exists(), reason="the solver is not built: make core"),
    pytest.mark.heavy,
]
HELPERS = """
  const G = Geolocation.prototype, geo = navigator.geolocation;
  const describe = (o, n) => { const d = Object.getOwnPropertyDescriptor(o, n);
    return d && [d.configurable, d.enumerable, d.writable, typeof d.value, typeof d.get, typeof d.set]; };
  const error = (act) => { try { act(); return 'none'; } catch (e) { return [e.constructor.name, e.message, e instanceof TypeError]; } };
  const position = () => new Promise((done) => geo.getCurrentPosition(done, done));
  const shape = (o) => [Object.prototype.toString.call(o), Object.getPrototypeOf(o).constructor.name, Reflect.ownKeys(o)];
"""
METHODS = ["getCurrentPosition", "watchPosition", "clearWatch"]
BAD = [
    "", "1", "null", "undefined", "{}", "'x'", "Symbol()", "() => {}, 1", "() => {}, {}", "() => {}, 'x'",
    "() => {}, null, 1", "() => {}, undefined, 'x'", "() => {}, () => {}, true",
    "() => {}, null, { timeout: Symbol() }", "() => {}, null, { timeout: 1n }",
    "() => {}, null, { maximumAge: Symbol() }", "() => {}, null, { get timeout() { throw new RangeError('mine'); } }",
]  # fmt: skip
HOOKED = [
    "Node.prototype.appendChild", "Element.prototype.append", "Element.prototype.insertAdjacentHTML",
    "Document.prototype.write", "Range.prototype.insertNode", "window.open",
    "Function.prototype.toString", "Permissions.prototype.query",
    "GeolocationPosition.prototype.toJSON",
]  # fmt: skip
ACCESSORS = [
    ("HTMLIFrameElement", "contentWindow"), ("Element", "innerHTML"), ("Document", "body"),
    ("GeolocationPosition", "coords"), ("GeolocationCoordinates", "latitude"),
    ("GeolocationPositionError", "code"), ("PermissionStatus", "state"),
]  # fmt: skip
SAME = {
    **{f"{m} {what}": script.replace("METHOD", m) for m in METHODS for what, script in {
        "descriptor": "describe(G, 'METHOD')",
        "name and length": "[G.METHOD.name, G.METHOD.length]",
        "own keys": "Reflect.ownKeys(G.METHOD)",
        "text": "G.METHOD.toString()",
        "text by Function.prototype": "Function.prototype.toString.call(G.METHOD)",
        "text of a text": "G.METHOD.toString.toString()",
        "prototype": "['prototype' in G.METHOD, Object.getPrototypeOf(G.METHOD) === Function.prototype]",
        "new": "error(() => new G.METHOD(() => {}))",
        "extends": "(() => { const e = error(() => { class X extends G.METHOD {} }); return [e[0], /\\[native code\\]/.test(e[1])]; })()",
        "wrong this": "[{}, null, undefined, 1, window, G].map((o) => error(() => G.METHOD.call(o, () => {})))",
        "wrong this and arguments": "[{}, null].map((o) => error(() => G.METHOD.call(o)))",
        "native text in a fresh realm": "(() => { const f = document.body.appendChild(document.createElement('iframe')); const t = f.contentWindow.Function.prototype.toString.call(G.METHOD); f.remove(); return t.includes('[native code]'); })()",
        "in a frame": "(() => { const f = document.body.appendChild(document.createElement('iframe')); const w = f.contentWindow; const t = w.Geolocation.prototype.METHOD; const r = [t.name, t.length, t instanceof w.Function, w.Function.prototype.toString.call(t), t === G.METHOD]; f.remove(); return r; })()",
    }.items()},
    **{f"{m}({bad})": f"error(() => geo.{m}({bad}))" for m in METHODS[:2] for bad in BAD},
    **{f"clearWatch({bad})": f"error(() => geo.clearWatch({bad}))" for bad in ("", "1n", "Symbol()", "'a'", "NaN", "-1", "1e30")},
    "keys of the prototype": "Reflect.ownKeys(G).map(String)",
    "keys of the object": "[Reflect.ownKeys(geo), Object.getPrototypeOf(geo) === G]",
    "order of options": "(() => { const o = []; geo.getCurrentPosition(() => {}, null, new Proxy({}, { get: (t, n) => { o.push(String(n)); } })); return o; })()",
    "options are converted at once": "(() => { const o = []; const n = (x) => ({ valueOf() { o.push(x); return 1; } }); geo.getCurrentPosition(() => {}, null, { timeout: n('t'), maximumAge: n('m'), enableHighAccuracy: n('e') }); return o; })()",
    "returns": "[geo.getCurrentPosition(() => {}), typeof geo.watchPosition(() => {}), geo.clearWatch(99)]",
    "watch numbers": "[geo.watchPosition(() => {}), geo.watchPosition(() => {})].map((n, i, all) => n - all[0])",
    "a callback comes later": "(async () => { let here = true; const p = new Promise((d) => geo.getCurrentPosition(() => d(here), () => d(here))); here = false; return await p; })()",
    "shape of a position": "position().then((p) => [shape(p), shape(p.coords), p instanceof GeolocationPosition, p.coords instanceof GeolocationCoordinates])",
    "JSON of a position": "position().then((p) => [Object.keys(p.toJSON()), Object.keys(p.coords.toJSON()), JSON.stringify(p).replace(/[\\d.]+/g, 'n').replace('null', 'n')])",
    "types of a position": "position().then((p) => [typeof p.timestamp, typeof p.coords.accuracy, p.coords.altitude, p.coords.altitudeAccuracy, p.coords.heading, p.coords.speed, p.coords === p.coords])",
    "assignments to a position": "position().then((p) => { p.timestamp = 5; p.coords.latitude = 7; return [p.timestamp === 5, p.coords.latitude === 7]; })",
    "getters on other objects": "['coords', 'timestamp'].map((n) => error(() => Object.getOwnPropertyDescriptor(GeolocationPosition.prototype, n).get.call({})))",
    "toJSON on other objects": "error(() => GeolocationPosition.prototype.toJSON.call({}))",
    "constructors": "[Geolocation, GeolocationPosition, GeolocationCoordinates, GeolocationPositionError].map((k) => error(() => new k()))",
    "constants of errors": "Object.entries(Object.getOwnPropertyDescriptors(GeolocationPositionError.prototype)).map(([n, d]) => [n, d.value === undefined ? null : String(d.value).slice(0, 20)])",
    "permission": "navigator.permissions.query({ name: 'geolocation' }).then((s) => [s.state, s.name, shape(s)])",
    "permission of others": "navigator.permissions.query({ name: 'notifications' }).then((s) => [s.state, s.name])",
    "permission of nothing": "navigator.permissions.query({ name: 'nothing' }).then(() => 0, (e) => [e.constructor.name, e.message])",
    "permission without arguments": "navigator.permissions.query().then(() => 0, (e) => [e.constructor.name, e.message])",
    "permission returns a promise": "navigator.permissions.query({ name: 'geolocation' }) instanceof Promise",
    "globals": "Object.getOwnPropertyNames(window).filter((n) => !/^(webkit|chrome|\\d)/.test(n) && !/playwright/i.test(n)).sort().length",
    "events of the page": "(() => { let n = 0; for (const k of ['whereish-bridge', 'whereish-bridge-ready', 'message']) addEventListener(k, () => n++); return new Promise((d) => geo.getCurrentPosition(() => d(n), () => d(n))); })()",
    "no id in a stack of a bad call": "(() => { try { geo.getCurrentPosition(); } catch (e) { return /extension|page\\.js|bridge/.test(e.stack); } })()",
    "no id in a stack of a getter": "(() => { let s; geo.getCurrentPosition(() => {}, null, { get timeout() { s = new Error('x').stack; } }); return /extension|page\\.js|bridge/.test(s); })()",
    "no id in a stack of a callback": "new Promise((d) => geo.getCurrentPosition(() => d(/extension|page\\.js|bridge/.test(new Error('x').stack))))",
    "stack of a bad call": "(() => { try { geo.getCurrentPosition(); } catch (e) { return e.stack.split('\\n')[1].includes('getCurrentPosition'); } })()",
    "stack of a callback": "new Promise((d) => geo.getCurrentPosition(() => d(new Error('x').stack.split('\\n').length)))",
    **{f"{name} text": f"[{name}.toString(), {name}.name, {name}.length, Reflect.ownKeys({name})]" for name in HOOKED},
    **{f"{kind}.{name} accessor": f"(() => {{ const d = Object.getOwnPropertyDescriptor({kind}.prototype, '{name}'); return [describe({kind}.prototype, '{name}'), d.get.name, d.get.toString(), d.set && d.set.toString(), Reflect.ownKeys(d.get)]; }})()" for kind, name in ACCESSORS},
}  # fmt: skip


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], ...]]:
    extension = built(tmp_path_factory.mktemp("built"))
    with site() as address:
        found = []
        for loaded in (None, extension):
            with browser(loaded) as open_browser:
                if loaded is not None:
                    open_browser.set_up(levels={address.rstrip("/"): "neighbourhood"})
                    open_browser.set_true()
                page = open_browser.context.new_page()
                page.goto(address)
                script = (
                    "(async (s) => { try { return await eval('{' + s + '}'); }"
                    " catch (e) { return ['threw', e.message]; } })"
                )
                # Each in a page of its own: none sees what another has done.
                told = {}
                for name, expression in SAME.items():
                    page.goto(address)
                    told[name] = page.evaluate(f"{script}({json.dumps(HELPERS + expression)})")
                found.append(told)
        yield tuple(found)


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(SAME))
def test_a_page_sees_the_same(answers: tuple[dict[str, Any], ...], name: str) -> None:
    native, ours = (one[name] for one in answers)
    assert native[:1] != ["threw"] if isinstance(native, list) else True
    assert ours == native
