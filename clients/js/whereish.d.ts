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

/** The part of the certificate of a file of version 2 that is checked on the device. */
export interface EverywhereCertificate {
  certified: true;
  epsilon: number;
  epsilon_unit: "per km";
  metric: string;
  kind: "lattice";
  vertices: number;
  cells: number;
  outputs: number;
  corners_checked: number;
  /** An epsilon that the counts have, at most 1e-14 (relative) above the smallest. */
  tightest_epsilon: number;
  /** Null where the file holds no points. */
  points_sha256: string | null;
  quality_loss_km: number | null;
}

/** Where a point is in a lattice. It is a true location: never send it. */
export interface LatticePosition {
  /** The number of the cell, row by row. */
  cell: number;
  /** The indices in xs and ys of the lower left corner of the cell. */
  corner: [number, number];
  /** Units of 2^-40 km from that corner to the point, east and north: exact whole numbers. */
  steps: [number, number];
  /** The width and the height of the cell in the same units; 1 where an axis has one coordinate. */
  widths: [number, number];
  /** How far the point was moved onto the rectangle of the lattice. */
  movedKm: number;
  outside: boolean;
}

/**
 * A checked mechanism on a lattice. Its epsilon holds between any two points of the plane: no point
 * is moved to a place first, and a point outside the rectangle is projected onto it. Points of the
 * earth must be within 3400 km of the centre of the plane.
 */
export class EverywhereMechanism {
  private constructor();
  readonly kind: "lattice";
  readonly vertices: number;
  readonly cells: number;
  readonly reports: number;
  readonly epsilon: number;
  /** Always "per km" of the plane: see Mechanism. */
  readonly epsilonUnit: "per km";
  readonly certified: true;
  /** Values that the client has computed. Other claims of the file's certificate are left out. */
  readonly certificate: Readonly<EverywhereCertificate>;
  /** The digest that `whereish audit` prints. */
  readonly digest: string;
  /** The public key that signed the file, if `key` was given. */
  readonly signer: string | null;
  readonly metricDigest: null;
  /** Whether the file holds visited points, which are personal: save it again without them. */
  readonly holdsPrior: boolean;
  readonly plane: readonly [number, number] | null;
  /** The coordinates of the lattice in km. */
  readonly lattice: { readonly xs: readonly number[]; readonly ys: readonly number[] };
  /** The counts at a vertex; vertex iy * xs.length + ix is at (xs[ix], ys[iy]). */
  countsOf(vertex: number): bigint[];
  output(number: number): Output;
  locate(latitude: number, longitude: number): LatticePosition;
  /** The same for a point in km in the plane of the lattice. */
  locateKm(east: number, north: number): LatticePosition;
  /**
   * Draw an output for a point. `next` returns 63 uniform random bits. It is called three times,
   * for the column, the row and the output, and again with a probability of 2^-62 only.
   */
  draw(latitude: number, longitude: number, next?: () => bigint): number;
  drawKm(east: number, north: number, next?: () => bigint): number;
  report(latitude: number, longitude: number): Output;
  /** The probability of each output at a point in km, as doubles. */
  probabilitiesKm(east: number, north: number): number[];
  /** The radius in km that holds a share of the reports, for the file's points, or the vertices. */
  accuracyKm(share?: number): number;
  /** The average distance in km from a visited point to its report, for the file's points, or null. */
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

/**
 * Read a `.whereish` file and check all of it, including every ratio or every corner. A file of
 * version 1 gives a Mechanism, one of version 2 an EverywhereMechanism.
 */
export function readMechanism(
  source: ArrayBuffer | ArrayBufferView,
  options?: ReadOptions,
): Promise<Mechanism | EverywhereMechanism>;
/** Project degrees to km east and north of a centre. */
export function project(centre: readonly [number, number], lat: number, lon: number): [number, number];
/** 63 uniform bits from the system's generator. */
export function randomBits(): bigint;
/** The radius in km around the true place that holds a share (0.95) of the reports. */
export function accuracyKm(mechanism: Mechanism | EverywhereMechanism, share?: number): number;

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

/**
 * Reports within a budget. In one period, the same place gets the same report. For an
 * EverywhereMechanism a place is a cell of the lattice: the first report in a cell is drawn at the
 * point itself. `outside` has no effect there.
 */
export class Reporter {
  constructor(
    mechanism: Mechanism | EverywhereMechanism,
    storage: Pick<Storage, "getItem" | "setItem">,
    options: ReporterOptions,
  );
  readonly state: { spent: number; budget: number; period: Period; newPlacesLeft: number };
  report(latitude: number, longitude: number): Report;
}

export type WrapOptions = ReporterOptions & {
  storage?: Pick<Storage, "getItem" | "setItem">;
  origin?: string;
  levels?: Record<string, Mechanism | EverywhereMechanism | "real" | "never">;
};

/**
 * Make getCurrentPosition, watchPosition and <geolocation> return reports. Returns a function that
 * switches this off. A convenience for the author of a page, not a security boundary. The default
 * of `remember` is "page" here.
 */
export function wrapGeolocation(
  navigator: { geolocation: Geolocation },
  mechanism: Mechanism | EverywhereMechanism,
  options: WrapOptions,
): () => void;
