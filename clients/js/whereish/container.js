// The container of a mechanism: safetensors, read as strictly as the Python library reads it
// (release/container.py). Only what that would have written is taken, byte for byte.
import { FormatError } from "./errors.js";
import { ascii, create, hex, isArray, isSafeInteger, keys, parse, stringify } from "./primordials.js";
import { joined, sha256 } from "./sha256.js";

const LONGEST_HEADER = 1 << 20;
const TYPES = { __proto__: null, U64: BigUint64Array, F64: Float64Array, I32: Int32Array };
// Neither the digest nor who vouches for it is part of what is digested.
const BESIDE = ["sha256", "signature", "signer"];

/** JSON exactly as the library writes it: no spaces, nothing but ASCII. */
function canonical(value) {
  return stringify(value).replace(
    /[\u0080-\uffff]/g,
    (mark) => "\\u" + mark.charCodeAt(0).toString(16).padStart(4, "0"),
  );
}

const isObject = (value) => value !== null && typeof value === "object" && !isArray(value);

/** Parse JSON that must be an object; no object in it may name anything twice. */
export function parseObject(text, what) {
  let told;
  try {
    told = parse(text);
  } catch {
    throw new FormatError(`not a mechanism: ${what} is no JSON that can be read`);
  }
  if (!isObject(told)) throw new FormatError(`not a mechanism: ${what} must be a JSON object`);
  // JSON.parse keeps the last of two; somebody else's reader may keep the first.
  const open = [];
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"\s*:?|[{}]/g)) {
    if (token === "{") open.push(new Set());
    else if (token === "}") open.pop();
    else if (token.endsWith(":")) {
      const name = parse(token.slice(0, -1));
      if (open.at(-1).has(name)) throw new FormatError(`not a mechanism: ${what} names something twice`);
      open.at(-1).add(name);
    }
  }
  return told;
}

function readArray(name, about, data, start) {
  const wrong = () => new FormatError(`the array ${name.slice(0, 40)} is not described as it must be`);
  if (!isObject(about) || keys(about).length !== 3) throw wrong();
  const { dtype, shape, data_offsets: offsets } = about;
  const kind = typeof dtype === "string" ? TYPES[dtype] : undefined;
  if (!kind || !isArray(shape) || !isArray(offsets) || offsets.length !== 2) throw wrong();
  if (shape.length < 1 || shape.length > 2) throw wrong();
  if (!shape.every((size) => isSafeInteger(size) && size >= 0 && size < 2 ** 32)) throw wrong();
  const count = shape.reduce((product, size) => product * size, 1);
  const end = start + count * kind.BYTES_PER_ELEMENT;
  if (offsets[0] !== start || offsets[1] !== end || end > data.length) {
    throw new FormatError(`the array ${name.slice(0, 40)} is not where it must be in the file`);
  }
  // A copy: arrays in the file need not begin where their type could.
  return [{ shape, dtype, values: new kind(data.slice(start, end).buffer) }, end];
}

/** Take a file apart: its arrays, its texts, and its digest, which is the one it says it has. */
export function unpack(bytes) {
  if (bytes.length < 8) throw new FormatError("not a mechanism: the file is cut short");
  const length = new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true);
  if (length > LONGEST_HEADER) {
    throw new FormatError("not a mechanism: it does not begin as a safetensors file does");
  }
  const head = bytes.subarray(8, 8 + Number(length));
  if (head.length < Number(length)) throw new FormatError("not a mechanism: the file is cut short");
  const text = new TextDecoder("latin1").decode(head);
  const header = parseObject(text, "its header");
  const { __metadata__: texts, ...described } = header;
  if (!isObject(texts) || !Object.values(texts).every((value) => typeof value === "string")) {
    throw new FormatError("not a mechanism: its header says nothing about it");
  }
  const plain = canonical({ __metadata__: texts, ...described });
  if (text !== plain + " ".repeat((8 - (plain.length % 8)) % 8)) {
    throw new FormatError("the file was changed: its header is not in the form it was written in");
  }
  const data = bytes.subarray(8 + Number(length));
  const arrays = create(null);
  let end = 0;
  for (const [name, about] of Object.entries(described)) {
    [arrays[name], end] = readArray(name, about, data, end);
  }
  if (end !== data.length) throw new FormatError("the file must end after its arrays");
  const told = Object.entries(texts).filter(([name]) => !BESIDE.includes(name));
  const digested = canonical([described, Object.fromEntries(told)]) + "\n";
  const digest = hex(sha256(joined(ascii(digested), data)));
  if (texts.sha256 !== digest) {
    throw new FormatError("the file was changed: it does not have the digest that it says it has");
  }
  return { arrays, texts: { __proto__: null, ...texts }, digest };
}
