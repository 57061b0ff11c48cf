// Reads a mechanism from the bytes of its file. Everything is checked before it is returned.
import { checkedByTime } from "./by-time.js";
import { checkTexts } from "./checks.js";
import { unpack } from "./container.js";
import { FormatError, GuaranteeError, InputError } from "./errors.js";
import { checkedEverywhere } from "./everywhere.js";
import { checkedMechanism } from "./mechanism.js";
import { bytesOf, has, isHex, optionsOf, pause, toLowerCase, warn } from "./primordials.js";
import { checkSignature, publicKey } from "./signature.js";

const OPTIONS = ["sha256", "key", "warn"];
let warned = false;

/**
 * Read a `.whereish` file and check it: its format, its digest, that every row of counts sums to
 * exactly 2^63, and every ratio of two counts (version 1) or every corner of the lattice (version
 * 2) against the claimed epsilon, in exact arithmetic. A file of version 1 gives a Mechanism, one of
 * version 2 an EverywhereMechanism or a PlanarLaplaceEverywhere, one of version 3 a MechanismByTime: the
 * ratios of the mechanism of every period are checked.
 *
 * An unknown option, or a `sha256` or `key` that is undefined or null, is an InputError.
 *
 * A prior shows how often a person is at each place. If a file holds one, the console warns once.
 *
 * @param source the bytes: an ArrayBuffer or a view of one
 * @param options.sha256 the digest that `whereish audit` prints; a file with another is refused
 * @param options.key the Ed25519 public key that must have signed the file (`whereish sign`): 32
 *   bytes, or these bytes in hexadecimal or base64
 * @param options.warn false for no warning on the console
 */
export async function readMechanism(source, options = {}) {
  const bytes = bytesOf(source); // a copy: the caller cannot change it after the checks
  if (bytes === null) {
    throw new InputError(
      "readMechanism needs the bytes of a file, an ArrayBuffer or Uint8Array, not a name or an " +
        "address: fetch it first, await (await fetch(address)).arrayBuffer()",
    );
  }
  const given = optionsOf(options, OPTIONS);
  if (given === null) {
    throw new InputError("the options of readMechanism must be an object with no other names than sha256, key and warn");
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
        "this is not the pinned file: its digest differs (sha256 must be the digest that whereish " +
          "audit prints, not the digest of all bytes)",
      );
    }
    const signature = checkSignature(file, key);
    if (signature !== null) await signature.settled;
    const signer = signature === null ? null : signature.signer();
    const about = { ...file, signer };
    const version = checkTexts(file.texts);
    let goOn;
    if (version === "3") goOn = checkedByTime(about);
    else goOn = version === "2" ? checkedEverywhere(about) : checkedMechanism(about);
    while ((mechanism = goOn()) === null) await pause(); // so that the page stays responsive
  } catch (wrong) {
    if (wrong instanceof InputError) throw wrong;
    throw new FormatError("not a mechanism: something in it has the wrong type");
  }
  if (mechanism.holdsPrior && (given.warn ?? true) && !warned) {
    warned = true;
    warn(
      "whereish: this file holds a prior, which shows how often a person is at each place. A page " +
        "does not need it. Save the mechanism again without the prior, and serve that file.",
    );
  }
  return mechanism;
}

/** A pin, or null if none is given. An empty pin is refused, because it would check nothing. */
function pinOf(given, name) {
  if (!has(given, name)) return null;
  if ((given[name] ?? null) === null) {
    throw new InputError(`${name} must have a value or be left out, got ${given[name]}: nothing would be checked`);
  }
  return given[name];
}
