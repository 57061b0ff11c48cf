// A mechanism on a lattice, with a guarantee for any two points of the plane: no point is moved to a
// place first. A report takes three words of 63 bits: for the column and for the row of a corner of
// the point's cell, and for a draw from the counts of that corner.
import { checkBuild, checkClaims, checkEpsilon, checkPlaces, runningSums } from "./checks.js";
import { parseObject } from "./container.js";
import { cornerCheck, cornersOf } from "./corners.js";
import { FormatError, InputError } from "./errors.js";
import {
  BUILD_NUMBERS, CERTIFICATE, checkedWords, checkFacts, checkKm, checkLattice, checkNear, METRIC,
  pointsDigest, toPlane, UNIT, visitsInKm,
} from "./everywhere-checks.js";
import { choosesUpper, positionOf, UNITS_PER_KM } from "./lattice.js";
import { checkShare, outputAt, randomBits, shareRadius } from "./mechanism.js";
import { checkedPlanarLaplace } from "./planar-laplace.js";
import { F64, freeze, hypot, isInteger, lengthOf, put, toNumber } from "./primordials.js";

const OUTSIDE_KM = 1e-6; // a millimetre
// Private to this module, so that no other code can make a mechanism without the checks.
const CHECKED = Symbol("checked");

/** A checked mechanism on a lattice: its epsilon holds between any two points of the plane. */
export class EverywhereMechanism {
  // Declared, because an assignment to an undeclared field could call a setter of Object.prototype.
  kind;
  vertices;
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
  #sums;
  #values;
  #outputs;
  #points;
  #weights;

  constructor(token, parts) {
    if (token !== CHECKED) {
      throw new FormatError("a mechanism must be read from a file: use readMechanism");
    }
    this.kind = "lattice";
    this.vertices = parts.n;
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
    this.#sums = parts.sums;
    this.#values = parts.values;
    this.#outputs = parts.outputs;
    this.#points = parts.points;
    this.#weights = parts.weights;
    freeze(this);
  }

  /** The coordinates of the lattice, in km. */
  get lattice() {
    return { xs: inKm(this.#xs), ys: inKm(this.#ys) };
  }

  /** A row of the counts: how often each output is reported at a vertex, out of 2^63. */
  countsOf(vertex) {
    const v = this.#index(vertex);
    const row = [];
    for (let z = 0; z < this.reports; z++) put(row, z, this.#count(v, z));
    return row;
  }

  #count(v, z) {
    const at = v * this.reports + z;
    return z === 0 ? this.#sums[at] : this.#sums[at] - this.#sums[at - 1];
  }

  /** The position of an output: km in the plane, and degrees if the outputs lie on the earth. */
  output(number) {
    return outputAt(this.#outputs, this.reports, number);
  }

  /**
   * The cell of a point of the earth. The result is a true location: never send it. A point outside
   * the rectangle of the lattice is projected onto it; `movedKm` is how far.
   */
  locate(latitude, longitude) {
    const at = toPlane(this.plane, latitude, longitude);
    return this.locateKm(at[0], at[1]);
  }

  /** The cell of a point in km in the plane of the lattice: see `locate`. */
  locateKm(east, north) {
    const { x, y, movedKm, square } = this.#position(east, north);
    const columns = lengthOf(this.#xs) > 1 ? lengthOf(this.#xs) - 1 : 1;
    return {
      cell: y.lower * columns + x.lower, corner: [x.lower, y.lower], steps: [x.steps, y.steps],
      widths: [x.width, y.width], square, movedKm, outside: movedKm > OUTSIDE_KM,
    };
  }

  /** Draw an output for a point of the earth, from words of 63 random bits: see `drawKm`. */
  draw(latitude, longitude, next = randomBits) {
    const at = toPlane(this.plane, latitude, longitude);
    return this.drawKm(at[0], at[1], next);
  }

  /**
   * Draw an output for a point in km in the plane of the lattice, with exactly the interpolated
   * probabilities. `next` returns 63 uniform random bits. It is called three times, for the column,
   * the row and the output; again only if one of the first two words leaves the corner undecided,
   * which has a probability of 2^-63 for each.
   */
  drawKm(east, north, next = randomBits) {
    const word = checkedWords(next);
    const { x, y } = this.#position(east, north);
    const forColumn = word();
    const forRow = word();
    const forOutput = word();
    const ix = choosesUpper(forColumn, x, word) ? x.upper : x.lower;
    const iy = choosesUpper(forRow, y, word) ? y.upper : y.lower;
    const start = (iy * lengthOf(this.#xs) + ix) * this.reports;
    let output = 0; // every comparison is made, whatever the output is
    for (let z = 0; z < this.reports; z++) output += toNumber(forOutput >= this.#sums[start + z]);
    return output;
  }

  /** Draw one report of a point of the earth. To report more than once, use a Reporter. */
  report(latitude, longitude) {
    return this.output(this.draw(latitude, longitude));
  }

  /** The probability of each output at a point in km in the plane, as doubles. */
  probabilitiesKm(east, north) {
    checkKm(this.plane, east, north);
    const found = this.#shares(east, north);
    const shares = [];
    for (let z = 0; z < this.reports; z++) put(shares, z, found[z]);
    return shares;
  }

  /**
   * The radius in km that holds a share of the reports, averaged over visited points: the given ones
   * ({ points: [[lat, lon], ...], weights }), or those of the file. If there are neither, the person
   * is taken to be at the outputs, as often as each is reported.
   */
  accuracyKm(share = 0.95, visits = null) {
    checkShare(share);
    const own = this.#points ? { points: this.#points, weights: this.#weights } : this.#reported();
    const { points, weights } = visits ? visitsInKm(this.plane, visits) : own;
    const rows = lengthOf(weights);
    const away = new F64(rows * this.reports);
    const parts = new F64(rows * this.reports);
    for (let i = 0; i < rows; i++) {
      const found = this.#shares(points[2 * i], points[2 * i + 1]);
      for (let z = 0; z < this.reports; z++) {
        away[i * this.reports + z] = this.#away(points[2 * i], points[2 * i + 1], z);
        parts[i * this.reports + z] = weights[i] * found[z];
      }
    }
    return shareRadius(away, parts, share);
  }

  /** The outputs, and how often each is reported if all vertices are equally likely. */
  #reported() {
    const weights = new F64(this.reports);
    for (let at = 0; at < this.vertices * this.reports; at++) {
      weights[at % this.reports] += this.#values[at] / 2 ** 63;
    }
    return { points: this.#outputs.xy, weights };
  }

  /** The quality loss in km: the average distance to a report, for the file's points, or null. */
  qualityLossKm() {
    if (!this.#points) return null;
    let loss = 0;
    for (let i = 0; i < lengthOf(this.#weights); i++) {
      const east = this.#points[2 * i];
      const north = this.#points[2 * i + 1];
      const found = this.#shares(east, north);
      for (let z = 0; z < this.reports; z++) {
        loss += this.#weights[i] * found[z] * this.#away(east, north, z);
      }
    }
    return loss;
  }

  #away(east, north, z) {
    return hypot(this.#outputs.xy[2 * z] - east, this.#outputs.xy[2 * z + 1] - north);
  }

  /** As `probabilitiesKm`, also for visited points of the file that are far from the centre. */
  #shares(east, north) {
    const { x, y } = positionOf(this.#xs, this.#ys, east, north);
    const s = x.steps / x.width;
    const t = y.steps / y.width;
    const nx = lengthOf(this.#xs);
    const found = new F64(this.reports);
    const low = y.lower * nx;
    const high = y.upper * nx;
    const corners = [low + x.lower, low + x.upper, high + x.lower, high + x.upper];
    const weights = [(1 - t) * (1 - s), (1 - t) * s, t * (1 - s), t * s];
    for (let k = 0; k < 4; k++) {
      const start = corners[k] * this.reports;
      const weight = weights[k] / 2 ** 63;
      for (let z = 0; z < this.reports; z++) found[z] += weight * this.#values[start + z];
    }
    return found;
  }

  #position(east, north) {
    checkKm(this.plane, east, north);
    return positionOf(this.#xs, this.#ys, east, north);
  }

  #index(vertex) {
    if (!isInteger(vertex) || vertex < 0 || vertex >= this.vertices) {
      throw new InputError(`a vertex must be from 0 to ${this.vertices - 1}`);
    }
    return vertex;
  }
}
freeze(EverywhereMechanism.prototype);
freeze(EverywhereMechanism);

function inKm(axis) {
  const km = [];
  for (let i = 0; i < lengthOf(axis); i++) put(km, i, axis[i] / UNITS_PER_KM);
  return freeze(km);
}

/**
 * Check everything in a file of version 2 except the corners. Returns a function that continues the
 * check of the corners for 0.1 s: see `checkedMechanism` in mechanism.js.
 */
export function checkedEverywhere({ arrays, texts, digest, signer }) {
  const told = parseObject(texts.mechanism ?? "", "what it says of the mechanism");
  const claimed = parseObject(texts.certificate ?? "", "its certificate");
  checkFacts(told);
  if (told.kind === "planar-laplace") {
    return checkedPlanarLaplace({ arrays, digest, signer }, told, claimed);
  }
  const epsilon = checkEpsilon(told);
  const { xs, ys, n, m } = checkLattice(arrays);
  const { plane } = checkPlaces("outputs", arrays, told);
  checkBuild(told.build, BUILD_NUMBERS);
  if (plane !== null) checkNear(xs, ys);
  const counts = arrays.counts.values;
  const sums = runningSums(counts, n, m);
  const audit = cornerCheck(counts, m, xs, ys, epsilon);
  const across = lengthOf(xs) > 1 ? lengthOf(xs) - 1 : 1;
  const up = lengthOf(ys) > 1 ? lengthOf(ys) - 1 : 1;
  const { points, weights } = arrays;
  // Only values that are computed here. Claims of the file are left out.
  const checked = {
    certified: true, epsilon, epsilon_unit: UNIT, metric: METRIC, kind: "lattice", vertices: n,
    cells: across * up, outputs: m, corners_checked: cornersOf(xs, ys, m), tightest_epsilon: null,
    points_sha256: pointsDigest(arrays),
    quality_loss_km: null,
  };
  const parts = {
    n, m, epsilon, cells: across * up, certificate: checked, digest, signer, xs, ys, sums,
    values: audit.values,
    plane: plane && freeze(plane), points: points ? points.values : null,
    weights: weights ? weights.values : null,
    outputs: { xy: arrays.outputs.values, latlon: arrays.outputs_latlon?.values ?? null },
  };
  return () => {
    if (audit.goOn() !== true) return null;
    const made = new EverywhereMechanism(CHECKED, parts);
    checked.tightest_epsilon = audit.tightest();
    checked.quality_loss_km = made.qualityLossKm();
    const found = { ...checked };
    if (!points) { // claims about points that the file does not hold cannot be checked
      delete found.points_sha256;
      delete found.quality_loss_km;
    }
    checkClaims(claimed, found, CERTIFICATE);
    freeze(checked);
    return made;
  };
}
