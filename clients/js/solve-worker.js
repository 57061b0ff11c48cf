// Runs one solve of solve.js in a worker: a module worker of a browser, or a thread of Node.js.

import { InputError, SolveError } from "./whereish/errors.js";
import { run } from "./solve/core.js";
import { checked } from "./solve/program.js";

const inNode = typeof WorkerGlobalScope === "undefined";
const port = inNode ? (await import("node:worker_threads")).parentPort : globalThis;
const send = (message, moved = []) => port.postMessage(message, moved);

function answer({ options, module, stop }) {
  const flag = stop === null ? null : new Int32Array(stop);
  try {
    const solution = run(
      module,
      checked(options),
      (progress) => send({ progress }),
      () => flag !== null && Atomics.load(flag, 0) !== 0,
    );
    const { matrix, multipliers } = solution;
    const moved = [matrix, ...Object.values(multipliers)].map((array) => array.buffer);
    send({ solution }, moved);
  } catch (error) {
    const kind = error instanceof InputError ? "input" : "solve";
    const known = kind === "input" || error instanceof SolveError;
    send({ kind, failed: known ? error.message : `the solver failed: ${error.message}` });
  }
}

if (inNode) port.once("message", answer);
else port.onmessage = (event) => answer(event.data);
send({ ready: true });
