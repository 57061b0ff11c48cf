// The container of a mechanism file: safetensors, written and read as in the Python library
// (format/container.py). Reading accepts only what `pack` writes, there or here, byte for byte.
import { FormatError, InputError } from "./errors.js";
import {
  ascii, bufferOf, bytesOf, charCodeAt, charOf, copyBytes, create, F64, has, hex, I32, I64, isArray, isSafeInteger,
  keys, lengthOf, parse, sliceText, stringify, U64, U8,
} from "./primordials.js";
import { joined, sha256 } from "./sha256.js";

const LONGEST_HEADER = 1 << 20;
const TYPES = { __proto__: null, U64, F64, I32, I64 };
const SIZES = { __proto__: null, U64: 8, F64: 8, I32: 4, I64: 8 };
// The digest does not cover these fields.
const BESIDE = { __proto__: null, sha256: true, signature: true, signer: true };

export const isObject = (value) => value !== null && typeof value === "object" && !isArray(value);

/** A JSON value exactly as the library writes it: no spaces, only ASCII. */
function canonical(value) {
  if (typeof value === "string") return canonicalText(value);
  if (value === null || typeof value !== "object") return stringify(value);
  const list = isArray(value);
  const names = keys(value);
  let text = "";
  for (let i = 0; i < names.length; i++) {
    if (i > 0) text += ",";
    if (!list) text += canonicalText(names[i]) + ":";
    text += canonical(value[names[i]]);
  }
  return list ? `[${text}]` : `{${text}}`;
}

function canonicalText(value) {
  const plain = stringify(value);
  const code = new U8(2);
  let text = "";
  let start = 0;
  for (let i = 0; i < plain.length; i++) {
    const mark = charCodeAt(plain, i);
    if (mark < 127) continue;
    code[0] = mark >> 8;
    code[1] = mark & 255;
    text += sliceText(plain, start, i) + "\\u" + hex(code);
    start = i + 1;
  }
  return text + sliceText(plain, start);
}

/** Parse JSON that must be an object. No object in it may have a name twice. */
export function parseObject(text, what) {
  let value;
  try {
    value = parse(text);
  } catch {
    throw new FormatError(`not a mechanism: ${what} is not valid JSON`);
  }
  if (!isObject(value)) throw new FormatError(`not a mechanism: ${what} must be a JSON object`);
  // JSON.parse keeps the last of two equal names; another reader may keep the first.
  if (namesTwice(text)) throw new FormatError(`not a mechanism: ${what} names something twice`);
  return withoutPrototypes(value);
}

/** The same value with objects that have no prototype, so that nothing is inherited. */
function withoutPrototypes(value) {
  if (value === null || typeof value !== "object") return value;
  const names = keys(value);
  const made = isArray(value) ? value : create(null);
  for (let i = 0; i < names.length; i++) made[names[i]] = withoutPrototypes(value[names[i]]);
  return made;
}

/** Whether an object in a valid JSON text has a name twice. */
function namesTwice(text) {
  let open = null; // the current object: its names, and the object around it
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "{") open = { __proto__: null, names: create(null), around: open };
    else if (text[i] === "}") open = open.around;
    if (text[i] !== '"') continue;
    const start = i;
    for (i++; text[i] !== '"'; i++) if (text[i] === "\\") i++;
    let after = i + 1;
    while (text[after] === " " || text[after] === "\n" || text[after] === "\r" || text[after] === "\t") after++;
    if (text[after] !== ":") continue;
    const name = parse(sliceText(text, start, i + 1));
    if (has(open.names, name)) return true;
    open.names[name] = true;
  }
  return false;
}

/** Read the array that a header describes. It must begin at byte `start` of the data. */
function readArray(name, about, data, start) {
  const wrong = () => new FormatError(`the array ${sliceText(name, 0, 40)} is not described as it must be`);
  if (!isObject(about) || keys(about).length !== 3) throw wrong();
  const { dtype, shape, data_offsets: offsets } = about;
  const kind = typeof dtype === "string" ? TYPES[dtype] : undefined;
  if (!kind || !isArray(shape) || !isArray(offsets) || offsets.length !== 2) throw wrong();
  if (shape.length < 1 || shape.length > 2) throw wrong();
  let count = 1;
  for (let i = 0; i < shape.length; i++) {
    if (!isSafeInteger(shape[i]) || shape[i] < 0 || shape[i] >= 2 ** 32) throw wrong();
    count *= shape[i];
  }
  const end = start + count * SIZES[dtype];
  if (offsets[0] !== start || offsets[1] !== end || end > lengthOf(data)) {
    throw new FormatError(`the array ${sliceText(name, 0, 40)} is not where it must be in the file`);
  }
  // A copy, because an array in the file may not be aligned for its type.
  const bytes = copyBytes(data, start, end);
  return { __proto__: null, shape, dtype, count, bytes, values: new kind(bufferOf(bytes)), end };
}

/** The text of the header and the bytes after it. */
function split(bytes) {
  const size = lengthOf(bytes);
  if (size < 8) throw new FormatError("not a mechanism: the file is cut short");
  let length = 0;
  for (let i = 7; i >= 0; i--) length = 256 * length + bytes[i];
  if (length > LONGEST_HEADER) {
    throw new FormatError("not a mechanism: it does not begin as a safetensors file does");
  }
  if (size < 8 + length) throw new FormatError("not a mechanism: the file is cut short");
  let text = "";
  for (let i = 8; i < 8 + length; i++) {
    if (bytes[i] > 127) throw new FormatError("not a mechanism: its header must be ASCII");
    text += charOf(bytes[i]);
  }
  return { text, data: copyBytes(bytes, 8 + length, size) };
}

/** The header in its one form: no spaces but those that fill it up to a multiple of 8 bytes. */
function headerText(texts, described) {
  const layout = canonical(described);
  const any = keys(described).length > 0;
  let plain = `{"__metadata__":${canonical(texts)}${any ? "," : ""}${sliceText(layout, 1)}`;
  while (plain.length % 8 !== 0) plain += " ";
  return plain;
}

const digestOf = (described, texts, data) =>
  hex(sha256(joined(ascii(`[${canonical(described)},${canonical(texts)}]\n`), data)));

/**
 * The bytes of a file with these arrays and texts, and a digest of them.
 *
 * @param arrays by name, in the order of the file: { dtype, shape, values }, a typed array
 * @param texts by name, in the order of the header
 */
export function pack(arrays, texts) {
  const described = create(null);
  const names = keys(arrays);
  let data = new U8(0);
  for (let i = 0; i < names.length; i++) {
    const { dtype, shape, values } = arrays[names[i]];
    const start = lengthOf(data);
    data = joined(data, littleEndian(values, SIZES[dtype]));
    described[names[i]] = { __proto__: null, dtype, shape, data_offsets: [start, lengthOf(data)] };
  }
  const all = create(null);
  const about = keys(texts);
  for (let i = 0; i < about.length; i++) all[about[i]] = texts[about[i]];
  all.sha256 = digestOf(described, texts, data);
  const head = ascii(headerText(all, described));
  let length = lengthOf(head);
  if (length > LONGEST_HEADER) {
    throw new InputError("the header of a file must fit into a megabyte, and this one does not");
  }
  const size = new U8(8);
  for (let i = 0; length > 0; i++) {
    size[i] = length % 256;
    length = (length - size[i]) / 256;
  }
  return joined(joined(size, head), data);
}

const IS_LITTLE = new U8(bufferOf(new I32([1])))[0] === 1;
/** The bytes of a typed array whose numbers have `width` bytes, the lowest byte first. */
function littleEndian(values, width) {
  const bytes = bytesOf(values);
  if (IS_LITTLE) return bytes;
  const size = lengthOf(bytes);
  const turned = new U8(size);
  for (let i = 0; i < size; i++) turned[i] = bytes[i - (i % width) + width - 1 - (i % width)];
  return turned;
}

/** Read a file: its arrays, its texts, and its digest, which is checked against the header. */
export function unpack(bytes) {
  const { text, data } = split(bytes);
  const header = parseObject(text, "its header");
  const texts = header.__metadata__;
  if (!isObject(texts)) throw new FormatError("not a mechanism: its header says nothing about it");
  const digested = create(null);
  const about = keys(texts);
  for (let i = 0; i < about.length; i++) {
    if (typeof texts[about[i]] !== "string") {
      throw new FormatError("not a mechanism: its header says nothing about it");
    }
    if (!(about[i] in BESIDE)) digested[about[i]] = texts[about[i]];
  }
  const described = create(null);
  const names = keys(header);
  for (let i = 0; i < names.length; i++) {
    if (names[i] !== "__metadata__") described[names[i]] = header[names[i]];
  }
  const order = keys(described);
  if (text !== headerText(texts, described)) {
    throw new FormatError("the file was changed: its header is not in the form it was written in");
  }
  const arrays = create(null);
  let end = 0;
  for (let i = 0; i < order.length; i++) {
    const array = readArray(order[i], described[order[i]], data, end);
    arrays[order[i]] = array;
    end = array.end;
  }
  if (end !== lengthOf(data)) throw new FormatError("the file must end after its arrays");
  const digest = digestOf(described, digested, data);
  if (texts.sha256 !== digest) {
    throw new FormatError("the file was changed: it does not have the digest that it says it has");
  }
  return { __proto__: null, arrays, texts, digest };
}
