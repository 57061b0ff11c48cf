// From km in a plane back to degrees. It is for places and pictures, never for a report.
import { project } from "./plane.js";
import { cos, hypot, PI, sin, sqrt } from "./primordials.js";

const RAD = PI / 180;

/** The length in km of one degree of latitude and of longitude, on the ellipsoid. */
export function kmPerDegree(lat) {
  const e2 = 0.00669437999014;
  const w = 1 - e2 * sin(lat * RAD) ** 2;
  const a = 6378.137 * RAD;
  const east = cos(lat * RAD);
  return [(a * (1 - e2)) / w ** 1.5, (a / sqrt(w)) * (east > 1e-6 ? east : 1e-6)];
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
    if (hypot(x - px, y - py) < 1e-9) break;
    const [perLat, perLon] = kmPerDegree(lat);
    lat += (y - py) / perLat;
    if (lat > 89.999) lat = 89.999;
    if (lat < -89.999) lat = -89.999;
    lon += (x - px) / perLon;
  }
  return [lat, ((((lon + 180) % 360) + 360) % 360) - 180];
}
