// Builds the mechanisms of the four levels on this device, one after the other.
import { buildEverywhere } from "../shared/vendor/build.js";
import { LEVELS, NOISY } from "./levels.js";
import { regionFile } from "./region-file.js";

/** Call `make(level)` for each level. `told(done, all, level)` reports progress. */
async function eachLevel(make, told) {
  const files = {};
  for (const [k, level] of NOISY.entries()) {
    told(k, NOISY.length, LEVELS[level].name);
    files[level] = await make(LEVELS[level]);
  }
  told(NOISY.length, NOISY.length, "");
  return files;
}

/** The first mechanisms: noise, and the best remap for a public prior of the region. */
export const filesForRegion = (region, told) =>
  eachLevel((level) => ({ bytes: regionFile(region, level) }), told);

/** The best mechanism of one level for the visited points of a person: { points, weights }. */
export async function fileForVisits(visits, epsilon) {
  const { bytes, build } = await buildEverywhere({ ...visits, epsilon });
  return { bytes, accuracyKm: build.accuracyKm };
}

export const filesForVisits = (visits, told = () => {}) =>
  eachLevel(({ epsilon }) => fileForVisits(visits, epsilon), told);
