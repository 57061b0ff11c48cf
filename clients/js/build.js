// Builds certified mechanisms on the device: solve, repair, rounding to integers, exact audit, file.
// Places and prior never leave the device. No dependency, no build step; the solver's module
// dist/whereish.wasm is made by `python core/build.py wasm`.

import { fileOf } from "./build/files.js";
import { moduleOf } from "./solve/core.js";
import { inWorker, splitOptions } from "./solve/threads.js";
import { InputError } from "./whereish/errors.js";
import { readMechanism } from "./whereish/file.js";

export { GuaranteeError, InputError, SolveError } from "./whereish/errors.js";

const WORKER = new URL("./build-worker.js", import.meta.url);

/**
 * Build the private mechanism between places that loses the least, and audit it.
 *
 * @returns { bytes, mechanism, build }: the `.whereish` file, what `readMechanism` returned for these
 *   very bytes, and how it was built
 */
export function buildPlaces(options) {
  return built("places", options, (mechanism, { prior }) => mechanism.accuracyKm(0.95, prior));
}

/**
 * Build a mechanism with a guarantee between any two points of the plane, and audit it: the optimal
 * one on a lattice, or planar Laplace noise with the best remap.
 *
 * @returns { bytes, mechanism, build }: see `buildPlaces`
 */
export function buildEverywhere(options) {
  return built("everywhere", options, (mechanism, { points, weights }) =>
    mechanism.accuracyKm(0.95, { points, weights }));
}

async function built(kind, options, accuracyOf) {
  const begun = performance.now();
  const { signal, onProgress, wasm, job } = splitOptions(options, "a build");
  const { here = false, ...rest } = job;
  if (typeof here !== "boolean") throw new InputError("here must be true or false");
  signal?.throwIfAborted();
  const module = await moduleOf(wasm);
  signal?.throwIfAborted();
  const told = (progress) => onProgress?.(progress);
  const made = here
    ? fileOf(kind, rest, module, told, () => signal?.aborted ?? false)
    : await inWorker(WORKER, { kind, options: rest, module }, { signal, onProgress: told });
  signal?.throwIfAborted();
  told({ stage: "audit" });
  // Whatever was built: only what the audit of the file accepts is returned.
  const mechanism = await readMechanism(made.bytes, { warn: false });
  signal?.throwIfAborted();
  const build = {
    ...made.build,
    seconds: (performance.now() - begun) / 1000,
    accuracyKm: accuracyOf(mechanism, rest),
  };
  return { bytes: made.bytes, mechanism, build };
}
