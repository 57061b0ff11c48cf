// The local plane of places in degrees, as src/whereish/places/points.py makes it.

import { FURTHEST_KM, MOST_PLACES } from "../whereish/constants.js";
import { InputError } from "../whereish/errors.js";
import { project } from "../whereish/plane.js";

const RAD = Math.PI / 180;

/**
 * The plane at the centre of places [latitude, longitude]: { centre, latlon, xy, furthestKm }. A
 * message never holds a coordinate.
 */
export function planeOf(name, places, most = MOST_PLACES) {
  if (!Array.isArray(places) || places.length < 1 || places.length > most) {
    throw new InputError(`${name} must be a list of 1 to ${most.toLocaleString("en-US")} pairs [lat, lon]`);
  }
  const latlon = new Float64Array(2 * places.length);
  places.forEach((place, i) => {
    const [lat, lon] = place?.length === 2 ? place : [];
    const sane = typeof lat === "number" && typeof lon === "number" && Math.abs(lat) <= 90 && Math.abs(lon) <= 180;
    if (!sane) throw new InputError(`${name} must be pairs [lat, lon] in degrees, and the one at [${i}] is not`);
    latlon.set([lat, lon], 2 * i);
  });
  const centre = middleOf(latlon);
  const xy = new Float64Array(latlon.length);
  let furthestKm = 0;
  for (let i = 0; i < xy.length; i += 2) {
    const at = project(centre, latlon[i], latlon[i + 1]);
    xy.set(at, i);
    furthestKm = Math.max(furthestKm, Math.sqrt(at[0] * at[0] + at[1] * at[1]));
  }
  if (!(furthestKm < FURTHEST_KM)) {
    throw new InputError(`${name} must lie within ${FURTHEST_KM} km of their centre for an epsilon per km`);
  }
  return { centre, latlon, xy, furthestKm };
}

/** The mean direction of points on the earth, in degrees. */
function middleOf(latlon) {
  const sum = [0, 0, 0];
  for (let i = 0; i < latlon.length; i += 2) {
    const [lat, lon] = [latlon[i] * RAD, latlon[i + 1] * RAD];
    sum[0] += Math.cos(lat) * Math.cos(lon);
    sum[1] += Math.cos(lat) * Math.sin(lon);
    sum[2] += Math.sin(lat);
  }
  const [x, y, z] = sum.map((part) => part / (latlon.length / 2));
  if (Math.sqrt(x * x + y * y + z * z) < 0.5) {
    throw new InputError("places must lie in one region of the earth, and these lie all around it");
  }
  return [Math.atan2(z, Math.hypot(x, y)) / RAD, Math.atan2(y, x) / RAD];
}
