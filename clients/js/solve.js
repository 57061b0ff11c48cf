// The optimal mechanism, computed on the device: the compiled core of the Python library as
// WebAssembly. Places and prior never leave the device. No dependency, no build step; the module
// dist/whereish.wasm is made by `python core/build.py wasm`.
//
// The result is the solution of a linear program, in floating point. It is not yet a mechanism to
// draw reports from: that one is repaired, rounded to integers and audited.

import { InputError, SolveError } from "./whereish/errors.js";
import { compiled, run } from "./solve/core.js";
import { checked } from "./solve/program.js";

export { InputError, SolveError } from "./whereish/errors.js";
export { programOf } from "./solve/program.js";
export { spannerOf } from "./solve/spanner.js";

let ours = null; // a promise of the module that lies beside this file

/** Compile the module once: its optimised code is shared by all workers of the page. */
function moduleOf({ wasm }) {
  if (wasm !== undefined) return compiled(wasm);
  ours ??= compiled().catch((error) => {
    ours = null;
    throw error;
  });
  return ours;
}

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
  const { signal, onProgress, job } = split(options);
  signal?.throwIfAborted();
  const module = await moduleOf(options);
  signal?.throwIfAborted();
  const stop = canShare() ? new SharedArrayBuffer(4) : null;
  const worker = await newWorker();
  let onAbort;
  try {
    return await new Promise((resolve, reject) => {
      onAbort = () => {
        if (stop === null) reject(signal.reason);
        else Atomics.store(new Int32Array(stop), 0, 1);
      };
      signal?.addEventListener("abort", onAbort);
      if (signal?.aborted) onAbort();
      worker.listen(
        (message) => {
          try {
            if (message.ready) worker.send({ options: job, module, stop });
            else if (message.progress) onProgress?.(message.progress);
            else if (message.solution) resolve(message.solution);
            else reject(new (message.kind === "input" ? InputError : SolveError)(message.failed));
          } catch (error) {
            reject(error); // of onProgress, or of options that cannot be copied
          }
        },
        (why) =>
          reject(
            new SolveError(
              `the solver's worker could not run: solve-worker.js must lie beside solve.js, and ` +
                `the content security policy must allow workers; or call solveHere (${why})`,
            ),
          ),
      );
    });
  } finally {
    signal?.removeEventListener("abort", onAbort);
    worker.end();
  }
}

/**
 * Do what `solve` does in the calling thread, which is blocked meanwhile: for workers, service
 * workers and scripts. The solve ends with the best mechanism so far if `signal` is aborted, which
 * only `onProgress` can do.
 */
export async function solveHere(options) {
  const { signal, onProgress, job } = split(options);
  signal?.throwIfAborted();
  const module = await moduleOf(options);
  signal?.throwIfAborted();
  const program = checked(job);
  return run(module, program, (progress) => onProgress?.(progress), () => signal?.aborted ?? false);
}

/** Part the options that cannot be sent to a worker from those that can. */
function split(options) {
  if (options === null || typeof options !== "object") {
    throw new InputError("solve needs an object with places or loss, and a prior");
  }
  const { signal, onProgress, wasm, ...job } = options;
  if (signal !== undefined && typeof signal?.throwIfAborted !== "function") {
    throw new InputError("signal must be an AbortSignal");
  }
  if (onProgress !== undefined && typeof onProgress !== "function") {
    throw new InputError("onProgress must be a function");
  }
  return { signal, onProgress, job };
}

/** Start a worker, of a browser or of Node.js. */
async function newWorker() {
  const address = new URL("./solve-worker.js", import.meta.url);
  if (typeof Worker === "function") {
    const worker = new Worker(address, { type: "module", name: "whereish" });
    return {
      listen(heard, failed) {
        worker.onmessage = (event) => heard(event.data);
        worker.onmessageerror = () => failed("a message could not be read");
        worker.onerror = (event) => {
          event.preventDefault?.();
          failed(event.message || "it was not loaded");
        };
      },
      send: (message) => worker.postMessage(message),
      end: () => worker.terminate(),
    };
  }
  const threads = await import("node:worker_threads");
  const worker = new threads.Worker(address);
  return {
    listen(heard, failed) {
      worker.on("message", heard);
      worker.on("messageerror", () => failed("a message could not be read"));
      worker.on("error", (error) => failed(error.message));
      worker.on("exit", (code) => failed(`it ended with code ${code}`));
    },
    send: (message) => worker.postMessage(message),
    end: () => worker.terminate(),
  };
}
