// Calls to the service: create a job, follow it, fetch its file, delete it. A request holds a
// recipe (places, prior, epsilon), never the position of the pin.

import { SERVICE } from "./state.js";

const FINAL = new Set(["done", "failed", "parked"]);
const SESSION = "whereish-key";
const LONGEST_WAIT_S = 120;
const OUTAGE_MS = 5 * 60_000; // how long to wait for a service that does not answer

/** The service refused a request: its status, its message, and when to try again. */
export class ServiceError extends Error {
  constructor(status, told, retryAfter = null) {
    super(told.message);
    Object.assign(this, { status, code: told.code, field: told.field ?? null, retryAfter });
  }
}
/** The service did not answer. */
export class Unreachable extends Error {}
/** The person cancelled. */
export class Cancelled extends Error {}

let key = null;
try {
  key = sessionStorage.getItem(SESSION);
} catch {
  // Storage may be blocked: the key then lasts until this page is closed.
}

export function setKey(text, keep) {
  key = text;
  try {
    if (keep && text) sessionStorage.setItem(SESSION, text);
    else sessionStorage.removeItem(SESSION);
  } catch {
    // Storage may be blocked, as above.
  }
}

export const hasKey = () => Boolean(key);

async function call(path, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  if (key) headers.Authorization = `Bearer ${key}`;
  let answer;
  try {
    answer = await fetch(path, {
      credentials: "omit", cache: "no-store", redirect: "error", ...options, headers,
    });
  } catch (wrong) {
    if (wrong.name === "AbortError") throw new Cancelled("cancelled");
    throw new Unreachable("The service does not answer.");
  }
  if (answer.ok) return answer;
  const after = Number(answer.headers.get("Retry-After"));
  let told = null;
  try {
    told = (await answer.json()).error;
  } catch {
    // The answer may come from a proxy, which may not send JSON.
  }
  const plain = { code: "unknown", message: `the service answered with status ${answer.status}` };
  throw new ServiceError(answer.status, told?.message ? told : plain,
    Number.isFinite(after) && after > 0 ? after : null);
}

export const about = async () => (await call(SERVICE ? "v1/about" : "about.json")).json();
export const city = async () => (await call("city.json")).json();

// The jobs that the service holds now. All are deleted when the page is left.
const open = new Set();
addEventListener("pagehide", () => {
  for (const id of open) void forget(id, { keepalive: true });
});

/** Delete a job in any state. Resolves to whether the service has deleted it. */
async function forget(id, options = {}) {
  for (let attempt = 0; attempt < 2; attempt++) {
    try {
      await call(`/v1/mechanisms/${id}`, { method: "DELETE", ...options });
      open.delete(id);
      return true;
    } catch (wrong) {
      if (wrong.status === 404) {
        open.delete(id);
        return true;
      }
    }
  }
  return false;
}

/** A build request with an idempotency key: sent twice, it is still built once. */
export const orderOf = (recipe) => ({ body: JSON.stringify(recipe), name: uuid(), id: null });

/** Delete the job of an order that will not be continued. */
export const abandon = ({ id }) => (id && open.has(id) ? forget(id) : Promise.resolve(true));

/**
 * Build an order. `told` is called with every state of the job; `signal` cancels. Resolves to the
 * bytes of the file with and without the prior, and to whether the service has deleted the job. If
 * the service does not answer, the job stays, and a second call with the same order continues it.
 */
export async function build(order, { signal, told = () => {}, askKey }) {
  order.id ??= await post(order, signal, told, askKey);
  try {
    const last = await watch(order.id, signal, told);
    if (last.state !== "done") {
      const failed = { code: last.state, message: "the mechanism could not be built" };
      throw new ServiceError(0, last.error ?? failed);
    }
    const bytes = await patiently(() => fileOf(order.id, signal), signal, told);
    // The same counts without the prior: the person downloads this file and may pass it on.
    const bare = await patiently(() => fileOf(order.id, signal, "?prior=omit"), signal, told);
    return { bytes, bare, forgotten: await forget(order.id) };
  } catch (wrong) {
    const left = signal.aborted || !(wrong instanceof Unreachable);
    if (left) void abandon(order).then((gone) => gone || told({ state: "held" }));
    throw signal.aborted ? new Cancelled("cancelled") : wrong;
  }
}

async function fileOf(id, signal, query = "") {
  const where = `/v1/mechanisms/${id}/file${query}`;
  const answer = await call(where, { signal, headers: { Accept: "*/*" } });
  try {
    return new Uint8Array(await answer.arrayBuffer());
  } catch {
    throw new Unreachable("The download of the file was interrupted.");
  }
}

/** Repeat a request while the service is busy or does not answer, and after two 5xx errors. */
async function patiently(act, signal, told) {
  let since = null;
  for (let stumbled = 0; ; ) {
    try {
      return await act();
    } catch (wrong) {
      if (signal.aborted) throw new Cancelled("cancelled");
      if (wrong.status === 429 || wrong.status === 503) {
        await countDown(Math.min(wrong.retryAfter ?? 1, LONGEST_WAIT_S), signal, told);
        continue;
      }
      since ??= performance.now();
      const away = wrong instanceof Unreachable && performance.now() - since < OUTAGE_MS;
      if (!away && !(wrong.status >= 500 && stumbled++ < 2)) throw wrong;
      if (away) told({ state: "away" });
      await pause(1000, signal);
    }
  }
}

async function post({ body, name }, signal, told, askKey) {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": name };
  for (let lost = 0; ; ) {
    try {
      // This request ignores `signal`: without its id, a new job could not be deleted.
      const { id } = await (await call("/v1/mechanisms", { method: "POST", headers, body })).json();
      open.add(id);
      if (signal.aborted) {
        void forget(id);
        throw new Cancelled("cancelled");
      }
      return id;
    } catch (wrong) {
      if (signal.aborted) throw new Cancelled("cancelled");
      if (wrong.status === 401 && askKey) {
        if (!(await askKey({ refused: hasKey() }))) throw new Cancelled("no key");
      } else if ((wrong.status === 429 || wrong.status === 503) && wrong.retryAfter) {
        await countDown(Math.min(wrong.retryAfter, LONGEST_WAIT_S), signal, told);
      } else if (wrong instanceof Unreachable && lost++ === 0) {
        await pause(500, signal); // Try once more: the same idempotency key builds it once at most.
      } else throw wrong;
    }
  }
}

async function countDown(seconds, signal, told) {
  for (let left = Math.ceil(seconds); left > 0; left--) {
    told({ state: "waiting", left });
    await pause(1000, signal);
  }
}

/** Follow a job to its end by its event stream; if the stream ends early, by polling. */
async function watch(id, signal, told) {
  const where = `/v1/mechanisms/${id}`;
  let last = null;
  const hear = (state) => {
    last = state;
    told(state);
  };
  try {
    const answer = await call(`${where}/events`, {
      signal, headers: { Accept: "text/event-stream" },
    });
    await readEvents(answer.body, hear);
  } catch (wrong) {
    if (signal.aborted) throw new Cancelled("cancelled");
    if (wrong.status === 404) throw wrong;
  }
  while (!last || !FINAL.has(last.state)) {
    hear(await patiently(async () => (await call(where, { signal })).json(), signal, told));
    if (!FINAL.has(last.state)) await pause(1000, signal);
  }
  return last;
}

async function readEvents(stream, hear) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value.replaceAll("\r\n", "\n");
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const data = lines.filter((l) => l.startsWith("data:")).map((l) => l.slice(5).trim());
      const [event] = lines.flatMap((l) => /^event:\s*(\w+)$/.exec(l)?.[1] ?? []);
      if (event === "gone") {
        throw new ServiceError(404, { code: "gone", message: "this job was deleted" });
      }
      if (event === "state") hear(JSON.parse(data.join("\n")));
    }
  }
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(new Cancelled("cancelled"));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}

/** A random UUID. crypto.randomUUID exists in secure contexts only. */
function uuid() {
  const b = crypto.getRandomValues(new Uint8Array(16));
  b[6] = (b[6] & 15) | 64;
  b[8] = (b[8] & 63) | 128;
  const hex = Array.from(b, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** An error as text: what happened and what to do next. `shown`: the page shows a mechanism. */
export function inWords(wrong, shown = false) {
  if (wrong instanceof Unreachable && !SERVICE) {
    return "A file of this page could not be loaded. Check the connection and reload the page.";
  }
  if (wrong instanceof Unreachable) {
    const usable = shown ? " Everything on the screen stays usable." : "";
    return `The service does not answer. Is it still running?${usable}`;
  }
  if (!(wrong instanceof ServiceError)) return sentence(wrong.message || String(wrong));
  const next = {
    401: "Check the key and try again.",
    403: "This key does not allow that: ask the operator of the service.",
    404: "The service no longer has the job: build it again.",
    413: "Use fewer places.",
    429: wrong.retryAfter ? `Try again in ${wrong.retryAfter} s.` : "Try again in a moment.",
    503: "Try again in a moment.",
  }[wrong.status];
  const ours = wrong.status >= 500 ? "Try again. If it fails again, tell the operator." : "";
  return `${sentence(wrong.message)} ${next ?? ours}`.trim();
}

export function sentence(text) {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
