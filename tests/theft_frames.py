"""More pages that want the true position: by frames, windows, workers, messages and storage."""

from __future__ import annotations

# Kinds of frames of the same origin, by the attributes that make them. /files/ is the site's.
KINDS = {
    "an empty frame": "{}",
    "about:blank": "{ src: 'about:blank' }",
    "srcdoc": "{ srcdoc: '<p>inside' }",
    "a page of the site": "{ src: '/files/plain.html' }",
    "a blob": "{ src: URL.createObjectURL(new Blob(['<p>inside'], { type: 'text/html' })) }",
    "a javascript: address": "{ src: 'javascript:\"<p>inside\"' }",
    "a slow page": "{ src: '/files/missing-' + Math.random() }",
    "a sandbox with the same origin": "{ sandbox: 'allow-scripts allow-same-origin', srcdoc: '<p>inside' }",
    "a lazy frame": "{ loading: 'lazy', src: '/files/plain.html' }",
    "an svg": "{ src: '/files/plain.svg' }",
}
# Ways to a window of frame f, right after it was inserted.
PATHS = {
    "contentWindow": "f.contentWindow",
    "contentDocument": "f.contentDocument.defaultView",
    "index": "window[window.length - 1]",
    "name": "window['inner']",
    "top and parent": "top[top.length - 1].parent[top.length - 1]",
}
FRAMES = {
    f"{kind}, by {path}": f"""
      const f = frame({attributes}); f.name = 'inner'; body().append(f);
      const w = {way}; await steal(w); await later(300); await steal(w);
    """
    for kind, attributes in KINDS.items()
    for path, way in PATHS.items()
}
# Ways to insert a frame f; its window is then reached by its index, which no script can intercept.
INSERTED = {
    "appendChild": "body().appendChild(f);",
    "insertBefore": "body().insertBefore(f, null);",
    "replaceChild": "const d = body().appendChild(document.createElement('p')); body().replaceChild(f, d);",
    "append": "body().append('x', f);",
    "prepend": "body().prepend(f);",
    "before": "const d = body().appendChild(document.createElement('p')); d.before(f);",
    "after": "const d = body().appendChild(document.createElement('p')); d.after(f);",
    "replaceWith": "const d = body().appendChild(document.createElement('p')); d.replaceWith(f);",
    "replaceChildren": "body().replaceChildren(f);",
    "insertAdjacentElement": "body().insertAdjacentElement('beforeend', f);",
    "insertAdjacentHTML": "body().insertAdjacentHTML('beforeend', f.outerHTML);",
    "innerHTML": "body().innerHTML = f.outerHTML;",
    "outerHTML": "const d = body().appendChild(document.createElement('p')); d.outerHTML = f.outerHTML;",
    "setHTMLUnsafe": "body().setHTMLUnsafe(f.outerHTML);",
    "a text before it": "const d = new Text('x'); body().append(d); d.after(f);",
    "insertNode": "body(); const r = document.createRange(); r.selectNodeContents(document.body); r.insertNode(f);",
    "surroundContents": "body().append('text'); const r = document.createRange(); r.selectNodeContents(document.body); const d = document.createElement('div'); d.append(f); r.surroundContents(d); if (!f.isConnected) d.append(f); if (!window.length) body().append(f);",
    "a contextual fragment": "body().append(document.createRange().createContextualFragment(f.outerHTML));",
    "a template": "const t = document.createElement('template'); t.innerHTML = f.outerHTML; body().append(document.importNode(t.content, true));",
    "a fragment": "const d = new DocumentFragment(); d.append(f); body().append(d);",
    "deep inside": "let d = document.createElement('div'); const all = d; for (let i = 0; i < 50; i++) d = d.appendChild(document.createElement('div')); d.append(f); body().append(all);",
    "a new body": "const d = document.createElement('body'); d.append(f); body(); document.body = d;",
    "a caption": "const t = body().appendChild(document.createElement('table')); const d = document.createElement('caption'); d.append(f); t.caption = d;",
    "moveBefore": "const d = body().appendChild(document.createElement('p')); body().append(f); d.moveBefore(f, null);",
    "execCommand": "body().contentEditable = 'true'; body().focus(); getSelection().selectAllChildren(document.body); document.execCommand('insertHTML', false, f.outerHTML); if (!window.length) body().append(f);",
    "a parsed document": "const d = new DOMParser().parseFromString(f.outerHTML, 'text/html'); body().append(document.adoptNode(d.querySelector('iframe')));",
    "another realm's appendChild": "const o = body().appendChild(frame()); o.contentWindow.Node.prototype.appendChild.call(document.body, f);",
    "inside a frame": "const o = body().appendChild(frame()); o.contentDocument.body.append(f); await steal(window[0][0]);",
    "a view transition": "body(); await new P((d) => { try { document.startViewTransition(() => { body().append(f); d(); }); } catch { body().append(f); d(); } });",
}
INSERTIONS = {
    f"a frame by {name}": "const f = frame({ srcdoc: '<p>inside' });"
    + way
    + "await steal(window[window.length - 1]);"
    for name, way in INSERTED.items()
}
# Scripts that run during an insertion, or between insertion and the first look.
DURING = {
    "a custom element next to the frame": """
      let w = null;
      customElements.define('x-thief', class extends HTMLElement { connectedCallback() { w = window[0]; w.stolen = w.Geolocation.prototype.getCurrentPosition; } });
      const d = new DocumentFragment(); d.append(frame({ srcdoc: 'x' }), document.createElement('x-thief'));
      body().append(d); await ask(w.stolen, navigator.geolocation); await ask(w.stolen, w.navigator.geolocation);
    """,
    "a custom element in innerHTML": """
      let w = null;
      customElements.define('x-thief', class extends HTMLElement { connectedCallback() { w = window[0]; w.stolen = w.Geolocation.prototype.getCurrentPosition; } });
      body().innerHTML = '<iframe srcdoc=x></iframe><x-thief></x-thief>';
      await ask(w.stolen, navigator.geolocation); await ask(w.stolen, w.navigator.geolocation);
    """,
    "the load event of an empty frame": """
      const f = frame(); let m = null;
      f.onload = () => { m = window[0].Geolocation.prototype.getCurrentPosition; };
      body().append(f); await later(50); await ask(m, navigator.geolocation); await ask(m, window[0].navigator.geolocation);
    """,
    "an open shadow root": "const s = body().attachShadow({ mode: 'open' }); s.innerHTML = frame({ srcdoc: 'x' }).outerHTML; await steal(s.firstChild.contentWindow);",
    "a closed shadow root": "const f = frame({ srcdoc: 'x' }); body().attachShadow({ mode: 'closed' }).append(f); await steal(f.contentDocument.defaultView);",
    "a frame in a frame in a shadow root": "const f = frame(); body().attachShadow({ mode: 'closed' }).append(f); const w = f.contentWindow; const g = w.document.createElement('iframe'); g.srcdoc = 'x'; w.document.body.append(g); await steal(w[0]);",
    "the same by the method of the page": "const f = frame(); body().attachShadow({ mode: 'closed' }).append(f); const w = f.contentWindow; const g = w.document.createElement('iframe'); g.srcdoc = 'x'; Node.prototype.appendChild.call(w.document.body, g); await steal(w[0]);",
    "the load event in a closed shadow root": """
      const f = frame(); let m = null; const host = body().appendChild(document.createElement('div'));
      f.onload = () => { m = f.contentWindow.Geolocation.prototype.getCurrentPosition; };
      host.attachShadow({ mode: 'closed' }).append(f); await later(50); await ask(m, navigator.geolocation);
    """,
    "a mutation observer": """
      let m = null; new MutationObserver(() => { m = window[0]?.Geolocation.prototype.getCurrentPosition; }).observe(document, { childList: true, subtree: true });
      body().append(frame({ srcdoc: 'x' })); await later(50); await ask(m, navigator.geolocation);
    """,
    "the microtask after a write": """
      body(); document.write('<iframe srcdoc="x"></iframe>'); const m = window[0].Geolocation.prototype.getCurrentPosition;
      await ask(m, navigator.geolocation); await ask(m, window[0].navigator.geolocation);
    """,
    "document.open of the page": "const g = navigator.geolocation; document.open(); document.write('<p>new'); document.close(); await ask(g.getCurrentPosition, g); await ask(navigator.geolocation.watchPosition);",
    "document.write into a frame": """
      const f = body().appendChild(frame()); const told = heard();
      f.contentDocument.open(); f.contentDocument.write(INSIDE); f.contentDocument.close(); await told;
    """,
    "document.open of a frame, by index": "body().append(frame({ srcdoc: 'x' })); const w = window[0]; w.document.open(); w.document.write('<p>'); w.document.close(); await steal(w);",
    "a removed frame": "const f = body().appendChild(frame({ srcdoc: 'x' })); const m = f.contentWindow.Geolocation.prototype.getCurrentPosition, g = f.contentWindow.navigator.geolocation; f.remove(); await ask(m); await ask(Geolocation.prototype.getCurrentPosition, g);",
    "a frame that moves on": "const f = body().appendChild(frame()); const m = f.contentWindow.Geolocation.prototype.watchPosition, g = f.contentWindow.navigator.geolocation; f.src = '/files/plain.html'; await new P((d) => { f.onload = d; wait(d, 2000); }); await ask(m, g); await steal(f.contentWindow);",
    "the method of a frame, the object of the page": "const f = body().appendChild(frame({ srcdoc: 'x' })); await ask(f.contentWindow.Geolocation.prototype.getCurrentPosition);",
    "the method of the page, the object of a frame": "const f = body().appendChild(frame({ srcdoc: 'x' })); await ask(Geolocation.prototype.getCurrentPosition, f.contentWindow.navigator.geolocation);",
    "a saved getter of another frame": "const a = body().appendChild(frame()); const get = describe(a.contentWindow.HTMLIFrameElement.prototype, 'contentWindow').get; const f = body().appendChild(frame({ srcdoc: 'x' })); await steal(get.call(f));",
    "window.length is replaced": "Object.defineProperty(window, 'length', { value: 0 }); body().append(frame({ srcdoc: 'x' })); await steal(window[0]);",
    "a realm prepared before its document": """
      const f = frame({ src: '/files/plain.html' }); body().append(f); const w = f.contentWindow;
      for (const [holder, name] of [[w.Reflect, 'apply'], [w.MessagePort.prototype, 'postMessage'], [w.Function.prototype, 'call']]) {
        const original = holder[name]; holder[name] = function (...all) { for (const one of all) if (typeof one === 'function' && /Position/.test(one.name)) { w.found = one; } return apply(original, this, all); };
      }
      w.addEventListener('whereish-bridge', (e) => { note(e); w.port = e.ports[0]; }, true);
      await new P((d) => { f.onload = d; wait(d, 2000); }); if (w.found) await ask(w.found); await steal(f.contentWindow);
    """,
    "an object element": "const o = document.createElement('object'); o.data = '/files/plain.html'; o.type = 'text/html'; body().append(o); await later(500); await steal(o.contentWindow ?? window[0]);",
    "an object element at once": "const o = document.createElement('object'); o.data = '/files/plain.html'; o.type = 'text/html'; body().append(o); await steal(o.contentWindow ?? window[0] ?? window);",
    "an embed element": "const o = document.createElement('embed'); o.src = '/files/plain.html'; o.type = 'text/html'; body().append(o); await later(500); await steal(window[0]);",
    "a frameset": "document.documentElement.innerHTML = '<frameset cols=*><frame src=about:blank name=inner></frameset>'; await later(200); await steal(window[0]);",
}
# Frames whose own scripts ask, and tell their parent.
TOLD = {
    name: f"const told = heard(); body().append(frame({attributes})); await told;"
    for name, attributes in {
        "a script in srcdoc": "{ srcdoc: INSIDE }",
        "a script in a blob": "{ src: URL.createObjectURL(new Blob([INSIDE], { type: 'text/html' })) }",
        "a script in data:": "{ src: 'data:text/html,' + encodeURIComponent(INSIDE), allow: 'geolocation *' }",
        "a sandboxed srcdoc": "{ sandbox: 'allow-scripts', srcdoc: INSIDE, allow: 'geolocation *' }",
        "a sandboxed page": "{ sandbox: 'allow-scripts', src: '/files/inside.html', allow: 'geolocation *' }",
        "a sandboxed blob": "{ sandbox: 'allow-scripts', src: URL.createObjectURL(new Blob([INSIDE], { type: 'text/html' })), allow: 'geolocation *' }",
        "a frame of another site": "{ src: location.origin.replace('127.0.0.1', 'localhost') + '/files/inside.html', allow: 'geolocation *' }",
        "a frame of another site without leave": "{ src: location.origin.replace('127.0.0.1', 'localhost') + '/files/inside.html' }",
        "a page of this site in a frame": "{ src: '/files/inside.html' }",
        "an svg with a script": "{ src: '/files/inside.svg' }",
        "an xhtml page": "{ src: '/files/inside.xhtml' }",
        "srcdoc in srcdoc": "{ srcdoc: INSIDE.replaceAll('parent', 'parent') + '<iframe srcdoc=\"' + INSIDE.replaceAll('parent', 'top').replaceAll('\"', '&quot;') + '\"></iframe>' }",
        "a refresh to data:": "{ srcdoc: '<meta http-equiv=refresh content=\"0;url=/files/inside.html\">' }",
        "a csp in a frame": "{ srcdoc: '<meta http-equiv=Content-Security-Policy content=\"script-src \\'unsafe-inline\\'\">' + INSIDE }",
    }.items()
}
WINDOWS = {
    "window.open": "const w = open(''); await steal(w); w.close();",
    "window.open about:blank": "const w = open('about:blank', 'x'); await steal(w); await later(200); await steal(w); w.close();",
    "window.open a page": "const w = open('/files/plain.html'); await steal(w); await later(500); await steal(w); w.close();",
    "window.open a blob": "const w = open(URL.createObjectURL(new Blob(['<p>'], { type: 'text/html' }))); await steal(w); await later(500); await steal(w); w.close();",
    "window.open with features": "const w = open('about:blank', 'y', 'popup,width=200,height=200'); await steal(w); w.close();",
    "window.open of another realm": "const f = body().appendChild(frame()); const w = f.contentWindow.open('/files/plain.html'); await steal(w); w.close();",
    "a link to a new window": "const a = document.createElement('a'); a.href = '/files/plain.html'; a.target = 'z'; a.rel = 'opener'; body().append(a); a.click(); const w = open('', 'z'); await steal(w); w.close();",
    "a form to a new window": "const a = document.createElement('form'); a.action = '/files/plain.html'; a.target = 'zz'; body().append(a); a.submit(); const w = open('', 'zz'); await steal(w); w.close();",
    "the opener": "const told = heard(); const w = open('/files/opened.html'); await told; w.close();",
    "a picture in picture window": "try { const w = await documentPictureInPicture.requestWindow(); await steal(w); } catch (e) { note(e.message); }"
    + "await ask(navigator.geolocation.getCurrentPosition);",
}
WORKERS = {
    f"a {name}": f"""
      const code = 'const send = (v) => (self.postMessage ? postMessage(v) : ports.forEach((p) => p.postMessage(v))); const ports = []; self.onconnect = (e) => {{ ports.push(e.ports[0]); go(); }}; const go = () => {{ const g = self.navigator.geolocation; if (!g) send({{ none: typeof Geolocation }}); else g.getCurrentPosition((p) => send([p.coords.latitude, p.coords.longitude]), (e) => send(e.message)); }}; if (self.postMessage) go();';
      const address = URL.createObjectURL(new Blob([code], {{ type: 'text/javascript' }}));
      await new P((d) => {{ wait(d, 1500); {start} }});
    """
    for name, start in {
        "worker": "const w = new Worker(address); w.onmessage = ({ data }) => { note(data); d(); };",
        "module worker": "const w = new Worker(address, { type: 'module' }); w.onmessage = ({ data }) => { note(data); d(); };",
        "shared worker": "const w = new SharedWorker(address); w.port.onmessage = ({ data }) => { note(data); d(); }; w.port.start();",
    }.items()
}
FORGE = """
const { port1, port2 } = new MessageChannel(); port1.onmessage = ({ data }) => note(data); port1.start();
const forge = (w, name = 'whereish-bridge') => w.dispatchEvent(new MessageEvent(name, { ports: [port2] }));
const questions = () => { for (const kind of ['current', 'watch', 'state', 'true', 'off', 'ledger', 'settings', 'mechanism', 'clear', '__proto__', 'constructor'])
  for (const extra of [{}, { level: 'off' }, { site: 'x', maximumAge: 1e18, timeout: -1 }, { allowed: true }]) port1.postMessage({ id: 1, kind, ask: kind, ...extra }); };
"""
MESSAGES = {
    "listening on the window": "for (const n of ['message', 'whereish-bridge', 'whereish-bridge-ready']) addEventListener(n, (e) => { note(e.data); note(e.ports); note(e.detail); }, true); await ask(navigator.geolocation.getCurrentPosition);",
    "every event": "for (const n of ownKeys(window)) if (typeof n === 'string' && n.startsWith('on')) addEventListener(n.slice(2), (e) => { note(e.data); note(e.detail); }, true); await ask(navigator.geolocation.getCurrentPosition);",
    "a forged port": FORGE
    + "forge(window); questions(); await ask(navigator.geolocation.getCurrentPosition); await later(500);",
    "a forged port in a new frame": FORGE
    + "const f = body().appendChild(frame({ srcdoc: '<p>' })); forge(f.contentWindow); await later(20); forge(f.contentWindow); questions(); await later(500); await steal(f.contentWindow);",
    "a forged answer": "for (const n of ['whereish-bridge-ready', 'whereish-bridge']) dispatchEvent(new Event(n)); postMessage({ id: 1, report: { latitude: 1 } }, '*'); await ask(navigator.geolocation.getCurrentPosition);",
    "the interface to extensions": "note(typeof chrome); try { for (const id of ['whereish', location.host]) chrome.runtime.sendMessage(id, { ask: 'position' }, note); } catch (e) { note(e.message); } await ask(navigator.geolocation.getCurrentPosition);",
    "a broadcast channel": "const c = new BroadcastChannel('whereish'); c.onmessage = ({ data }) => note(data); await ask(navigator.geolocation.getCurrentPosition);",
    "shared locks": "note(await navigator.locks.query()); await ask(navigator.geolocation.getCurrentPosition);",
}
STORED = {
    "storage": "await ask(navigator.geolocation.getCurrentPosition); for (const s of [localStorage, sessionStorage]) for (let i = 0; i < s.length; i++) note([s.key(i), s.getItem(s.key(i))]); note(document.cookie); note(await indexedDB.databases()); note(await caches.keys());",
    "globals": "await ask(navigator.geolocation.getCurrentPosition); for (const n of ownKeys(window)) { try { const v = window[n]; if (typeof v !== 'function') note(v); } catch {} }",
    "performance": "await ask(navigator.geolocation.getCurrentPosition); note(performance.getEntries().map((e) => e.name)); note(performance.memory);",
    "attributes of the page": "await ask(navigator.geolocation.getCurrentPosition); note(document.documentElement.outerHTML.replace(/<script[^]*?<.script>/g, ''));",
    "files of the extension": "await ask(navigator.geolocation.getCurrentPosition); for (const file of ['manifest.json', 'page.js', 'options.html']) { try { note(await (await fetch('EXTENSION/' + file)).text()); } catch (e) { note(e.message); } }",
    "a frame of the extension": "const f = body().appendChild(frame({ src: 'EXTENSION/options.html' })); await later(700); try { note(f.contentDocument.documentElement.outerHTML); } catch (e) { note(e.message); } await ask(navigator.geolocation.getCurrentPosition);",
}
# Pages with HTML before the script: the parser has inserted the frames.
PARSED = {
    "a frame from the parser": ("<iframe srcdoc=x></iframe>", "await steal(window[0]);"),
    "an empty frame from the parser": ("<iframe></iframe>", "await steal(window[0]);"),
    "a named frame from the parser": ("<iframe name=inner src=/files/plain.html></iframe>", "await steal(inner);"),
    "a frame in a shadow root from the parser": (
        "<div><template shadowrootmode=closed><iframe srcdoc=x></iframe></template></div>",
        "await steal(window[0] ?? window);",
    ),
    "an object from the parser": ("<object data=/files/plain.html type=text/html></object>", "await later(300); await steal(window[0] ?? window);"),
    "a policy for scripts": (
        "<meta http-equiv=Content-Security-Policy content=\"script-src 'unsafe-inline'; frame-src 'self'\">",
        "await ask(navigator.geolocation.getCurrentPosition); body().append(frame()); await steal(window[0]);",
    ),
    "a base address": ("<base href=https://example.invalid/>", "await ask(navigator.geolocation.getCurrentPosition);"),
    "a script before the head": ("<script>window.early = navigator.geolocation.getCurrentPosition</script>", "await ask(early);"),
    "a frame whose handler asks": ("<script>window.grab = () => { window.early ??= window[0] && window[0].Geolocation.prototype.getCurrentPosition; }</script><iframe srcdoc=x onload=grab()></iframe><img src=data: onerror=grab()>", "grab(); await later(400); await ask(early);"),
}  # fmt: skip
