/** What was given cannot be used. */
export class InputError extends Error {}
/** A file is not a mechanism, or not one that may be used. */
export class FormatError extends InputError {}
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

/** A certified mechanism: what is reported from each place, how often, out of 2^63. */
export class Mechanism {
  private constructor();
  readonly places: number;
  readonly reports: number;
  readonly epsilon: number | null;
  readonly epsilonUnit: string | null;
  readonly certificate: { certified: boolean; guarantee: string[]; [name: string]: unknown };
  readonly digest: string;
  readonly plane: [number, number] | null;
  readonly cellKm: [number, number] | null;
  readonly reachKm: number;
  countsOf(place: number): bigint[];
  input(place: number): [number, number];
  output(number: number): Output;
  locate(latitude: number, longitude: number): { place: number; snappedKm: number; outside: boolean };
  draw(place: number, bits?: bigint): number;
  report(latitude: number, longitude: number, options?: { outside?: Outside }): Output;
}

/** Read a `.whereish` file and check it. */
export function readMechanism(source: ArrayBuffer | Uint8Array): Promise<Mechanism>;
/** Project degrees to km east and north of a centre. */
export function project(centre: [number, number], lat: number, lon: number): [number, number];
/** 63 uniform bits from the system's generator. */
export function randomBits(): bigint;
/** How far off most reports of any place are, in km, the snap included. */
export function accuracyKm(mechanism: Mechanism, share?: number): number;

export interface ReporterOptions {
  /** Epsilon per period. */
  budget: number;
  period?: Period;
  outside?: Outside;
  /** Where in the storage the ledger is. */
  key?: string;
  clock?: () => number;
}

/** Reports within a budget; the same place gets the same report all period. */
export class Reporter {
  constructor(mechanism: Mechanism, storage: Pick<Storage, "getItem" | "setItem">, options: ReporterOptions);
  readonly state: { spent: number; budget: number; period: Period };
  report(latitude: number, longitude: number): Report;
}

export interface WrapOptions extends ReporterOptions {
  storage?: Pick<Storage, "getItem" | "setItem">;
  origin?: string;
  levels?: Record<string, Mechanism | "real" | "never">;
}

/** Replace getCurrentPosition and watchPosition; returns a function that puts them back. */
export function wrapGeolocation(
  navigator: { geolocation: Geolocation },
  mechanism: Mechanism,
  options: WrapOptions,
): () => void;
