// Geometry on the earth: km in a plane to degrees, circles and squares, a graticule.

import { project } from "./vendor/whereish.js";

const RAD = Math.PI / 180;

/** The length in km of one degree of latitude and of longitude, on the ellipsoid. */
export function kmPerDegree(lat) {
  const e2 = 0.00669437999014;
  const w = 1 - e2 * Math.sin(lat * RAD) ** 2;
  const a = 6378.137 * RAD;
  return [(a * (1 - e2)) / w ** 1.5, (a / Math.sqrt(w)) * Math.max(Math.cos(lat * RAD), 1e-6)];
}

/** The point so many km east and north of another, for drawings: accurate over a few km. */
export function offset([lat, lon], east, north) {
  const [perLat] = kmPerDegree(lat);
  const there = lat + north / perLat;
  return [there, lon + east / kmPerDegree((lat + there) / 2)[1]];
}

/** The inverse of the client's projection, by fixed-point iteration on `project`. */
export function unproject(centre, x, y) {
  let [lat, lon] = offset(centre, x, y);
  for (let round = 0; round < 8; round++) {
    const [px, py] = project(centre, lat, lon);
    if (Math.hypot(x - px, y - py) < 1e-9) break;
    const [perLat, perLon] = kmPerDegree(lat);
    lat = Math.max(-89.999, Math.min(89.999, lat + (y - py) / perLat));
    lon += (x - px) / perLon;
  }
  return [lat, ((((lon + 180) % 360) + 360) % 360) - 180];
}

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
