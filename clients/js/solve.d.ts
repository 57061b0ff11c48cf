/** An argument or an option is not valid. */
export class InputError extends Error {}
/** The solver ended without a result: no module, no worker, no memory, or an internal error. */
export class SolveError extends Error {}

type Numbers = readonly number[] | Float64Array;
/** Numbers row by row, or a list of rows. */
type Matrix = Numbers | readonly Numbers[];

/** k(x, z) <= exp(exponent) k(x', z) for both directions of every pair; the loss is minimised. */
export interface Program {
  /** n x m: the loss of reporting output z at place x, at least 0. */
  loss: Matrix;
  /** Pairs of places, numbered from 0. */
  pairs: readonly number[] | Int32Array | readonly (readonly [number, number])[];
  /** epsilon times distance, for each pair. */
  exponents: Numbers;
  /** n x n: epsilon times distance, for all places. It decides the starting point only. */
  reach: Matrix;
}

export interface ProgramOfPlaces {
  /** [x, y] of each place, in km in a plane. Inputs and outputs are the same. */
  places: readonly (readonly [number, number])[];
  /** Per km. */
  epsilon: number;
  /** 1, the default, is exact; above 1 there are fewer constraints and slightly more loss. */
  dilation?: number;
}

/** The state at one iteration. `bound` is over the outputs in use. */
export interface Progress {
  iteration: number;
  /** Outputs in use. */
  outputs: number;
  /** Privacy constraints in use. */
  rows: number;
  loss: number;
  bound: number;
  gap: number;
}

export interface Settings {
  /** How likely each place is: n numbers of at least 0 with sum 1. */
  prior: Numbers;
  /** The relative gap at which the solve ends; 1e-6 if it is not given. */
  tolerance?: number;
  /** In seconds. After it, the result is the best mechanism so far. */
  timeLimit?: number;
  signal?: AbortSignal;
  onProgress?: (progress: Progress) => void;
  /** The module; dist/whereish.wasm beside solve.js if it is not given. */
  wasm?: string | URL | BufferSource | WebAssembly.Module;
}

export type Options = Settings & (Program | ProgramOfPlaces);

export interface Solution {
  /** n and m. */
  places: number;
  outputs: number;
  /** n x m probabilities, row by row. They obey all pairs up to rounding. */
  matrix: Float64Array;
  loss: number;
  /** No private mechanism has a smaller loss. */
  bound: number;
  /** (loss - bound) / loss. */
  gap: number;
  iterations: number;
  seconds: number;
  /** "time": the time limit passed; "asked": the signal was aborted; "numerics": rounding errors. */
  stopped: "solved" | "time" | "asked" | "numerics";
  /**
   * The proof of the bound: values y >= 0 of rows k(right, z) >= exp(-exponent) k(left, z). With A'y
   * their sum at (x, z), the bound is the sum over x of the least prior(x) loss(x, z) - (A'y)(x, z).
   */
  multipliers: {
    output: Int32Array;
    left: Int32Array;
    right: Int32Array;
    value: Float64Array;
  };
}

/**
 * Find the private mechanism with the least expected loss, in a worker.
 *
 * If `signal` is aborted: where memory can be shared (Node.js, and pages that are cross-origin
 * isolated), the promise resolves with the best mechanism so far, and `stopped` is "asked".
 * Elsewhere the worker is terminated, and the promise is rejected with the signal's AbortError.
 */
export function solve(options: Options): Promise<Solution>;
/** The same in the calling thread, which is blocked meanwhile. */
export function solveHere(options: Options): Promise<Solution>;

/** The program whose inputs and outputs are `places`, [x, y] in km, at `epsilon` per km. */
export function programOf(
  places: readonly (readonly [number, number])[],
  epsilon: number,
  dilation?: number,
): { loss: Float64Array; pairs: Int32Array; exponents: Float64Array; reach: Float64Array };

export interface Spanner {
  /** Pairs x < x', one after the other, in the order in which they were added. */
  edges: Int32Array;
  lengths: Float64Array;
  /** The measured dilation, at most the one requested. */
  dilation: number;
  /** The measured dilation without rounding: epsilon is divided by this one. */
  exactDilation: number;
}

/** A greedy spanner of an n x n metric, row by row: the same edges as `whereish.greedy_spanner`. */
export function spannerOf(metric: Numbers, dilation?: number): Spanner;
