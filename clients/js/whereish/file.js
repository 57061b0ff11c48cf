// A mechanism from the bytes of its file, checked before anything is returned.
import { unpack } from "./container.js";
import { FormatError, GuaranteeError, InputError } from "./errors.js";
import { checkedMechanism } from "./mechanism.js";
import { has, optionsOf, warn } from "./primordials.js";
import { checkSignature, publicKey } from "./signature.js";

const OPTIONS = ["sha256", "key", "warn"];
let warned = false;

/**
 * Read a `.whereish` file and check it: its form, its digest, that every row of counts sums to
 * exactly 2^63, and every ratio of two of them against the epsilon it claims, exactly.
 *
 * An option of another name, or a `sha256` or `key` that is undefined or null, is an InputError.
 *
 * A file that holds a prior is a map of somebody's life: the console says so, once.
 *
 * @param source the bytes: an ArrayBuffer or a view of one
 * @param options.sha256 the digest that `whereish audit` prints, if it must be that very file
 * @param options.key the Ed25519 public key that must have signed it (`whereish sign`): 32 bytes,
 *   or those in hexadecimal or base64
 * @param options.warn false to say nothing on the console
 */
export async function readMechanism(source, options = {}) {
  const bytes = asBytes(source);
  const given = optionsOf(options, OPTIONS);
  if (given === null) {
    throw new InputError("the options of readMechanism must be an object with sha256, key or warn, and no other");
  }
  // A pin that is there and empty is a mistake: to go on without it would be to check nothing.
  for (const name of ["sha256", "key"]) {
    if (has(given, name) && (given[name] ?? null) === null) {
      throw new InputError(`${name} must be given or left out, got ${given[name]}: nothing would be checked`);
    }
  }
  const pinned = given.sha256 ?? null;
  const key = given.key === undefined ? null : publicKey(given.key);
  if (pinned !== null && !(typeof pinned === "string" && /^[0-9a-f]{64}$/i.test(pinned))) {
    throw new InputError("sha256 must be the 64 hexadecimal digits that whereish audit prints");
  }
  let mechanism;
  try {
    const file = unpack(bytes);
    if (pinned !== null && file.digest !== pinned.toLowerCase()) {
      throw new GuaranteeError(
        "this is not the file that was pinned: its digest is another (it is the one that whereish " +
          "audit prints, not that of all bytes)",
      );
    }
    const signer = await checkSignature(file, key);
    mechanism = await checkedMechanism({ ...file, signer });
  } catch (wrong) {
    if (wrong instanceof InputError) throw wrong;
    throw new FormatError("not a mechanism: something in it is not of the kind it must be");
  }
  if (mechanism.holdsPrior && (given.warn ?? true) && !warned) {
    warned = true;
    warn(
      "whereish: this file holds a prior, which is a map of somebody's life: how often they are " +
        "where. A page does not need it. Save the mechanism again without it, and serve that.",
    );
  }
  return mechanism;
}

function asBytes(source) {
  // A plain Uint8Array: node's Buffer has another idea of what a slice is. And a copy: what is
  // checked must be what is kept.
  if (ArrayBuffer.isView(source)) {
    return new Uint8Array(source.buffer, source.byteOffset, source.byteLength).slice();
  }
  const kind = Object.prototype.toString.call(source);
  if (kind === "[object ArrayBuffer]" || kind === "[object SharedArrayBuffer]") {
    return new Uint8Array(source).slice();
  }
  throw new InputError(
    "readMechanism needs the bytes of a file, an ArrayBuffer or Uint8Array, not a name or an " +
      "address: fetch it first, await (await fetch(address)).arrayBuffer()",
  );
}
