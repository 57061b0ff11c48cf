// Measures of a mechanism, computed in the page from its integers: probabilities, distances, and
// the error of an adversary. The true place is used here and is not sent anywhere.

import { fromNowhere } from "./geo.js";
import { project } from "./vendor/whereish.js";

const TOTAL = 2 ** 63;
const MOST_ENTRIES = 1_000_000;
const MOST_INTEGRALS = 400; // more than the visited points that this page makes of traces

/** Whether a mechanism draws planar Laplace noise around any point. */
export const isNoise = (mechanism) => mechanism?.kind === "planar-laplace";

/**
 * Whether a mechanism has a guarantee between any two points, on a lattice or by noise. Its spots
 * are points in degrees.
 */
export const isForPoints = (mechanism) => mechanism?.kind === "lattice" || isNoise(mechanism);

/** Where a spot is, in km in the plane of a mechanism: a place, or any point. */
export function inKm(mechanism, spot) {
  if (!isForPoints(mechanism)) return mechanism.input(spot);
  return mechanism.plane ? project(mechanism.plane, ...spot) : fromNowhere(spot);
}

/** Draw a report from a spot with the sampler of the client. */
export const drawFrom = (mechanism, spot) => (isForPoints(mechanism)
  ? mechanism.drawKm(...inKm(mechanism, spot)) : mechanism.draw(spot));

/** The probability of every output from a spot: interpolated on a lattice, integrated for noise. */
export function sharesOf(mechanism, place) {
  if (isForPoints(mechanism)) {
    return Float64Array.from(mechanism.probabilitiesKm(...inKm(mechanism, place)));
  }
  return Float64Array.from(mechanism.countsOf(place), (count) => Number(count) / TOTAL);
}

/** The spots of a mechanism: the numbers of its places, or the given points in degrees. */
export const spotsOf = (mechanism, points) =>
  (isForPoints(mechanism) ? points : [...Array(mechanism.places).keys()]);

function distances(mechanism, place) {
  const [x, y] = inKm(mechanism, place);
  return Float64Array.from({ length: mechanism.reports }, (_, z) => {
    const [a, b] = mechanism.output(z).xyKm;
    return Math.hypot(a - x, b - y);
  });
}

/** The reports from one place: probabilities, distances in km, and their mean. */
export function seenFrom(mechanism, place) {
  const shares = sharesOf(mechanism, place);
  const away = distances(mechanism, place);
  let mean = 0;
  for (let z = 0; z < shares.length; z++) mean += shares[z] * away[z];
  return { shares, away, mean };
}

/** The smallest distance within which the weights sum to `enough`. */
function radiusOf(far, weights, enough) {
  const order = Uint32Array.from(far.keys()).sort((a, b) => far[a] - far[b]);
  let sum = 0;
  for (const at of order) {
    sum += weights[at];
    if (sum >= enough * (1 - 1e-12)) return far[at];
  }
  return far[order.at(-1)];
}

/**
 * Averages over the prior, in km: the quality loss, and the smallest radius that holds a share of
 * the reports (the same as `whereish.report_radius`). NaN without a prior. If the guarantee is
 * between any two points, the prior is over the visited `points`.
 */
export function overPrior(mechanism, prior, points = [], share = 0.95) {
  const { reports, certificate } = mechanism;
  if (!prior) return { loss: NaN, reach: NaN };
  const spots = spotsOf(mechanism, points);
  const places = spots.length;
  // Noise is integrated around every point, which takes some milliseconds.
  if (places * reports > MOST_ENTRIES || (isNoise(mechanism) && places > MOST_INTEGRALS)) {
    return { loss: certificate.quality_loss_km ?? NaN, reach: NaN };
  }
  const far = new Float64Array(places * reports);
  const weights = new Float64Array(places * reports);
  let [loss, all] = [0, 0];
  for (let x = 0; x < places; x++) {
    const shares = sharesOf(mechanism, spots[x]);
    far.set(distances(mechanism, spots[x]), x * reports);
    for (let z = 0, at = x * reports; z < reports; z++, at++) {
      weights[at] = prior[x] * shares[z];
      loss += weights[at] * far[at];
      all += weights[at];
    }
  }
  return { loss, reach: radiusOf(far, weights, share * all) };
}

/** The expected error in km of an adversary who knows the prior and sees one report. */
export function guessError(mechanism, prior, points = []) {
  const { reports } = mechanism;
  const spots = spotsOf(mechanism, points);
  const places = spots.length;
  if (!prior || places * places * reports > 30 * MOST_ENTRIES) return NaN;
  const where = spots.map((spot) => inKm(mechanism, spot));
  const rows = spots.map((spot, x) => (prior[x] > 0 ? sharesOf(mechanism, spot) : null));
  let error = 0;
  for (let z = 0; z < reports; z++) {
    let best = Infinity;
    for (const [gx, gy] of where) {
      let off = 0;
      for (let x = 0; x < places; x++) {
        if (rows[x]) {
          off += prior[x] * rows[x][z] * Math.hypot(where[x][0] - gx, where[x][1] - gy);
        }
      }
      best = Math.min(best, off);
    }
    error += best;
  }
  return error;
}

/**
 * The neighbour of a place in a direction (dx, dy): near, and more ahead than to the side. Returns
 * the place itself if there is none.
 */
export function neighbour(points, place, dx, dy) {
  const [x, y] = points[place];
  let found = place;
  let best = Infinity;
  points.forEach(([a, b], other) => {
    const ahead = (a - x) * dx + (b - y) * dy;
    const aside = Math.abs((a - x) * dy - (b - y) * dx);
    const cost = Math.hypot(ahead, 2.5 * aside);
    if (ahead > 1e-6 && aside <= ahead * 1.2 && cost < best) [found, best] = [other, cost];
  });
  return found;
}

function headerOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = Number(view.getBigUint64(0, true));
  return { length, header: JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length))) };
}

/** The certificate in a file: claims that are not checked here. */
export const certificateIn = (bytes) =>
  JSON.parse(headerOf(bytes).header.__metadata__.certificate);

/** The loss of the alternative that was not chosen, lattice or noise, or null: another claim. */
export const otherLossIn = (bytes) =>
  JSON.parse(headerOf(bytes).header.__metadata__.mechanism).build.other_loss_km ?? null;

/** An array of doubles in a file, or null. Call `readMechanism` first: it checks the file. */
function numbersIn(bytes, name) {
  const { length, header } = headerOf(bytes);
  if (!header[name]) return null;
  const [start, end] = header[name].data_offsets;
  return Array.from(new Float64Array(bytes.slice(8 + length + start, 8 + length + end).buffer));
}

/** The prior in a file, or null. */
export const priorIn = (bytes) => numbersIn(bytes, "prior");

/** The visited points in a file, in km, and their weights; or null. */
export function visitsIn(bytes) {
  const [flat, weights] = [numbersIn(bytes, "points"), numbersIn(bytes, "weights")];
  return flat && { xyKm: weights.map((_, i) => [flat[2 * i], flat[2 * i + 1]]), weights };
}
