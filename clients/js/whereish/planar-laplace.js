// Planar Laplace noise and a table that is fixed in advance: the alternative to a lattice, with the
// same guarantee for any two points of the plane. The noise is drawn exactly.
import { checkBuild, checkClaims, checkEpsilon, checkPlaces } from "./checks.js";
import { FormatError, InputError } from "./errors.js";
import {
  BUILD_NUMBERS, CERTIFICATE, checkKm, checkTable, checkedWords, METRIC, pointsDigest, toPlane, UNIT,
  visitsInKm,
} from "./everywhere-checks.js";
import { squareOf, toUnits, UNITS_PER_KM } from "./lattice.js";
import { checkShare, outputAt, randomBits, shareRadius } from "./mechanism.js";
import { planarNoise } from "./noise.js";
import { countUpTo, noiseShares } from "./noise-table.js";
import {
  cos, exp, F64, floor, freeze, hypot, lengthOf, PI, put, sin, toBigInt,
} from "./primordials.js";

const UNIT_BITS = 40; // a unit is 2^-40 km
// For the accuracy: the noise as so many distances and directions, around at most so many points.
const DISTANCES = 48;
const DIRECTIONS = 24;
const MOST_POINTS = 400;
const CHECKED = Symbol("checked");

/** A checked mechanism of planar Laplace noise: its epsilon holds between any two points. */
export class PlanarLaplaceEverywhere {
  kind;
  cells;
  reports;
  epsilon;
  epsilonUnit;
  certified;
  certificate;
  digest;
  signer;
  metricDigest;
  holdsPrior;
  plane;
  #xs;
  #ys;
  #xsKm;
  #ysKm;
  #table;
  #outputs;
  #points;
  #weights;
  #noise;

  constructor(token, parts) {
    if (token !== CHECKED) {
      throw new FormatError("a mechanism must be read from a file: use readMechanism");
    }
    this.kind = "planar-laplace";
    this.cells = parts.cells;
    this.reports = parts.m;
    this.epsilon = parts.epsilon;
    this.epsilonUnit = UNIT;
    this.certified = true;
    this.certificate = parts.certificate;
    this.digest = parts.digest;
    this.signer = parts.signer;
    this.metricDigest = null;
    this.holdsPrior = parts.points !== null;
    this.plane = parts.plane;
    this.#xs = parts.xs;
    this.#ys = parts.ys;
    this.#xsKm = inKm(parts.xs);
    this.#ysKm = inKm(parts.ys);
    this.#table = parts.table;
    this.#outputs = parts.outputs;
    this.#points = parts.points;
    this.#weights = parts.weights;
    this.#noise = planarNoise(parts.epsilon, UNIT_BITS);
    freeze(this);
  }

  /** The position of an output: km in the plane, and degrees if the outputs lie on the earth. */
  output(number) {
    return outputAt(this.#outputs, this.reports, number);
  }

  /** The square of 100 m of a point. It is a true location: never send it. */
  locate(latitude, longitude) {
    const at = toPlane(this.plane, latitude, longitude);
    return this.locateKm(at[0], at[1]);
  }

  /** The square of 100 m of a point in km in the plane of the outputs: see `locate`. */
  locateKm(east, north) {
    checkKm(this.plane, east, north);
    return { square: squareOf(toUnits(east), toUnits(north)) };
  }

  /** Draw an output for a point of the earth, from words of 63 random bits: see `drawKm`. */
  draw(latitude, longitude, next = randomBits) {
    const at = toPlane(this.plane, latitude, longitude);
    return this.drawKm(at[0], at[1], next);
  }

  /**
   * Draw an output for a point in km in the plane of the outputs. `next` returns 63 uniform random
   * bits. How often it is called depends on the noise: do not let others time it.
   */
  drawKm(east, north, next = randomBits) {
    checkKm(this.plane, east, north);
    const { a, b } = this.#noise(checkedWords(next));
    return this.#outputOf(toBigInt(toUnits(east)) + a, toBigInt(toUnits(north)) + b);
  }

  /** The output of the table for a point in units. */
  #outputOf(x, y) {
    const column = countUpTo(this.#xs, x);
    const row = countUpTo(this.#ys, y);
    return this.#table[row * (lengthOf(this.#xs) + 1) + column];
  }

  /** Draw one report of a point of the earth. To report more than once, use a Reporter. */
  report(latitude, longitude) {
    return this.output(this.draw(latitude, longitude));
  }

  /**
   * The probability of each output at a point in km in the plane, as doubles. Approximate, by about
   * 1e-5: the noise is integrated over the cells of the table. Reports are not drawn from these.
   */
  probabilitiesKm(east, north) {
    checkKm(this.plane, east, north);
    const found = noiseShares(
      this.#xsKm, this.#ysKm, this.#table, this.reports, this.epsilon, east, north,
    );
    const shares = [];
    for (let z = 0; z < this.reports; z++) put(shares, z, found[z]);
    return shares;
  }

  /**
   * The radius in km that holds a share of the reports, averaged over visited points: the given ones
   * ({ points: [[lat, lon], ...], weights }), or those of the file, or the outputs if there are
   * neither. Approximate: the noise is taken at 48 distances and 24 directions, around at most 400
   * points.
   */
  accuracyKm(share = 0.95, visits = null) {
    checkShare(share);
    const given = visits ? visitsInKm(this.plane, visits) : { points: this.#points, weights: this.#weights };
    const all = given.points ? lengthOf(given.weights) : this.reports;
    const rows = all < MOST_POINTS ? all : MOST_POINTS;
    const away = new F64(rows * DISTANCES * DIRECTIONS);
    const parts = new F64(rows * DISTANCES * DIRECTIONS);
    const noise = noiseDistances(this.epsilon);
    let at = 0;
    for (let i = 0; i < rows; i++) {
      const k = floor((i * all) / rows);
      const from = given.points ?? this.#outputs.xy;
      for (let d = 0; d < DISTANCES; d++) {
        for (let turn = 0; turn < DIRECTIONS; turn++) {
          const angle = (2 * PI * (turn + d / DISTANCES)) / DIRECTIONS;
          const x = from[2 * k] + noise[d] * cos(angle);
          const y = from[2 * k + 1] + noise[d] * sin(angle);
          const z = this.#outputOf(toUnits(x), toUnits(y));
          away[at] = hypot(this.#outputs.xy[2 * z] - from[2 * k], this.#outputs.xy[2 * z + 1] - from[2 * k + 1]);
          parts[at++] = given.points ? given.weights[k] : 1;
        }
      }
    }
    return shareRadius(away, parts, share);
  }
}
freeze(PlanarLaplaceEverywhere.prototype);
freeze(PlanarLaplaceEverywhere);

/** Coordinates in units as km. */
function inKm(axis) {
  const km = new F64(lengthOf(axis));
  for (let i = 0; i < lengthOf(axis); i++) km[i] = axis[i] / UNITS_PER_KM;
  return km;
}

/** The medians of equal shares of the noise's length: 1 - (1 + eps r) exp(-eps r) = share. */
function noiseDistances(epsilon) {
  const found = new F64(DISTANCES);
  for (let d = 0; d < DISTANCES; d++) {
    let low = 0;
    let high = 64;
    for (let step = 0; step < 60; step++) {
      const middle = (low + high) / 2;
      if (1 - (1 + middle) * exp(-middle) < (d + 0.5) / DISTANCES) low = middle;
      else high = middle;
    }
    found[d] = low / epsilon;
  }
  return found;
}

/** Check everything in a file of this kind. The guarantee is that of the noise: no counts to audit. */
export function checkedPlanarLaplace({ arrays, digest, signer }, told, claimed) {
  const epsilon = checkEpsilon(told);
  const { xs, ys, m } = checkTable(arrays);
  const { plane } = checkPlaces("outputs", arrays, told);
  checkBuild(told.build, BUILD_NUMBERS);
  const { points, weights, table } = arrays;
  const checked = {
    certified: true, epsilon, epsilon_unit: UNIT, metric: METRIC, kind: "planar-laplace",
    vertices: null, cells: table.count, outputs: m, corners_checked: 0, tightest_epsilon: null,
    points_sha256: pointsDigest(arrays),
  };
  const found = { ...checked };
  if (!points) delete found.points_sha256;
  checkClaims(claimed, found, CERTIFICATE);
  freeze(checked);
  const made = new PlanarLaplaceEverywhere(CHECKED, {
    m, epsilon, cells: table.count, certificate: checked, digest, signer, xs, ys,
    plane: plane && freeze(plane), table: table.values, points: points ? points.values : null,
    weights: weights ? weights.values : null,
    outputs: { xy: arrays.outputs.values, latlon: arrays.outputs_latlon?.values ?? null },
  });
  return () => made;
}
