// The compiled core as WebAssembly (core/wasm.c), in the calling thread.

import { InputError, SolveError } from "../whereish/errors.js";

const STOPPED = ["solved", "time", "asked", "numerics"]; // wi_stopped
const REFUSED = [
  // wi_status
  null,
  [InputError, "a size of the program is zero or too large"],
  [InputError, "a pair names a place that does not exist, or one place twice"],
  [InputError, "a number of the program is negative, infinite or not a number"],
  [SolveError, "the program does not fit into the memory: use fewer places, or a larger dilation"],
];

/** Where `python core/build.py` puts the module. */
export const MODULE = new URL("../dist/whereish.wasm", import.meta.url);

let ours = null; // a promise of the module that lies beside the client

/** Compile the module once: its optimised code is shared by all workers of the page. */
export function moduleOf(wasm) {
  if (wasm !== undefined) return compiled(wasm);
  ours ??= compiled().catch((error) => {
    ours = null;
    throw error;
  });
  return ours;
}

/** Compile the module: from its address, its bytes, or a WebAssembly.Module. */
export async function compiled(source = MODULE) {
  if (source instanceof WebAssembly.Module) return source;
  let bytes = source;
  if (typeof source === "string" || source instanceof URL) {
    bytes = await bytesAt(new URL(source, globalThis.location?.href));
  }
  try {
    return await WebAssembly.compile(bytes);
  } catch (error) {
    if (error instanceof TypeError) {
      throw new InputError("wasm must be an address, bytes or a WebAssembly.Module");
    }
    throw new SolveError(
      `the solver's module could not be compiled: it needs WebAssembly with SIMD, and in a page ` +
        `'wasm-unsafe-eval' in the content security policy (${error.message})`,
    );
  }
}

async function bytesAt(address) {
  try {
    if (address.protocol === "file:" && globalThis.process?.versions?.node) {
      const { readFile } = await import("node:fs/promises");
      return await readFile(address);
    }
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`HTTP status ${answer.status}`);
    return await answer.arrayBuffer();
  } catch (error) {
    throw new SolveError(
      `the solver's module whereish.wasm could not be read: build it with core/build.py, or name ` +
        `it with the option wasm (${error.message})`,
    );
  }
}

/**
 * Solve a checked program. `onProgress` is called at every iteration; the solve ends soon after
 * `isStopped` returns true.
 */
export function run(module, program, onProgress, isStopped) {
  return inInstance(module, (core) => solved(core, program), onProgress, isStopped);
}

/** Solve the conic program of a lattice (wi_cones in core/whereish.h), as `run` does. */
export function runCones(module, program, onProgress, isStopped) {
  return inInstance(module, (core) => solvedCones(core, program), onProgress, isStopped);
}

/**
 * Call `work` with an instance of its own: after an internal error nothing of it is used again, and
 * its memory, which holds the prior, is not kept.
 */
function inInstance(module, work, onProgress, isStopped) {
  const failed = { error: null };
  let core;
  /** Call a function of the host; what it throws ends the solve, and is thrown after it. */
  const guarded = (call) => {
    try {
      if (failed.error === null) call();
      if (failed.error === null && isStopped()) core.wi_wasm_stop();
    } catch (error) {
      failed.error = { thrown: error };
      core.wi_wasm_stop();
    }
  };
  const env = {
    now: () => {
      guarded(() => {});
      return performance.now() / 1000;
    },
    progress: (iteration, outputs, rows, loss, bound, gap) =>
      guarded(() => onProgress({ iteration, outputs, rows, loss, bound, gap })),
  };
  try {
    core = new WebAssembly.Instance(module, { env }).exports;
    if (!core._initialize || !core.malloc) {
      throw new SolveError("wasm is not the module of this client: build it with core/build.py");
    }
    core._initialize();
    const result = work(core);
    if (failed.error === null) return result;
  } catch (error) {
    if (!(error instanceof WebAssembly.RuntimeError || error instanceof RangeError)) throw error;
    throw new SolveError(
      `the solver ended with an internal error; nothing of it is used again (${error.message})`,
    );
  }
  throw failed.error.thrown;
}

/** Copy an array into the memory of the core; return its address. */
function copied(core, array) {
  const address = core.malloc(Math.max(array.byteLength, 8)) >>> 0;
  if (address === 0) refuse(4);
  // A view of the memory is valid until the next call: a call may replace the buffer.
  new array.constructor(core.memory.buffer, address, array.length).set(array);
  return address;
}

function solved(core, program) {
  const { n, m, loss, pairs, exponents, reach, prior, tolerance, timeLimit } = program;
  const addresses = [loss, pairs, exponents, reach, prior].map((array) => copied(core, array));
  const to = copied(core, new Uint32Array(1));
  const status = core.wi_wasm_solve(n, m, exponents.length, ...addresses, tolerance, timeLimit, to);
  if (status !== 0) refuse(status);
  return read(core, new Uint32Array(core.memory.buffer, to, 1)[0], n, m);
}

function solvedCones(core, { xs, ys, m, cost, epsilon, tolerance, timeLimit }) {
  const [nx, ny] = [xs.length, ys.length];
  const corners = Math.max(1, nx - 1) * Math.max(1, ny - 1) * Math.min(2, nx) * Math.min(2, ny);
  const results = [nx * ny * m, m * corners * 3, 6].map((length) => new Float64Array(length));
  const given = [xs, ys, cost].map((array) => copied(core, array));
  const to = results.map((array) => copied(core, array));
  const status = core.wi_wasm_cones(nx, ny, m, ...given, epsilon, tolerance, timeLimit, ...to);
  if (status !== 0) refuse(status);
  const [matrix, multipliers, numbers] = to.map((address, i) =>
    new Float64Array(core.memory.buffer, address, results[i].length).slice());
  const [loss, bound, gap, seconds, iterations, stopped] = numbers;
  return { matrix, multipliers, corners, loss, bound, gap, seconds, iterations, stopped: STOPPED[stopped] };
}

function refuse(status) {
  const [Kind, words] = REFUSED[status] ?? [SolveError, `the core answered with status ${status}`];
  throw new Kind(words);
}

/** Copy a result out of the memory of the core. */
function read(core, result, n, m) {
  const field = (name) => core[`wi_wasm_${name}`](result);
  const array = (Type, name, length) =>
    new Type(core.memory.buffer, field(name) >>> 0, length).slice();
  const columns = field("columns");
  const output = array(Int32Array, "output", columns);
  const column = array(Float64Array, "column", columns * n);
  const matrix = new Float64Array(n * m);
  for (let c = 0; c < columns; c++) {
    for (let x = 0; x < n; x++) matrix[x * m + output[c]] = column[c * n + x];
  }
  const rows = field("multipliers");
  return {
    places: n,
    outputs: m,
    matrix,
    loss: field("loss"),
    bound: field("bound"),
    gap: field("gap"),
    iterations: field("iterations"),
    seconds: field("seconds"),
    stopped: STOPPED[field("stopped")],
    multipliers: {
      output: array(Int32Array, "row_output", rows),
      left: array(Int32Array, "row_left", rows),
      right: array(Int32Array, "row_right", rows),
      value: array(Float64Array, "row_value", rows),
    },
  };
}
