// The mechanisms of the levels: one file each, in storage.local. They never leave the device. A file
// is audited whenever it is read into memory.
import { readMechanism } from "../shared/vendor/whereish.js";
import { api, stored } from "./api.js";
import { LEVELS } from "./levels.js";

const keyOf = (level) => `mechanism:${level}`;
const cache = new Map(); // level -> { text, mechanism }

/** Bytes as text, and back: for the storage, and for messages between parts of the extension. */
export const toText = (bytes) => {
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  }
  return btoa(text);
};
export const toBytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));

/** What is stored of a level's mechanism: { text, accuracy (m), source, name, made }, or null. */
export const kept = (level) => stored(keyOf(level), null);

/** The mechanism of a level with its accuracy in metres, or null. */
export async function mechanismOf(level) {
  const found = await kept(level);
  if (!found) return null;
  if (cache.get(level)?.text !== found.text) {
    const mechanism = await readMechanism(toBytes(found.text), { warn: false });
    checkLevel(mechanism, level);
    cache.set(level, { text: found.text, mechanism });
  }
  return { mechanism: cache.get(level).mechanism, accuracy: found.accuracy };
}

export const bytesOf = async (level) => toBytes((await kept(level)).text);

/** A level must not promise more than its file: the words of the level are what the person reads. */
export function checkLevel(mechanism, level) {
  if (mechanism.hours) {
    throw new Error("the file must have one mechanism for the whole day: build it without --by-time");
  }
  if (mechanism.epsilon === null || mechanism.epsilonUnit !== "per km") {
    throw new Error("the file must have an epsilon per km");
  }
  if (mechanism.output(0).latlon === null) throw new Error("the file must have places on the earth");
  if (mechanism.epsilon > LEVELS[level].epsilon * (1 + 1e-9)) {
    throw new Error(`the epsilon of the file must be at most ${LEVELS[level].epsilon.toPrecision(4)} ` +
      `per km for the level ${LEVELS[level].name}, and is larger: choose a weaker level`);
  }
}

/**
 * Keep files by their levels, { level: { bytes, accuracyKm } }: all of them or, if one is refused, none.
 * `source` is "region", "learned", "traces" or "file".
 */
export async function keepAll(files, { source, name }) {
  const records = {};
  for (const [level, { bytes, accuracyKm = null }] of Object.entries(files)) {
    const mechanism = await readMechanism(bytes, { warn: false });
    checkLevel(mechanism, level);
    const accuracy = Math.max(1, Math.round((accuracyKm ?? mechanism.accuracyKm()) * 1000));
    records[keyOf(level)] = { text: toText(bytes), accuracy, source, name, made: Date.now() };
  }
  await api.storage.local.set(records);
}
