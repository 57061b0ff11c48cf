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
  /** The distances from a place to all places, in the metric that epsilon is for. */
  distances(place: number): Float64Array;
  output(number: number): Output;
  /** The position of an output in the plane of the places, in km. */
  outputInPlane(number: number): [number, number];
  locate(latitude: number, longitude: number): { place: number; snappedKm: number; outside: boolean };
  draw(place: number, bits?: bigint): number;
  report(latitude: number, longitude: number, options?: { outside?: Outside }): Output;
  /**
   * The radius in km that holds a share (0.95) of the reports under a prior: the given one, or that of
   * the file. Without either, places count as often as they are reported.
   */
  accuracyKm(share?: number, prior?: readonly number[] | Float64Array | null): number;
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
  /** The number of the square of 100 m that the point is in: the place of a Reporter. */
  square: number;
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
  accuracyKm(share?: number, visits?: Visits | null): number;
  /** The average distance in km from a visited point to its report, for the file's points, or null. */
  qualityLossKm(): number | null;
}

/** The part of the certificate of a file of planar Laplace noise that is checked on the device. */
export interface PlanarLaplaceCertificate {
  certified: true;
  epsilon: number;
  epsilon_unit: "per km";
  metric: string;
  kind: "planar-laplace";
  vertices: null;
  cells: number;
  outputs: number;
  corners_checked: 0;
  tightest_epsilon: null;
  /** Null where the file holds no points. */
  points_sha256: string | null;
}

/**
 * A checked mechanism of planar Laplace noise and a fixed table of outputs. Its epsilon holds
 * between any two points of the plane: it is that of the noise, which is drawn exactly.
 */
export class PlanarLaplaceEverywhere {
  private constructor();
  readonly kind: "planar-laplace";
  readonly cells: number;
  readonly reports: number;
  readonly epsilon: number;
  readonly epsilonUnit: "per km";
  readonly certified: true;
  readonly certificate: Readonly<PlanarLaplaceCertificate>;
  readonly digest: string;
  readonly signer: string | null;
  readonly metricDigest: null;
  /** Whether the file holds visited points, which are personal: save it again without them. */
  readonly holdsPrior: boolean;
  readonly plane: readonly [number, number] | null;
  output(number: number): Output;
  /** The number of the square of 100 m of a point. It is a true location: never send it. */
  locate(latitude: number, longitude: number): { square: number };
  locateKm(east: number, north: number): { square: number };
  /** Draw an output. How often `next` is called depends on the noise, and not on the point. */
  draw(latitude: number, longitude: number, next?: () => bigint): number;
  drawKm(east: number, north: number, next?: () => bigint): number;
  report(latitude: number, longitude: number): Output;
  /** The probability of each output at a point in km, to about 1e-5. Reports are not drawn from it. */
  probabilitiesKm(east: number, north: number): number[];
  /** About the radius in km that holds a share of the reports, for the file's points or outputs. */
  accuracyKm(share?: number, visits?: Visits | null): number;
}

/** What `readMechanism` returns: tell them apart by `instanceof`. */
/**
 * Mechanisms with one epsilon on the same places, one for each period of the day (a file of version 3).
 * The clock of the report chooses, in the time zone of the file: never the location.
 */
export class MechanismByTime {
  private constructor();
  readonly places: number;
  readonly reports: number;
  readonly epsilon: number;
  readonly epsilonUnit: string;
  readonly certified: true;
  readonly certificate: Readonly<Record<string, unknown>>;
  readonly digest: string;
  readonly signer: string | null;
  readonly metricDigest: string | null;
  readonly holdsPrior: boolean;
  readonly plane: readonly [number, number] | null;
  readonly cellKm: readonly [number, number] | null;
  readonly reachKm: number;
  /** The hours of the day at which a period begins; the hours before the first belong to the last. */
  readonly hours: readonly number[];
  readonly zone: string;
  /** The number of the period at a time in milliseconds since 1970. */
  periodAt(time: number): number;
  /** The mechanism of a period, by its number. */
  ofPeriod(number: number): Mechanism;
  /** The mechanism of a time in milliseconds since 1970. */
  at(time: number): Mechanism;
  input(place: number): [number, number];
  distances(place: number): Float64Array;
  output(number: number): Output;
  outputInPlane(number: number): [number, number];
  locate(latitude: number, longitude: number): { place: number; snappedKm: number; outside: boolean };
  /** `time` in milliseconds since 1970; by default now. */
  report(latitude: number, longitude: number, options?: { outside?: Outside; time?: number }): Output;
  /** The largest of the periods. */
  accuracyKm(share?: number, prior?: readonly number[] | Float64Array | null): number;
}

export type AnyMechanism = Mechanism | MechanismByTime | EverywhereMechanism | PlanarLaplaceEverywhere;

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
 * version 1 gives a Mechanism, one of version 2 an EverywhereMechanism or PlanarLaplaceEverywhere.
 */
export function readMechanism(
  source: ArrayBuffer | ArrayBufferView,
  options?: ReadOptions,
): Promise<AnyMechanism>;
/** A file could not be fetched: the message says the address and what to look at. */
export class FetchError extends Error {}

/** Fetch a `.whereish` file, check it as `readMechanism` does, and return the mechanism. */
export function fetchMechanism(
  address: string | URL,
  options?: ReadOptions & { signal?: AbortSignal; fetch?: typeof globalThis.fetch },
): Promise<AnyMechanism>;
/** Project degrees to km east and north of a centre. */
export function project(centre: readonly [number, number], lat: number, lon: number): [number, number];
/** 63 uniform bits from the system's generator. */
export function randomBits(): bigint;
/** Visited points, latitude and longitude in degrees, and how often each is visited. */
export interface Visits {
  points: readonly (readonly [number, number])[];
  weights: readonly number[] | Float64Array;
}

/** The radius in km that holds a share (0.95) of the reports: see the methods of the mechanisms. */
export function accuracyKm(
  mechanism: Mechanism, share?: number, prior?: readonly number[] | Float64Array | null,
): number;
export function accuracyKm(
  mechanism: EverywhereMechanism | PlanarLaplaceEverywhere, share?: number, visits?: Visits | null,
): number;

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
 * Reports within a budget. In one period, the same place gets the same report. For a mechanism with
 * a guarantee for every point, a place is a square of 100 m: the first report in a square is drawn at the
 * point itself. `outside` must not be given there.
 */
export class Reporter {
  constructor(
    mechanism: AnyMechanism,
    storage: Pick<Storage, "getItem" | "setItem">,
    options: ReporterOptions,
  );
  readonly state: { spent: number; budget: number; period: Period; newPlacesLeft: number };
  report(latitude: number, longitude: number): Report;
}

/** When a Tracker draws: see `Tracker`. */
export type Policy = "predictive" | "sporadic" | "filtered" | "sticky";

/** The epsilon of a draw and of a test, per unit of the mechanism's metric, and the threshold. */
export interface Manager {
  /** That of the mechanism. */
  readonly epsilonDraw: number;
  readonly epsilonTest: number;
  /** A guess within about this distance is repeated. */
  readonly threshold: number;
}

/** Budget managers of the predictive mechanism, with the constants of its authors (PETS 2014). */
export const BudgetManager: {
  /** For a mechanism of this epsilon. */
  readonly forDraw: (epsilonDraw: number, eta?: number, rho?: number) => Manager;
  /** With cheaper tests than the authors': epsilonTest is a fifth of epsilonDraw. */
  readonly cheapTests: (epsilonDraw: number) => Manager;
  /** Draws are within a radius in 9 of 10 cases. */
  readonly fixedUtility: (radius: number, eta?: number, rho?: number) => Manager;
  /** A budget lasts for so many reports, a share `easy` of which need no draw. */
  readonly fixedRate: (budget: number, reports: number, easy: number, eta?: number, rho?: number) => Manager;
};

/** A movement model: a Markov chain on places, with transitions for each period of the day. */
export class MovementModel {
  private constructor();
  readonly places: number;
  readonly stepSeconds: number;
  /** The hours of the day at which a period begins. */
  readonly hours: readonly number[];
  readonly zone: string;
  readonly plane: readonly [number, number] | null;
  readonly xy: Float64Array;
  readonly latlon: Float64Array | null;
  /** The probability to be at each place, at a time in seconds since 1970. */
  initialAt(seconds: number): Float64Array;
  /** A distribution at a later time; both in seconds since 1970. */
  moved(distribution: Float64Array, start: number, end: number): Float64Array;
}

/**
 * Read the movement model of `whereish profile --model`: the text or the bytes of its file, or the object
 * that JSON.parse made of it. It must not be made of the trace that is protected.
 */
export function readMovement(source: string | ArrayBuffer | ArrayBufferView | object): MovementModel;

export interface TrackedReport extends Report {
  /** Epsilon of this period so far: it bounds what all its reports reveal together. */
  spent: number;
  budget: number;
  /** The most epsilon that the reports of one stay have cost in this period. */
  spentPerStay: number;
  /** Milliseconds since 1970. */
  periodEnds: number;
}

/** `rateSeconds`: between two draws, or two tests. In between, the last report is repeated. */
export type TrackerOptions = ReporterOptions &
  (
    | { policy?: "predictive"; rateSeconds?: number; model?: MovementModel; manager?: Manager; later?: undefined }
    | { policy: "sporadic"; rateSeconds: number; model?: undefined; manager?: undefined; later?: Later }
    | { policy: "filtered"; rateSeconds?: number; model: MovementModel; manager?: undefined; later?: Later }
    | { policy: "sticky"; rateSeconds?: undefined; model?: undefined; manager?: undefined; later?: undefined }
  );

/**
 * Tapered draws: the mechanisms of the second draw of a period, of the third one and so on, on the
 * places of the first, each with its own epsilon. The last one also makes all draws after it.
 */
export type Later = readonly AnyMechanism[];

/**
 * Reports of a person over time, within a budget for each period.
 *
 * - "predictive" (default): a private test decides whether the last drawn report is still near. Then it
 *   is repeated, otherwise a new one is drawn. A test costs a part of a draw.
 * - "sporadic": a draw after every `rateSeconds`, repeated in between.
 * - "filtered": the same, and the best report that follows from all draws and the model is sent.
 * - "sticky": as Reporter. It shows whether somebody has moved; the others do not.
 */
export class Tracker {
  constructor(
    mechanism: AnyMechanism,
    storage: Pick<Storage, "getItem" | "setItem">,
    options: TrackerOptions,
  );
  readonly policy: Policy;
  readonly state: { spent: number; budget: number; period: Period; spentPerStay: number; periodEnds: number };
  /** `time` in milliseconds since 1970; by default that of the clock. */
  report(latitude: number, longitude: number, time?: number): TrackedReport;
}

export type WrapOptions = ReporterOptions & {
  storage?: Pick<Storage, "getItem" | "setItem">;
  origin?: string;
  /**
   * `coords.accuracy` of reports, in km: a number, such as `build.accuracyKm` of a build, or a function
   * of the mechanism. Otherwise it is mechanism.accuracyKm().
   */
  accuracyKm?: number | ((mechanism: AnyMechanism) => number);
  levels?: Record<string, AnyMechanism | "real" | "never">;
};

/**
 * Make getCurrentPosition, watchPosition and <geolocation> return reports. Returns a function that
 * switches this off. A convenience for the author of a page, not a security boundary. The default
 * of `remember` is "page" here.
 */
export function wrapGeolocation(
  navigator: { geolocation: Geolocation },
  mechanism: AnyMechanism,
  options: WrapOptions,
): () => void;
