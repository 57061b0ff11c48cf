// Answers the questions of tests/test_wasm.py in Node.js: one for each line of its standard input.
import { createInterface } from "node:readline";
import { compiled, run } from "../solve/core.js";
import { programOf, solve, solveHere, spannerOf } from "../solve.js";

const plain = ({ matrix, multipliers, ...rest }) => ({
  ...rest,
  matrix: [...matrix],
  multipliers: Object.fromEntries(
    Object.entries(multipliers).map(([name, values]) => [name, [...values]]),
  ),
});
// JSON has no NaN and no infinity.
const revived = (key, value) => (["NaN", "Infinity"].includes(value) ? Number(value) : value);

/** Solve with a record of the progress; abort after `abortAfter` calls. */
async function solved(how, { abortAfter = Infinity, ...options }) {
  const controller = new AbortController();
  const calls = [];
  const onProgress = (progress) => {
    calls.push(progress);
    if (calls.length === abortAfter) controller.abort();
  };
  const solution = await how({ ...options, signal: controller.signal, onProgress });
  return { ...plain(solution), calls };
}

const ANSWERS = {
  solve: (options) => solved(solve, options),
  solveHere: (options) => solved(solveHere, options),
  abortedBefore: (options) => solve({ ...options, signal: AbortSignal.abort() }),
  throwing: async ({ how, ...options }) => {
    const onProgress = () => {
      throw new RangeError("of the caller");
    };
    return await (how === "solve" ? solve : solveHere)({ ...options, onProgress });
  },
  /** The program as it is, past the checks in JavaScript. */
  unchecked: async (program) => {
    const typed = {
      ...program,
      pairs: Int32Array.from(program.pairs),
      ...Object.fromEntries(
        ["loss", "exponents", "reach", "prior"].map((name) => [name, Float64Array.from(program[name])]),
      ),
    };
    return plain(run(await compiled(), typed, () => {}, () => false));
  },
  otherModule: ({ bytes, how, ...options }) =>
    (how === "solve" ? solve : solveHere)({ ...options, wasm: Uint8Array.from(bytes) }),
  spanner: ({ metric, dilation }) => {
    const { edges, lengths, ...rest } = spannerOf(Float64Array.from(metric), dilation);
    return { edges: [...edges], lengths: [...lengths], ...rest };
  },
  program: ({ places, epsilon, dilation }) => {
    const program = programOf(places, epsilon, dilation);
    return Object.fromEntries(Object.entries(program).map(([name, values]) => [name, [...values]]));
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { ask, ...options } = JSON.parse(line, revived);
  let answer;
  try {
    answer = await ANSWERS[ask](options.is ?? options);
  } catch (error) {
    answer = { error: error.name === "Error" ? error.constructor.name : error.name, message: error.message };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
