// Fetches a mechanism file and reads it.
import { FormatError, InputError } from "./errors.js";
import { readMechanism } from "./file.js";
import { optionsOf } from "./primordials.js";

const OPTIONS = ["sha256", "key", "warn", "signal", "fetch"];
const MOST_BYTES = 1 << 30;

/** A file could not be fetched: no network, another status, or not a file of a mechanism. */
export class FetchError extends Error {
  constructor(message) {
    super(message);
  }
}

/**
 * Fetch a `.whereish` file, check it as `readMechanism` does, and return the mechanism. Pin the file:
 * a host that can send another one can send one with another epsilon.
 *
 * @param address a URL or its text; a relative one is relative to the page
 * @param options.sha256, options.key, options.warn those of `readMechanism`
 * @param options.signal an AbortSignal
 * @param options.fetch the function to use instead of `fetch`
 */
export async function fetchMechanism(address, options = {}) {
  const given = optionsOf(options, OPTIONS);
  if (given === null) {
    throw new InputError(
      `the options of fetchMechanism must be an object with no other names than ${OPTIONS.join(", ")}`,
    );
  }
  const { signal, fetch: get = globalThis.fetch, ...pins } = given;
  if (!(typeof address === "string" || address instanceof URL)) {
    throw new InputError("fetchMechanism needs the address of a file, a text or a URL; for bytes use readMechanism");
  }
  if (typeof get !== "function") throw new InputError("this runtime has no fetch: give one as an option");
  const name = String(address).split(/[?#]/)[0]; // without what may be a secret
  let answer;
  let bytes;
  try {
    // No credentials and no referrer: the host learns that a file was fetched, and nothing else.
    answer = await get(address, { signal, credentials: "omit", referrerPolicy: "no-referrer" });
    if (answer.ok) bytes = await answer.arrayBuffer();
  } catch (wrong) {
    if (signal?.aborted) throw signal.reason;
    throw new FetchError(
      `${name} could not be fetched: is the host reachable, and does it allow this page (CORS, ` +
        `connect-src of the content security policy)? (${wrong?.message ?? "no reason given"})`,
    );
  }
  if (!answer.ok) {
    throw new FetchError(`${name} must be a mechanism file, and the host answered with status ${answer.status}`);
  }
  if (bytes.byteLength > MOST_BYTES) throw new FetchError(`${name} must be at most 1 GB, and it is larger`);
  try {
    return await readMechanism(bytes, pins);
  } catch (wrong) {
    const type = answer.headers?.get?.("content-type") ?? "";
    if (wrong?.constructor === FormatError && type.startsWith("text/")) {
      throw new FormatError(`${name} is a page of text and not a mechanism file: is the address right?`);
    }
    throw wrong;
  }
}
