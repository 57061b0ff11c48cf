// Geometry on the earth, for drawings: circles and squares, a graticule.

import { kmPerDegree, offset } from "./vendor/whereish/unproject.js";

export { kmPerDegree, offset, unproject } from "./vendor/whereish/unproject.js";

/** Places without coordinates on the earth are drawn near latitude 0, longitude 0. */
export const nowhere = ([x, y]) => offset([0, 0], x, y);

/** The inverse of `nowhere`: km east and north. */
export const fromNowhere = ([lat, lon]) => [lon * kmPerDegree(lat / 2)[1], lat * kmPerDegree(0)[0]];

/** GeoJSON has longitude first. */
const flip = ([lat, lon]) => [lon, lat];

export function ring(centre, km, steps = 96) {
  return Array.from({ length: steps + 1 }, (_, i) => {
    const turn = (i / steps) * 2 * Math.PI;
    return flip(offset(centre, km * Math.cos(turn), km * Math.sin(turn)));
  });
}

export function square(centre, [width, height]) {
  const corners = [[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]];
  return corners.map(([i, j]) => flip(offset(centre, (i * width) / 2, (j * height) / 2)));
}

export const line = (points) => points.map(flip);

/** The bounding box of points, with a margin in km: [[south, west], [north, east]]. */
export function box(points, marginKm = 0) {
  const lats = points.map((p) => p[0]);
  const lons = points.map((p) => p[1]);
  const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
  const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
  return [
    offset([least(lats), least(lons)], -marginKm, -marginKm),
    offset([most(lats), most(lons)], marginKm, marginKm),
  ];
}

const DEGREES = [30, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005];
const KM = [2000, 1000, 500, 200, 100, 50, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05];

/**
 * Meridians and parallels for a view of `width` pixels, at least `apart` pixels from each other so
 * that labels do not overlap. Without an earth, the lines are at multiples of a length in km.
 */
export function graticule([[south, west], [north, east]], width, earth = true, apart = 84) {
  const [perLat, perLon] = earth ? [1, 1] : kmPerDegree(0);
  const steps = earth ? DEGREES : KM;
  const least = (apart * (east - west) * perLon) / Math.max(width, 1);
  const step = steps.findLast((size) => size >= least) ?? steps[0];
  const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  const lines = (low, high, per, [plus, minus]) => {
    const first = Math.ceil((low * per) / step - 1e-9);
    const number = Math.min(60, Math.floor((high * per) / step + 1e-9) - first + 1);
    return Array.from({ length: Math.max(0, number) }, (_, i) => {
      const value = (first + i) * step;
      const size = Math.abs(value).toFixed(digits);
      const text = earth ? `${size}° ${value < 0 ? minus : plus}`
        : `${value < 0 ? "\u2212" : ""}${size} km`;
      return { at: value / per, text };
    });
  };
  return {
    parallels: lines(south, north, perLat, "NS").map(({ at, text }) => ({ lat: at, text })),
    meridians: lines(west, east, perLon, "EW").map(({ at, text }) => ({ lon: at, text })),
  };
}
