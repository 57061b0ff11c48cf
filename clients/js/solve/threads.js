// Workers, of a browser or of Node.js: both sides of a computation in another thread.

import { InputError, SolveError } from "../whereish/errors.js";
import * as errors from "../whereish/errors.js";

/**
 * Run a job in a worker of its own, and return what it answers.
 *
 * @param address the worker's script, which calls `serve`
 * @param job what is sent to it: it must be possible to copy it
 * @param stop a SharedArrayBuffer that is set to 1 if `signal` is aborted; without one the worker is
 *   terminated, and the promise is rejected with the reason of the signal
 */
export async function inWorker(address, job, { signal, onProgress, stop = null }) {
  const worker = await newWorker(address);
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
            if (message.ready) worker.send({ ...job, stop });
            else if (message.progress) onProgress?.(message.progress);
            else if (message.answer) resolve(message.answer);
            else reject(new (errors[message.kind] ?? SolveError)(message.failed));
          } catch (error) {
            reject(error); // of onProgress, or of options that cannot be copied
          }
        },
        (why) => {
          const name = address.pathname.split("/").at(-1);
          reject(
            new SolveError(
              `the solver's worker could not run: ${name} must lie beside the other files of the client, and ` +
                `the content security policy must allow workers; or compute in this thread (${why})`,
            ),
          );
        },
      );
    });
  } finally {
    signal?.removeEventListener("abort", onAbort);
    worker.end();
  }
}

/**
 * Answer one job in a worker. `work(job, onProgress, isStopped)` returns { answer, moved }, where
 * `moved` lists the buffers that are handed over and not copied.
 */
export async function serve(work) {
  const inNode = typeof WorkerGlobalScope === "undefined";
  const port = inNode ? (await import("node:worker_threads")).parentPort : globalThis;
  const send = (message, moved = []) => port.postMessage(message, moved);
  const hear = async ({ stop, ...job }) => {
    const flag = stop === null ? null : new Int32Array(stop);
    const isStopped = () => flag !== null && Atomics.load(flag, 0) !== 0;
    try {
      const { answer, moved } = await work(job, (progress) => send({ progress }), isStopped);
      send({ answer }, moved);
    } catch (error) {
      const kind = Object.keys(errors).find((name) => error?.constructor === errors[name]);
      send({ kind, failed: kind ? error.message : `the solver failed: ${error?.message}` });
    }
  };
  if (inNode) port.once("message", hear);
  else port.onmessage = (event) => hear(event.data);
  send({ ready: true });
}

/** Part the options that cannot be sent to a worker from those that can, and check them. */
export function splitOptions(options, what) {
  if (options === null || typeof options !== "object") {
    throw new InputError(`${what} needs an object with options`);
  }
  const { signal, onProgress, wasm, ...job } = options;
  if (signal !== undefined && typeof signal?.throwIfAborted !== "function") {
    throw new InputError("signal must be an AbortSignal");
  }
  if (onProgress !== undefined && typeof onProgress !== "function") {
    throw new InputError("onProgress must be a function");
  }
  return { signal, onProgress, wasm, job };
}

async function newWorker(address) {
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
