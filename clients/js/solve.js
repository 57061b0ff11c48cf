// The optimal mechanism, computed on the device: the compiled core of the Python library as
// WebAssembly. Places and prior never leave the device. No dependency, no build step; the module
// dist/whereish.wasm is made by `python core/build.py wasm`.
//
// The result is the solution of a linear program, in floating point. It is not yet a mechanism to
// draw reports from: build.js repairs it, rounds it to integers and audits it.

import { moduleOf, run } from "./solve/core.js";
import { checked } from "./solve/program.js";
import { inWorker, splitOptions } from "./solve/threads.js";

export { InputError, SolveError } from "./whereish/errors.js";
export { programOf } from "./solve/program.js";
export { spannerOf } from "./solve/spanner.js";

const WORKER = new URL("./solve-worker.js", import.meta.url);
const canShare = () =>
  typeof SharedArrayBuffer !== "undefined" && (globalThis.crossOriginIsolated ?? true);

/**
 * Find the private mechanism with the least expected loss, in a worker.
 *
 * If `signal` is aborted: where memory can be shared (Node.js, and pages that are cross-origin
 * isolated), the promise resolves with the best mechanism so far, and `stopped` is "asked".
 * Elsewhere the worker is terminated, and the promise is rejected with the signal's AbortError.
 */
export async function solve(options) {
  const { signal, onProgress, wasm, job } = splitOptions(options, "solve");
  signal?.throwIfAborted();
  const module = await moduleOf(wasm);
  signal?.throwIfAborted();
  const stop = canShare() ? new SharedArrayBuffer(4) : null;
  return inWorker(WORKER, { options: job, module }, { signal, onProgress, stop });
}

/**
 * Do what `solve` does in the calling thread, which is blocked meanwhile: for workers, service
 * workers and scripts. The solve ends with the best mechanism so far if `signal` is aborted, which
 * only `onProgress` can do.
 */
export async function solveHere(options) {
  const { signal, onProgress, wasm, job } = splitOptions(options, "solve");
  signal?.throwIfAborted();
  const module = await moduleOf(wasm);
  signal?.throwIfAborted();
  const program = checked(job);
  return run(module, program, (progress) => onProgress?.(progress), () => signal?.aborted ?? false);
}
