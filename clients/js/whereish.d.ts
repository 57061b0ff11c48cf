/** What was given cannot be used. */
export class InputError extends Error {}
/** A file is not a mechanism, or not one that may be used. */
export class FormatError extends InputError {}
/** A file claims a privacy that its numbers do not have, or is not the one that was pinned. */
export class GuaranteeError extends FormatError {}
/** A report would cost more than is left of its budget: nothing was reported. */
export class BudgetError extends Error {}

export type Outside = "error" | "nearest";
export type Period = "hour" | "day" | "week";

export interface Output {
  output: number;
  xyKm: [number, number];
  latlon: [number, number] | null;
}

export interface Report extends Output {
  fresh: boolean;
  cost: number;
}

/** The part of a file's certificate that is checked on the device. */
export interface Certificate {
  certified: boolean;
  epsilon: number | null;
  epsilon_unit: string | null;
  metric: string | null;
  places: number;
  outputs: number;
  ratios_checked: number;
  largest_snap_km: number;
  /** Null where the file holds no prior. */
  prior_sha256: string | null;
  quality_loss_km: number | null;
}

/** A certified mechanism: what is reported from each place, how often, out of 2^63. */
export class Mechanism {
  private constructor();
  readonly places: number;
  readonly reports: number;
  /** Null where none is promised: `certified` is false, and a Reporter refuses it. */
  readonly epsilon: number | null;
  /**
   * "per km", of the plane: per km of the ground epsilon is at most 5 % larger, far less in a city
   * (docs/limitations.md); or "per unit of its own metric".
   */
  readonly epsilonUnit: string | null;
  readonly certified: boolean;
  /** What the client has worked out itself; what else a file's certificate claims is not in it. */
  readonly certificate: Readonly<Certificate>;
  /** The digest that `whereish audit` prints. */
  readonly digest: string;
  /** The public key that has signed it, where one was asked for. */
  readonly signer: string | null;
  readonly metricDigest: string | null;
  /** The file holds a prior, which is a map of somebody's life: save it again without it. */
  readonly holdsPrior: boolean;
  readonly plane: readonly [number, number] | null;
  readonly cellKm: readonly [number, number] | null;
  readonly reachKm: number;
  countsOf(place: number): bigint[];
  input(place: number): [number, number];
  output(number: number): Output;
  locate(latitude: number, longitude: number): { place: number; snappedKm: number; outside: boolean };
  draw(place: number, bits?: bigint): number;
  report(latitude: number, longitude: number, options?: { outside?: Outside }): Output;
  /** The radius within which a share of the reports falls, under the file's prior if it has one. */
  accuracyKm(share?: number): number;
  /** How far off a report is on average under the file's prior; null where it holds none. */
  qualityLossKm(): number | null;
}

/** Other names, and a `sha256` or `key` that is undefined or null, are refused: an InputError. */
export interface ReadOptions {
  /** The digest that `whereish audit` prints, if it must be that very file. */
  sha256?: string;
  /** The Ed25519 public key that must have signed it: 32 bytes, or in hexadecimal or base64. */
  key?: Uint8Array | ArrayBuffer | string;
  /** False to say nothing on the console about a file that holds a prior. */
  warn?: boolean;
}

/** Read a `.whereish` file and check all of it, every ratio included. */
export function readMechanism(
  source: ArrayBuffer | ArrayBufferView,
  options?: ReadOptions,
): Promise<Mechanism>;
/** Project degrees to km east and north of a centre. */
export function project(centre: readonly [number, number], lat: number, lon: number): [number, number];
/** 63 uniform bits from the system's generator. */
export function randomBits(): bigint;
/** The radius within which a share of the reports falls (0.95), in km, from the place itself. */
export function accuracyKm(mechanism: Mechanism, share?: number): number;

export interface ReporterTerms {
  period?: Period;
  outside?: Outside;
  /** Where in the storage the ledger is. */
  key?: string;
  clock?: () => number;
  /** Where reports already made are kept: "storage" (default), or in this "page" only. */
  remember?: "storage" | "page";
  /** At least 16 random bytes that name places in the storage; else some that are kept there. */
  secret?: Uint8Array | string;
}

/** How many new places a period, or which epsilon: one of them. */
export type ReporterOptions = ReporterTerms &
  ({ newPlaces: number; budget?: undefined } | { budget: number; newPlaces?: undefined });

/** Reports within a budget; the same place gets the same report all period. */
export class Reporter {
  constructor(mechanism: Mechanism, storage: Pick<Storage, "getItem" | "setItem">, options: ReporterOptions);
  readonly state: { spent: number; budget: number; period: Period; newPlacesLeft: number };
  report(latitude: number, longitude: number): Report;
}

export type WrapOptions = ReporterOptions & {
  storage?: Pick<Storage, "getItem" | "setItem">;
  origin?: string;
  levels?: Record<string, Mechanism | "real" | "never">;
};

/**
 * Have getCurrentPosition, watchPosition and <geolocation> give reports; returns a function that
 * switches it off. A convenience for a page's author, not a boundary. Here `remember` is "page".
 */
export function wrapGeolocation(
  navigator: { geolocation: Geolocation },
  mechanism: Mechanism,
  options: WrapOptions,
): () => void;
