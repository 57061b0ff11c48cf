// A mechanism from the bytes of its file, checked before anything is returned.
import { unpack } from "./container.js";
import { FormatError, GuaranteeError, InputError } from "./errors.js";
import { checkedMechanism } from "./mechanism.js";
import { bytesOf, has, isHex, optionsOf, pause, toLowerCase, warn } from "./primordials.js";
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
  const bytes = bytesOf(source); // a copy: what is checked must be what is kept
  if (bytes === null) {
    throw new InputError(
      "readMechanism needs the bytes of a file, an ArrayBuffer or Uint8Array, not a name or an " +
        "address: fetch it first, await (await fetch(address)).arrayBuffer()",
    );
  }
  const given = optionsOf(options, OPTIONS);
  if (given === null) {
    throw new InputError("the options of readMechanism must be an object with sha256, key or warn, and no other");
  }
  const key = pinOf(given, "key") === null ? null : publicKey(given.key);
  const said = pinOf(given, "sha256");
  const pinned = typeof said === "string" ? toLowerCase(said) : said;
  if (pinned !== null && !isHex(pinned, 64)) {
    throw new InputError("sha256 must be the 64 hexadecimal digits that whereish audit prints");
  }
  let mechanism;
  try {
    const file = unpack(bytes);
    if (pinned !== null && file.digest !== pinned) {
      throw new GuaranteeError(
        "this is not the file that was pinned: its digest is another (it is the one that whereish " +
          "audit prints, not that of all bytes)",
      );
    }
    const signature = checkSignature(file, key);
    if (signature !== null) await signature.settled;
    const signer = signature === null ? null : signature.signer();
    const goOn = checkedMechanism({ ...file, signer });
    while ((mechanism = goOn()) === null) await pause(); // a page stays alive meanwhile
  } catch (wrong) {
    if (wrong instanceof InputError) throw wrong;
    throw new FormatError("not a mechanism: something in it has the wrong type");
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

/** A pin, or null where none is given. A pin that is there and empty would check nothing. */
function pinOf(given, name) {
  if (!has(given, name)) return null;
  if ((given[name] ?? null) === null) {
    throw new InputError(`${name} must be given or left out, got ${given[name]}: nothing would be checked`);
  }
  return given[name];
}
