/** An argument or an option is not valid. */
export class InputError extends Error {}
/** A file is not a valid mechanism, or a stored ledger is not valid. */
export class FormatError extends InputError {}
/** A file claims a privacy that its numbers do not have, or it is not the pinned file. */
export class GuaranteeError extends FormatError {}
/** A report would cost more than is left of the budget. Nothing was reported. */
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

/** A checked mechanism: how often each output is reported from each place, out of 2^63. */
export class Mechanism {
  private constructor();
  readonly places: number;
  readonly reports: number;
  /** Null if the mechanism guarantees none: `certified` is false, and a Reporter refuses it. */
  readonly epsilon: number | null;
  /**
   * "per km" of the plane, or "per unit of its own metric". Per km of the ground, epsilon is at
   * most 5 % larger, and much less in a city (docs/limitations.md).
   */
  readonly epsilonUnit: string | null;
  readonly certified: boolean;
  /** Values that the client has computed. Other claims of the file's certificate are left out. */
  readonly certificate: Readonly<Certificate>;
  /** The digest that `whereish audit` prints. */
  readonly digest: string;
  /** The public key that signed the file, if `key` was given. */
  readonly signer: string | null;
  readonly metricDigest: string | null;
  /** Whether the file holds a prior, which is personal: save the mechanism again without it. */
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
  /** The radius in km that holds a share of the reports, for the file's prior if it has one. */
  accuracyKm(share?: number): number;
  /** The average distance in km from the true place to a report, for the file's prior, or null. */
  qualityLossKm(): number | null;
}

/** An unknown name, or a `sha256` or `key` that is undefined or null, is an InputError. */
export interface ReadOptions {
  /** The digest that `whereish audit` prints. A file with another digest is refused. */
  sha256?: string;
  /** The Ed25519 public key that must have signed the file: 32 bytes, hexadecimal or base64. */
  key?: Uint8Array | ArrayBuffer | string;
  /** False for no console warning about a file that holds a prior. */
  warn?: boolean;
}

/** Read a `.whereish` file and check all of it, including every ratio. */
export function readMechanism(
  source: ArrayBuffer | ArrayBufferView,
  options?: ReadOptions,
): Promise<Mechanism>;
/** Project degrees to km east and north of a centre. */
export function project(centre: readonly [number, number], lat: number, lon: number): [number, number];
/** 63 uniform bits from the system's generator. */
export function randomBits(): bigint;
/** The radius in km around the true place that holds a share (0.95) of the reports. */
export function accuracyKm(mechanism: Mechanism, share?: number): number;

export interface ReporterTerms {
  period?: Period;
  outside?: Outside;
  /** The name of the ledger in the storage. */
  key?: string;
  clock?: () => number;
  /** Where earlier reports are kept: in "storage" (default), or in this "page" only. */
  remember?: "storage" | "page";
  /** At least 16 random bytes, the key of place names in the storage. Default: a stored key. */
  secret?: Uint8Array | string;
}

/** Give either the number of new places per period, or an epsilon per period. */
export type ReporterOptions = ReporterTerms &
  ({ newPlaces: number; budget?: undefined } | { budget: number; newPlaces?: undefined });

/** Reports within a budget. In one period, the same place gets the same report. */
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
 * Make getCurrentPosition, watchPosition and <geolocation> return reports. Returns a function that
 * switches this off. A convenience for the author of a page, not a security boundary. The default
 * of `remember` is "page" here.
 */
export function wrapGeolocation(
  navigator: { geolocation: Geolocation },
  mechanism: Mechanism,
  options: WrapOptions,
): () => void;
