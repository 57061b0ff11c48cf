// The loops of the compiled core that the repair and the pruning use, over arrays of JavaScript.

import { SolveError } from "../whereish/errors.js";

/**
 * The loops of a module. Each call has an instance of its own: its memory, which holds what was
 * computed from a prior, is not kept.
 */
export function loopsOf(module) {
  /** Call `name` with whole numbers and arrays; return the arrays as they are afterwards. */
  const call = (name, numbers, arrays) => {
    const env = { now: () => 0, progress: () => {} };
    const core = new WebAssembly.Instance(module, { env }).exports;
    core._initialize();
    const at = arrays.map((array) => {
      const address = core.malloc(Math.max(array.byteLength, 8)) >>> 0;
      if (address === 0) throw new SolveError("the mechanism does not fit into the memory: use fewer places");
      new array.constructor(core.memory.buffer, address, array.length).set(array);
      return address;
    });
    const status = core[name](...numbers.map(BigInt), ...at) ?? 0;
    if (status !== 0) throw new SolveError("the mechanism does not fit into the memory: use fewer places");
    return arrays.map((array, i) => new array.constructor(core.memory.buffer, at[i], array.length).slice());
  };
  return {
    /** Row by row: the largest decay[x, y] k(y, z) over y, and k(x, z). */
    lift: (n, m, matrix, decay) =>
      call("wi_lift", [0, n, n, m], [matrix, decay, new Float64Array(n * m)])[2],
    /** n x n: the largest k(x, z) - factors[x, y] k(y, z) over z, not below 0. */
    shortfalls: (n, m, matrix, factors) =>
      call("wi_shortfalls", [0, n, n, m], [matrix, factors, new Float64Array(n * n)])[2],
    /** The multipliers after all cycles of each output's rows are cancelled. */
    cancelCycles: (n, m, { first, left, right, gain, y }) =>
      call("wi_cancel_cycles", [0, m, n], [first, left, right, gain, y])[4],
    /** The multipliers after what the places do not need is returned; spare is m x n. */
    returnSpare: (n, m, spare, { first, left, right, gain, y }) =>
      call("wi_return_spare", [0, m, n], [spare, first, left, right, gain, y])[5],
  };
}
