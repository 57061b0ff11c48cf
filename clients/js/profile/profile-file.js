// Reads a profile from a file that the library wrote: places with a prior.

import { TraceError, filled } from "./values.js";

function numbers(name, values) {
  return values.map((value, row) => {
    const number = typeof value === "string" ? Number(filled(value)) : Number(value ?? NaN);
    if (!Number.isFinite(number)) {
      throw new TraceError(`${name} must be a number, and is not in row ${row + 1}`);
    }
    return number;
  });
}

/** The visited points near each place, like "48.85 2.35 0.25; 48.86 2.35 0.1"; null without. */
function visitedIn(rows) {
  const found = (rows ?? []).flatMap((text, row) => {
    if (text === null || text === undefined || text === "") return [];
    const points = String(text).split(";").map((part) => part.trim().split(/\s+/).map(Number));
    const sane = ([a, b, share, ...more]) =>
      more.length === 0 && Number.isFinite(a) && Number.isFinite(b) && share >= 0 && share <= 1e300;
    if (!points.every(sane)) {
      throw new TraceError("visited must be points like 48.85 2.35 0.25, with a semicolon between " +
        `two, and is not in row ${row + 1}`);
    }
    return points.filter(([, , share]) => share > 0);
  });
  const sum = found.reduce((total, [, , share]) => total + share, 0);
  if (found.length === 0) return null;
  return {
    points: found.map(([a, b]) => [a, b]), weights: found.map(([, , share]) => share / sum),
  };
}

/** A profile from columns: lat, lon, prior or x_km, y_km, prior, with an optional cell size. */
export function fromColumns(columns) {
  const earth = columns.lat && columns.lon;
  const plane = columns.x_km && columns.y_km;
  if (!columns.prior || Boolean(earth) === Boolean(plane)) {
    throw new TraceError("a profile must have the columns lat, lon, prior or x_km, y_km, prior");
  }
  if (columns.user && new Set(columns.user).size > 1) {
    throw new TraceError("a profile must be of one person, and this file has several: choose one");
  }
  const [first, second] = earth ? ["lat", "lon"] : ["x_km", "y_km"];
  const a = numbers(first, columns[first]);
  const b = numbers(second, columns[second]);
  const cell = columns.width_km && columns.height_km
    ? [numbers("width_km", columns.width_km), numbers("height_km", columns.height_km)] : null;
  if (cell?.some((sizes) => sizes.some((size) => size !== sizes[0] || size <= 0))) {
    throw new TraceError("width_km and height_km must be positive and the same in every row");
  }
  return asProfile(a.map((v, i) => [v, b[i]]), numbers("prior", columns.prior),
    cell && [cell[0][0], cell[1][0]], Boolean(earth), visitedIn(columns.visited));
}

/** Regions with a prior: the place of a region is the mean of its corners. */
export function fromRegions(features) {
  const corners = (g) => (g?.type === "Point" ? [g.coordinates]
    : g?.type === "Polygon" ? g.coordinates[0].slice(1) : g?.type === "MultiPolygon"
      ? g.coordinates[0][0].slice(1) : []);
  const middles = features.map(({ geometry }, row) => {
    const all = corners(geometry);
    if (!all.length) throw new TraceError(`feature ${row + 1} must be a point or a polygon`);
    return [1, 0].map((k) => all.reduce((sum, c) => sum + c[k], 0) / all.length);
  });
  const { width_km: w, height_km: h } = features[0].properties ?? {};
  const prior = numbers("prior", features.map((f) => f.properties?.prior));
  return asProfile(middles, prior, w > 0 && h > 0 ? [w, h] : null, true,
    visitedIn(features.map((f) => f.properties?.visited)));
}

function asProfile(points, prior, cellKm, earth, visits) {
  if (points.length < 2) throw new TraceError("a profile must have at least two places");
  if (earth) [["latitude", 90], ["longitude", 180]].forEach(([name, most], k) => {
    if (visits?.points.some((point) => Math.abs(point[k]) > most)) {
      throw new TraceError(`visited: a ${name} must be from -${most} to ${most} degrees`);
    }
    const row = points.findIndex((point) => Math.abs(point[k]) > most);
    if (row >= 0) {
      throw new TraceError(`a ${name} must be from -${most} to ${most} degrees, and is not in ` +
        `row ${row + 1}: are the columns swapped?`);
    }
  });
  if (new Set(points.map(String)).size < points.length) {
    throw new TraceError("the places of a profile must be different, and two are the same");
  }
  const sum = prior.reduce((a, b) => a + b, 0);
  if (prior.some((share) => share < 0) || !(sum > 0) || !Number.isFinite(sum)) {
    throw new TraceError("the prior must not be negative, and its sum must be positive and finite");
  }
  return { points, earth, cellKm, sum, visits, prior: prior.map((share) => share / sum) };
}
