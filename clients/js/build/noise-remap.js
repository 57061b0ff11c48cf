// Planar Laplace noise and the best remap for a person: the table that is fixed in advance. The steps
// are those of src/whereish/everywhere/planar_laplace.py and noise_table.py, with fewer clusters and
// first outputs. The guarantee is that of the noise: nothing here can break it.

import { SAME_PLACE_KM } from "../whereish/constants.js";
import { FURTHEST_LATTICE_KM, toUnits, UNITS_PER_KM } from "../whereish/lattice.js";
import { erfc } from "./erfc.js";
import { clustered, expectedCosts, gridOver, heaviest, medians, rangeOf, separate } from "./visits.js";

const FINE = 0.2; // the width of a cell near the points, in units of 1 / eps
const GROWTH = 1.35; // from one cell to the next, away from the points
const OUTSIDE = 12; // how far the table goes beyond the points, in units of 1 / eps
const NARROWEST_KM = 4 * SAME_PLACE_KM; // a cell
const MOST_CELLS = 64; // on an axis near the points
const CLUSTERS = 200; // of points, for the choice of the remap
const LOSS_CLUSTERS = 1500; // of points, for the loss
const FIRST_OUTPUTS = 60;
const GRID = 8; // of first outputs, on each side
const ROUNDS = 4; // of moving outputs to the medians of what is reported there
const FAINT = 1e-12; // a mass that does not change the choice of an output
const SAME_KM = 1e-3; // outputs closer than a metre are one
// Planar Laplace noise is Gaussian noise with a random standard deviation q / eps: standard
// deviations, and their shares. docs/proofs/everywhere.md bounds the error.
const SCALES = Array.from({ length: 47 }, (_, i) => Math.exp(0.2 * (i - 35)));
const DENSITY = SCALES.map((q) => q ** 3 * Math.exp((-q * q) / 2));
const SHARES = DENSITY.map((share) => share / DENSITY.reduce((sum, part) => sum + part, 0));

/**
 * Build the table for visited points: { xs, ys (borders in km), table, outputs (flat km), lossKm }.
 */
export function noiseTable(visits, epsilon) {
  const groups = clustered(visits, CLUSTERS);
  const axes = [0, 1].map((axis) => bordersOf(rangeOf(groups.xy, axis), epsilon));
  const masses = massesOf(axes, groups, epsilon);
  const first = heaviest(groups.weights).slice(0, FIRST_OUTPUTS)
    .flatMap((i) => [groups.xy[2 * i], groups.xy[2 * i + 1]]);
  let outputs = separate(Float64Array.from([...first, ...gridOver(visits.xy, GRID)]), SAME_KM);
  for (let round = 0; round < ROUNDS; round++) {
    const { table, used } = remapped(masses, visits, groups, outputs);
    const joint = new Float64Array(used.length * groups.count);
    table.forEach((output, cell) => {
      for (let i = 0; i < groups.count; i++) {
        joint[output * groups.count + i] += masses[cell * groups.count + i] * groups.weights[i];
      }
    });
    outputs = separate(medians(joint, used.length, groups.xy), SAME_KM);
  }
  const { table, used } = remapped(masses, visits, groups, outputs);
  const kept = Float64Array.from(used.flatMap((z) => [outputs[2 * z], outputs[2 * z + 1]]));
  const found = { xs: axes[0], ys: axes[1], table, outputs: kept };
  return { ...found, lossKm: noiseLoss(found, visits, epsilon) };
}

/** The expected loss, with noise around at most 1,500 points or clusters. */
function noiseLoss({ xs, ys, table, outputs }, visits, epsilon) {
  const groups = clustered(visits, LOSS_CLUSTERS);
  const masses = massesOf([xs, ys], groups, epsilon);
  const m = outputs.length / 2;
  const costs = expectedCosts(visits, groups.of, groups.count, outputs);
  let loss = 0;
  table.forEach((output, cell) => {
    for (let i = 0; i < groups.count; i++) loss += masses[cell * groups.count + i] * costs[i * m + output];
  });
  return loss;
}

/** The output with the least expected loss for each cell; only outputs in use are numbered. */
function remapped(masses, visits, groups, outputs) {
  const m = outputs.length / 2;
  const count = groups.count;
  const costs = expectedCosts(visits, groups.of, count, outputs);
  const cells = masses.length / count;
  const best = new Int32Array(cells);
  const expected = new Float64Array(m);
  for (let cell = 0; cell < cells; cell++) {
    expected.fill(0);
    for (let i = 0; i < count; i++) {
      const mass = masses[cell * count + i];
      if (mass < FAINT) continue;
      for (let z = 0; z < m; z++) expected[z] += mass * costs[i * m + z];
    }
    let least = 0;
    for (let z = 1; z < m; z++) if (expected[z] < expected[least]) least = z;
    best[cell] = least;
  }
  const used = [...new Set(best)].sort((a, b) => a - b);
  const number = new Map(used.map((z, u) => [z, u]));
  return { table: best.map((z) => number.get(z)), used };
}

/** Borders of cells that are fine near the points and grow away from them, rounded to units. */
function bordersOf([low, high], epsilon) {
  const width = Math.max(FINE / epsilon, (high - low) / MOST_CELLS, NARROWEST_KM);
  const count = high - low >= NARROWEST_KM ? Math.ceil((high - low) / width) : 0;
  const middle = count > 0
    ? Array.from({ length: count + 1 }, (_, i) => low + ((high - low) * i) / count) : [(low + high) / 2];
  const away = [width];
  for (let step = width; away.at(-1) < OUTSIDE / epsilon; ) {
    step = Math.min(GROWTH * step, Math.max(width, OUTSIDE / epsilon / 4));
    away.push(away.at(-1) + step);
  }
  const whole = [...away.map((km) => middle[0] - km).reverse(), ...middle, ...away.map((km) => middle.at(-1) + km)];
  const near = whole.filter((km) => Math.abs(km) <= FURTHEST_LATTICE_KM);
  return Float64Array.from(near, (km) => toUnits(km) / UNITS_PER_KM);
}

/** (cells, groups): the probability that noise around each centre falls into each cell, row by row. */
function massesOf([xs, ys], { xy, count }, epsilon) {
  const [columns, rows, scales] = [xs.length + 1, ys.length + 1, SCALES.length];
  const found = new Float64Array(rows * columns * count);
  for (let i = 0; i < count; i++) {
    const east = gaussian(xs, xy[2 * i], epsilon);
    const north = gaussian(ys, xy[2 * i + 1], epsilon);
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        let mass = 0;
        for (let q = 0; q < scales; q++) mass += SHARES[q] * north[row * scales + q] * east[column * scales + q];
        found[(row * columns + column) * count + i] = mass;
      }
    }
  }
  return found;
}

/** (cells, scales): the masses of Gaussian noise between the borders of an axis. */
function gaussian(borders, at, epsilon) {
  const scales = SCALES.length;
  const found = new Float64Array((borders.length + 1) * scales);
  for (let q = 0; q < scales; q++) {
    let [tail, right] = [0, false]; // of the border on the left, or of none
    for (let k = 0; k <= borders.length; k++) {
      const away = k < borders.length ? epsilon * (borders[k] - at) : Infinity;
      const next = away === Infinity ? 0 : erfc(Math.abs(away) * (Math.SQRT1_2 / SCALES[q])) / 2;
      // Tails are subtracted from tails, so that small masses far away keep their digits.
      found[k * scales + q] = away >= 0 && !right ? 1 - next - tail : Math.abs(next - tail);
      tail = next;
      right = away >= 0;
    }
  }
  return found;
}
