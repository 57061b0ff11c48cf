// Runs in the isolated world of every frame: the page cannot reach it. It passes the questions of
// page.js to the background, and reports back. It has no position and no ledger, and trusts nothing
// that comes from the page: the browser tells the background which site asks.
(() => {
  "use strict";
  const api = globalThis.browser ?? globalThis.chrome;
  const HELLO = "whereish-bridge";
  const POLL_MS = 10_000; // of a watch: a report stays the same until the device has moved
  const AGAIN_MS = 300; // a background that was stopped in the middle is asked again
  const TRIES = 200;
  let port = null;
  const watches = new Map(); // number -> { timer, seen, wish }

  const whole = (value, otherwise) => (Number.isFinite(value) && value >= 0 ? value : otherwise);

  /** Whether the page may use geolocation here at all: a secure origin, and the Permissions Policy. */
  function allowed() {
    if (!isSecureContext) return false;
    const policy = document.permissionsPolicy ?? document.featurePolicy;
    return policy ? policy.allowsFeature("geolocation") : null; // null: the background decides
  }

  // Equal questions at the same time are one question: a page cannot flood the background.
  const asked = new Map();
  function ask(message) {
    const key = JSON.stringify(message);
    if (!asked.has(key)) asked.set(key, send(message).finally(() => asked.delete(key)));
    return asked.get(key);
  }

  async function send(message) {
    for (let tried = 0; tried < TRIES; tried++) {
      try {
        const told = await api.runtime.sendMessage({ ...message, allowed: allowed() });
        if (told) return told;
      } catch {
        if (!api.runtime?.id) break; // the extension was removed or updated
      }
      await new Promise((done) => setTimeout(done, AGAIN_MS));
    }
    return message.ask === "state" ? { state: "denied" } : { error: 2 };
  }

  const wishOf = ({ maximumAge, timeout }) => ({
    ask: "position", maximumAge: whole(maximumAge, 0), timeout: whole(timeout, 0xffffffff),
  });

  async function look(id) {
    const watch = watches.get(id);
    if (!watch || watch.busy) return;
    watch.busy = true;
    const told = await ask(watch.wish);
    watch.busy = false;
    watch.wish.maximumAge = 0;
    if (!watches.has(id)) return;
    const { timestamp, ...where } = told.report ?? { error: told.error };
    const seen = JSON.stringify(where);
    if (seen === watch.seen) return; // the same report is not told twice
    watch.seen = seen;
    port.postMessage({ id, ...told });
    if (told.error === 1) end(id);
  }

  function end(id) {
    clearInterval(watches.get(id)?.timer);
    watches.delete(id);
  }

  async function hear({ data }) {
    const { id, kind } = data ?? {};
    if (!Number.isSafeInteger(id)) return;
    if (kind === "current") port.postMessage({ id, ...(await ask(wishOf(data))) });
    else if (kind === "state") port.postMessage({ id, ...(await ask({ ask: "state" })) });
    else if (kind === "clear") end(id);
    else if (kind === "watch" && !watches.has(id)) {
      watches.set(id, { timer: setInterval(() => look(id), POLL_MS), seen: null, wish: wishOf(data) });
      look(id);
    }
  }

  addEventListener(HELLO, function meet(event) {
    const offered = event.ports?.[0];
    if (!offered || port) return;
    event.stopImmediatePropagation();
    removeEventListener(HELLO, meet, true);
    port = offered;
    port.onmessage = hear;
  }, true);
  dispatchEvent(new Event(`${HELLO}-ready`));
})();
