// What somebody who sees a report can conclude: Bayes' rule on the probabilities of a mechanism.
// This module does not use the DOM.

import { inKm, sharesOf } from "./measures.js";

/**
 * The posterior p(x | z) = prior(x) k(x, z) / sum of prior(y) k(y, z), for the column k(., z) of one
 * report. Null if the report never comes from a spot of positive prior.
 */
export function posterior(prior, column) {
  const joint = Float64Array.from(prior, (share, x) => share * column[x]);
  const sum = joint.reduce((a, b) => a + b, 0);
  return sum > 0 ? joint.map((share) => share / sum) : null;
}

/** The best guess at a distribution: the likeliest spot, and the chance that the guess is right. */
export function bestGuess(distribution) {
  let spot = 0;
  distribution.forEach((share, x) => {
    if (share > distribution[spot]) spot = x;
  });
  return { spot, chance: distribution[spot] };
}

/**
 * The chance that the best guess is right, averaged over all reports: the sum over z of the largest
 * prior(x) k(x, z). Without a report it is the largest prior(x).
 */
export function averageChance(prior, rows) {
  const best = new Float64Array(rows[0].length);
  rows.forEach((row, x) => {
    for (let z = 0; z < best.length; z++) best[z] = Math.max(best[z], prior[x] * row[z]);
  });
  return best.reduce((a, b) => a + b, 0);
}

/** The probabilities of all reports from each spot: one row for a spot. */
export const rowsOf = (mechanism, spots) => spots.map((spot) => sharesOf(mechanism, spot));

/** The column of a report: how likely it is from each spot. */
export const columnOf = (rows, z) => Float64Array.from(rows, (row) => row[z]);

export const uniform = (number) => new Float64Array(number).fill(1 / number);

/**
 * Equal squares over a rectangle in km, for a prior that knows the area only: their centres, row by
 * row from the south-west, and the length of a side. At most `most` squares.
 */
export function squaresOf([[west, south], [east, north]], most) {
  const [width, height] = [Math.max(east - west, 1e-3), Math.max(north - south, 1e-3)];
  let sideKm = Math.sqrt((width * height) / most);
  while (Math.ceil(width / sideKm) * Math.ceil(height / sideKm) > most) sideKm *= 1.02;
  const [columns, rows] = [Math.ceil(width / sideKm), Math.ceil(height / sideKm)];
  const [x0, y0] = [(west + east - columns * sideKm) / 2, (south + north - rows * sideKm) / 2];
  const centres = Array.from({ length: columns * rows }, (_, at) => [
    x0 + ((at % columns) + 0.5) * sideKm, y0 + (Math.floor(at / columns) + 0.5) * sideKm,
  ]);
  return { centres, sideKm };
}

/** The rectangle in km around points of the plane, with a margin. */
export function rectangle(points, marginKm) {
  const side = (k, pick, sign) => points.reduce((a, p) => pick(a, p[k]), -sign * Infinity) +
    sign * marginKm;
  return [[side(0, Math.min, -1), side(1, Math.min, -1)],
    [side(0, Math.max, 1), side(1, Math.max, 1)]];
}

/**
 * Compare how likely a report is from a spot with the nearest other spots of positive probability:
 * the largest ratio among the `near` nearest, its distance, and the limit exp(epsilon d) there.
 */
export function ratioNear(mechanism, spots, column, spot, near = 8) {
  const here = inKm(mechanism, spots[spot]);
  const others = spots.map((other, x) => {
    const [a, b] = inKm(mechanism, other);
    return { x, dx: a - here[0], dy: b - here[1], km: Math.hypot(a - here[0], b - here[1]) };
  }).filter(({ x, km }) => x !== spot && km > 0).sort((a, b) => a.km - b.km).slice(0, near);
  const found = others.map((one) => ({
    ...one, ratio: column[spot] / column[one.x], limit: Math.exp(mechanism.epsilon * one.km),
  }));
  return found.reduce((most, one) => (one.ratio > (most?.ratio ?? 0) ? one : most), null);
}
