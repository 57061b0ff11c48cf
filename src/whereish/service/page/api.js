// The service: a mechanism is asked for, watched while it is built, fetched, and forgotten there.
// What goes over the wire is a recipe (places, prior, level); never where the pin is.

const FINAL = new Set(["done", "failed", "parked"]);
const SESSION = "whereish-key";
const LONGEST_WAIT_S = 120;
const OUTAGE_MS = 5 * 60_000; // how long a service that does not answer is waited for

/** The service said no: what it said, and what to do next. */
export class ServiceError extends Error {
  constructor(status, told, retryAfter = null) {
    super(told.message);
    Object.assign(this, { status, code: told.code, field: told.field ?? null, retryAfter });
  }
}
/** There was no answer at all. */
export class Unreachable extends Error {}
/** The person changed their mind. */
export class Cancelled extends Error {}

let key = null;
try {
  key = sessionStorage.getItem(SESSION);
} catch {
  // Storage may be forbidden: then a key is for this page only.
}

export function setKey(text, keep) {
  key = text;
  try {
    if (keep && text) sessionStorage.setItem(SESSION, text);
    else sessionStorage.removeItem(SESSION);
  } catch {
    // As above.
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
    // A proxy in between need not speak JSON.
  }
  const plain = { code: "unknown", message: `the service answered ${answer.status}` };
  throw new ServiceError(answer.status, told?.message ? told : plain,
    Number.isFinite(after) && after > 0 ? after : null);
}

export const about = async () => (await call("/v1/about")).json();
export const city = async () => (await call("/city.json")).json();

// Jobs that are on the service now: all are deleted when the page is left.
const open = new Set();
addEventListener("pagehide", () => {
  for (const id of open) void forget(id, { keepalive: true });
});

/** Delete a job, whatever state it is in; tell whether the service has forgotten it. */
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

/** Something to be built, under one name: it is built once, however often it is asked for. */
export const orderOf = (recipe) => ({ body: JSON.stringify(recipe), name: uuid(), id: null });

/** An order that nobody will take up again: the service is told to forget what it has of it. */
export const abandon = ({ id }) => (id && open.has(id) ? forget(id) : Promise.resolve(true));

/**
 * Have an order built: `told` hears every state on the way; `signal` cancels. Returns the bytes of
 * its file, and whether the service has forgotten the rest. Where the service does not answer,
 * the order stays, and can be taken up again.
 */
export async function build(order, { signal, told = () => {}, askKey }) {
  order.id ??= await post(order, signal, told, askKey);
  try {
    const last = await watch(order.id, signal, told);
    if (last.state !== "done") {
      const { error } = last;
      throw new ServiceError(0, error ?? { code: last.state, message: "it could not be built" });
    }
    const bytes = await patiently(() => fileOf(order.id, signal), signal, told);
    // The same counts without the prior: what is downloaded, and may end up anywhere.
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
    throw new Unreachable("The file broke off.");
  }
}

/** Do something again where the service is busy, away for a while, or stumbles once. */
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
      // Not aborted half-way: a job that nobody knows the name of could not be deleted.
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
        await pause(500, signal); // Once more, under the same name: it is built once at most.
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

/** Follow a job to its end by its events; where they break off, by asking. */
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
        throw new ServiceError(404, { code: "gone", message: "somebody has deleted this job" });
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

/** crypto.randomUUID is for secure contexts only; this is the same. */
function uuid() {
  const b = crypto.getRandomValues(new Uint8Array(16));
  b[6] = (b[6] & 15) | 64;
  b[8] = (b[8] & 63) | 128;
  const hex = Array.from(b, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** One sentence for people: what happened, and what to do next; `shown`: there is something. */
export function inWords(wrong, shown = false) {
  if (wrong instanceof Unreachable) {
    const usable = shown ? " What is on the screen stays usable." : "";
    return `The service does not answer. Is it still running?${usable}`;
  }
  if (!(wrong instanceof ServiceError)) return sentence(wrong.message || String(wrong));
  const next = {
    401: "Check the key and try again.",
    403: "This key may not do that: ask whoever runs the service.",
    404: "It is gone from the service: build it again.",
    413: "Use fewer places.",
    429: wrong.retryAfter ? `Try again in ${wrong.retryAfter} s.` : "Try again in a moment.",
    503: "Try again in a moment.",
  }[wrong.status];
  const ours = wrong.status >= 500 ? "Try again; if it stays so, tell whoever runs it." : "";
  return `${sentence(wrong.message)} ${next ?? ours}`.trim();
}

export function sentence(text) {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
