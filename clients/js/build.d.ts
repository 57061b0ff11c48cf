import type { EverywhereMechanism, Mechanism, PlanarLaplaceEverywhere } from "./whereish.js";
import type { Progress as SolveProgress } from "./solve.js";

export { GuaranteeError, InputError } from "./whereish.js";
export { SolveError } from "./solve.js";

type Numbers = readonly number[] | Float64Array;
/** Latitude and longitude in degrees. */
type Point = readonly [number, number];

/** What a build is doing. During "solve" there are the numbers of the solver, too. */
export type BuildProgress = { stage: string } & Partial<SolveProgress>;

export interface BuildSettings {
  /** Privacy level, per km. */
  epsilon: number;
  /** The promise is rejected with the signal's reason, and the build ends. */
  signal?: AbortSignal;
  onProgress?: (progress: BuildProgress) => void;
  /** The solver's module; dist/whereish.wasm beside build.js if it is not given. */
  wasm?: string | URL | BufferSource | WebAssembly.Module;
  /** Compute in the calling thread, which is blocked meanwhile; otherwise in a worker. */
  here?: boolean;
}

export interface PlacesOptions extends BuildSettings {
  /** Inputs and outputs; at least two. */
  places: readonly Point[];
  /** How likely each place is: numbers of at least 0 with sum 1. */
  prior: Numbers;
  /** Side of the cells whose centres the places are, in km, or width and height. */
  cellKm?: number | readonly [number, number] | null;
  /** 1, the default, is exact; above 1 there are fewer constraints and slightly more loss. */
  dilation?: number;
  /** The relative gap at which the search ends; 1e-6 if it is not given. */
  tolerance?: number;
  /** In seconds, for the solver. After it, the result is the best mechanism so far. */
  timeLimit?: number;
  /** Keep the prior and the proof of the lower bound in the file. They are personal. */
  keepPrior?: boolean;
}

export interface EverywhereOptions extends BuildSettings {
  /** The visited points. */
  points: readonly Point[];
  /** How often each point is visited: numbers of at least 0 with sum 1. */
  weights: Numbers;
  /** Vertices of the lattice; 600 if it is not given. */
  vertices?: number;
  /** "auto", the default, takes the better of the two. */
  method?: "auto" | "lattice" | "planar-laplace";
  /** The relative gap at which the search ends; 1e-5 if it is not given. */
  tolerance?: number;
  /** In seconds, for the solver. */
  timeLimit?: number;
  /** Keep points and weights in the file. They are personal. */
  keepPoints?: boolean;
}

/** How a mechanism was built. All of it but the method depends on the prior: it stays on the device. */
export interface BuildRecord {
  method: string;
  /** The expected distance to the report, in km. */
  lossKm: number;
  /** No mechanism with this privacy has a smaller loss; null if it is not known. */
  lowerBoundKm: number | null;
  /** (lossKm - lowerBoundKm) / lossKm, or null. */
  gap: number | null;
  seconds: number;
  /** "time" if the solver's time limit passed first; otherwise null. */
  stopped: string | null;
  /** The radius within which 95 % of the reports fall under the prior. */
  accuracyKm: number;
}

export interface Built<M> {
  /** A `.whereish` file. */
  bytes: Uint8Array;
  /** What `readMechanism` returned for these bytes: every ratio was checked. */
  mechanism: M;
  build: BuildRecord;
}

/** Build the private mechanism between places that loses the least, and audit it. */
export function buildPlaces(options: PlacesOptions): Promise<Built<Mechanism>>;
/** Build a mechanism with a guarantee between any two points of the plane, and audit it. */
export function buildEverywhere(
  options: EverywhereOptions,
): Promise<Built<EverywhereMechanism | PlanarLaplaceEverywhere>>;
