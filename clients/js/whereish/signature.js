// The Ed25519 signature of a file's digest, made by `whereish sign`.
import { FormatError, GuaranteeError, InputError } from "./errors.js";
import {
  ascii, bytesOf, charCodeAt, fromHex, hex, isHex, lengthOf, toBigInt, toLowerCase, U8, verifyEd25519,
} from "./primordials.js";

const P = (1n << 255n) - 19n;
const DOMAIN = "whereish mechanism signature v1\n";

/**
 * Begin to check that a key has signed a file. Without a key, only the form of a signature is
 * checked, and the result is null. Otherwise `settled` is a promise; after it, `signer` returns the
 * key in hexadecimal digits, or throws if that key has not signed the file.
 */
export function checkSignature({ texts, digest }, wanted) {
  const { signature, signer } = texts;
  if (signature !== undefined && !isHex(signature, 128)) fail("its signature must be 128 hexadecimal digits");
  if (signer !== undefined && !isHex(signer, 64)) fail("its signer must be 64 hexadecimal digits");
  if ((signature === undefined) !== (signer === undefined)) fail("a signature and its signer come together");
  if (wanted === null) return null;
  const name = hex(wanted);
  if (signature === undefined) throw new GuaranteeError("the file is not signed, and a key was given");
  if (signer !== name) throw new GuaranteeError("the file is signed by another key than the given one");
  if (!verifyEd25519) cannot("there is no WebCrypto here: it needs https or localhost");
  const found = verifyEd25519(wanted, fromHex(signature), ascii(DOMAIN + digest));
  return {
    settled: found.settled,
    signer() {
      if (found.done !== true) cannot(found.wrong?.message ?? "WebCrypto gave no answer");
      if (found.good !== true) {
        throw new GuaranteeError("the signature does not hold: the key has not signed this file");
      }
      return name;
    },
  };
}

function fail(words) {
  throw new FormatError(words);
}

function cannot(why) {
  throw new InputError(`this runtime cannot check an Ed25519 signature, so the file is refused: ${why}`);
}

/** The 32 bytes of a public key, from bytes, hexadecimal or base64. */
export function publicKey(key) {
  const bytes = typeof key === "string" ? fromText(key) : bytesOf(key);
  if (bytes === null || lengthOf(bytes) !== 32) {
    throw new InputError("key must be an Ed25519 public key: 32 bytes, or those in hexadecimal or base64");
  }
  if (isSmallOrder(bytes)) {
    throw new InputError("key must be an Ed25519 public key that whereish sign printed: this one has small order, so anyone can sign for it");
  }
  return bytes;
}

/** The bytes of a key in hexadecimal or base64 (either alphabet), or null for another string. */
function fromText(text) {
  if (text.length === 64) {
    const plain = toLowerCase(text);
    return isHex(plain, 64) ? fromHex(plain) : null;
  }
  if (text.length !== 43 && !(text.length === 44 && text[43] === "=")) return null;
  const bytes = new U8(32);
  let held = 0;
  let bits = 0;
  let at = 0;
  for (let i = 0; i < 43; i++) {
    const value = sixBits(charCodeAt(text, i));
    if (value < 0) return null;
    held = ((held << 6) | value) & 0x3fff;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes[at++] = held >> bits;
  }
  return bytes;
}

function sixBits(code) {
  if (code >= 65 && code <= 90) return code - 65; // A to Z
  if (code >= 97 && code <= 122) return code - 71; // a to z
  if (code >= 48 && code <= 57) return code + 4; // 0 to 9
  if (code === 43 || code === 45) return 62; // + or -
  return code === 47 || code === 95 ? 63 : -1; // / or _
}

/**
 * Whether 8 times the point is the neutral element: its y is 1 or -1 (order 1, 2), 0 (order 4), or
 * its double has y = 0 (order 8). The sign of x does not matter, and y need not be below P.
 */
function isSmallOrder(bytes) {
  let y = 0n;
  for (let i = 31; i >= 0; i--) y = (y << 8n) | toBigInt(i === 31 ? bytes[i] & 127 : bytes[i]);
  const square = (y * y) % P;
  const doubled = 121665n * square * square - 243332n * square + 121666n;
  return (y * (square - 1n) * doubled) % P === 0n;
}
