/** A file cannot be used. The message says what must hold, and never quotes the file. */
export class TraceError extends Error {}

/** Latitude and longitude in degrees. */
type Point = [number, number];
type Numbers = readonly number[] | Float64Array;

export interface TracePoints {
  lat: Float64Array;
  lon: Float64Array;
  /** Milliseconds since 1970; NaN if it is not known. */
  time: Float64Array;
}

export interface Visits {
  points: Point[];
  /** The share of the time at each point; they sum to 1. */
  weights: number[];
}

export interface Traces extends TracePoints {
  /** The names of the files that were used. */
  used: string[];
  /** How many points had impossible coordinates or times. */
  dropped: number;
  /** Sentences about files that were not used, or are incomplete. */
  wrong: string[];
  /** If the file is a profile that the library wrote, the profile; then there are no points. */
  profile: {
    points: Point[];
    prior: number[];
    cellKm: [number, number] | null;
    /** Whether the points are degrees; otherwise km in a plane. */
    earth: boolean;
    visits: Visits | null;
  } | null;
}

/** Read files of traces: GPX, Google Timeline and Takeout, GeoJSON, PLT, CSV, or one profile. */
export function readTraces(
  files: Iterable<File | { name: string; bytes: BufferSource | string }>,
  options?: { onProgress?: (state: { progress: number; points: number }) => void },
): Promise<Traces>;

export interface Profile {
  places: Point[];
  /** How likely each place is; they sum to 1. */
  prior: number[];
  /** Width and height of a place. */
  cellKm: [number, number];
  cellM: number;
  /** The visited points, for `buildEverywhere`; null if there are none in the area. */
  visits: Visits | null;
  /** The share of the time that is spent at the places. */
  covered: number;
  /** The share of the time that is spent in the area. */
  inArea: number;
  /** How many of the places were visited; the others are around them. */
  visited: number;
  /** Hours with points, or the number of points if they have no times. */
  hours: number;
  /** Whether the points have times. */
  timed: boolean;
  /** The centre of the area, rounded to 0.01 degrees. */
  centre: Point;
}

export interface ProfileOptions {
  /** The side of a place in metres: 100, 200, 400, 800 or 1600; chosen if it is not given. */
  cellM?: number;
}

/** Make a profile from points: the places where a person is most, and how likely each is. */
export function profileOf(
  points: { lat: Numbers; lon: Numbers; time: Numbers },
  options?: ProfileOptions,
): Profile;

/**
 * Learns a profile from the device's own positions, in bounded memory: which cells of about 25 m were
 * visited in which five minutes. Everything it keeps is a true location: it must stay on the device.
 */
export class Learner {
  /** Add a position. Returns false if it is impossible, and is not counted. */
  add(lat: number, lon: number, timeMs: number): boolean;
  /** The number of hours with positions. */
  readonly hours: number;
  /** The visits as points: the middle of a cell, at the beginning of each five minutes there. */
  points(): TracePoints;
  /** The profile of what was learned so far. Throws TraceError if there is nothing. */
  profile(options?: ProfileOptions): Profile;
  /** What is kept, for JSON. */
  toJSON(): { version: number; visits: Record<string, number[]> };
  /** A learner from what `toJSON` returned, or from its text. */
  static from(json: unknown): Learner;
}
