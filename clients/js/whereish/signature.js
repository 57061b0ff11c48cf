// Who vouches for a file: an Ed25519 signature of its digest, made by `whereish sign`.
import { FormatError, GuaranteeError, InputError } from "./errors.js";
import { ascii, verifyEd25519 } from "./primordials.js";

const P = (1n << 255n) - 19n;
const DOMAIN = "whereish mechanism signature v1\n";

/**
 * Check that a key has signed a file; return the key in hexadecimal digits, or null without one.
 * Without a key to check it with a signature says nothing, and is not looked at.
 */
export async function checkSignature({ texts, digest }, wanted) {
  for (const [name, length] of [["signature", 128], ["signer", 64]]) {
    if (name in texts && !new RegExp(`^[0-9a-f]{${length}}$`).test(texts[name])) {
      throw new FormatError(`its ${name} must be ${length} hexadecimal digits`);
    }
  }
  if ("signature" in texts !== "signer" in texts) {
    throw new FormatError("a signature and its signer come together");
  }
  if (wanted === null) return null;
  const name = Array.from(wanted, (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (!("signature" in texts)) throw new GuaranteeError("the file is not signed, and a key was asked for");
  if (texts.signer !== name) throw new GuaranteeError("the file is signed by another key than was asked for");
  let good;
  try {
    if (!verifyEd25519) throw new Error("there is no WebCrypto here: it needs https or localhost");
    good = await verifyEd25519(wanted, fromHex(texts.signature), ascii(DOMAIN + digest));
  } catch (wrong) {
    throw new InputError(`this runtime cannot check an Ed25519 signature, so the file is refused: ${wrong.message}`);
  }
  if (good !== true) throw new GuaranteeError("the signature does not hold: the key has not signed this file");
  return name;
}

const fromHex = (text) => Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));

/** The 32 bytes of a public key in any of its forms. */
export function publicKey(key) {
  let bytes = null;
  if (ArrayBuffer.isView(key)) bytes = new Uint8Array(key.buffer, key.byteOffset, key.byteLength).slice();
  else if (key instanceof ArrayBuffer) bytes = new Uint8Array(key).slice();
  else if (typeof key === "string" && /^[0-9a-f]{64}$/i.test(key)) bytes = fromHex(key);
  else if (typeof key === "string" && /^[A-Za-z0-9+/_-]{43}=?$/.test(key)) {
    const plain = key.replaceAll("-", "+").replaceAll("_", "/");
    bytes = Uint8Array.from(atob(plain), (letter) => letter.charCodeAt(0));
  }
  if (bytes?.length !== 32) {
    throw new InputError("key must be an Ed25519 public key: 32 bytes, or those in hexadecimal or base64");
  }
  if (isSmallOrder(bytes)) {
    throw new InputError("key must be an Ed25519 public key that whereish sign printed: this one has small order, anybody can sign for it");
  }
  return bytes;
}

/**
 * Whether 8 times the point is the neutral one: its y is 1 or -1 (order 1, 2), 0 (order 4), or that
 * of a point whose double has y = 0 (order 8). The sign of x does not matter, nor that y is below P.
 */
function isSmallOrder(bytes) {
  let y = 0n;
  for (let i = 31; i >= 0; i--) y = (y << 8n) | BigInt(i === 31 ? bytes[i] & 127 : bytes[i]);
  const square = (y * y) % P;
  const doubled = 121665n * square * square - 243332n * square + 121666n;
  return (y * (square - 1n) * doubled) % P === 0n;
}
