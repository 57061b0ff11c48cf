// The local plane of a mechanism: kilometres east and north of a centre.
import { abs, atan, atan2, cos, hypot, PI, sin, tan } from "./primordials.js";

const WGS84_A = 6378.137;
const WGS84_F = 1 / 298.257223563;
const WGS84_B = WGS84_A * (1 - WGS84_F);

/**
 * Project degrees to km east and north of a centre: azimuthal equidistant on the ellipsoid.
 * Distance and direction from the centre are those of the geodesic (Vincenty's inverse formulas).
 */
export function project(centre, lat, lon) {
  const rad = PI / 180;
  const east = lon - centre[1]; // from -360 to 360
  const L = (east > 180 ? east - 360 : east < -180 ? east + 360 : east) * rad;
  const u1 = atan((1 - WGS84_F) * tan(centre[0] * rad));
  const u2 = atan((1 - WGS84_F) * tan(lat * rad));
  const s1 = sin(u1);
  const c1 = cos(u1);
  const s2 = sin(u2);
  const c2 = cos(u2);
  let lambda = L;
  let sinSigma, cosSigma, sigma, cosSqAlpha, cos2m, sinL, cosL;
  for (let round = 0; round < 200; round++) {
    sinL = sin(lambda);
    cosL = cos(lambda);
    sinSigma = hypot(c2 * sinL, c1 * s2 - s1 * c2 * cosL);
    if (sinSigma === 0) return [0, 0];
    cosSigma = s1 * s2 + c1 * c2 * cosL;
    sigma = atan2(sinSigma, cosSigma);
    const sinAlpha = (c1 * c2 * sinL) / sinSigma;
    cosSqAlpha = 1 - sinAlpha ** 2;
    cos2m = cosSqAlpha === 0 ? 0 : cosSigma - (2 * s1 * s2) / cosSqAlpha;
    const C = (WGS84_F / 16) * cosSqAlpha * (4 + WGS84_F * (4 - 3 * cosSqAlpha));
    const before = lambda;
    lambda =
      L +
      (1 - C) * WGS84_F * sinAlpha *
        (sigma + C * sinSigma * (cos2m + C * cosSigma * (2 * cos2m ** 2 - 1)));
    if (abs(lambda - before) < 1e-15) break;
  }
  const uSq = (cosSqAlpha * (WGS84_A ** 2 - WGS84_B ** 2)) / WGS84_B ** 2;
  const A = 1 + (uSq / 16384) * (4096 + uSq * (-768 + uSq * (320 - 175 * uSq)));
  const B = (uSq / 1024) * (256 + uSq * (-128 + uSq * (74 - 47 * uSq)));
  const turn =
    B * sinSigma *
    (cos2m +
      (B / 4) *
        (cosSigma * (2 * cos2m ** 2 - 1) -
          (B / 6) * cos2m * (4 * sinSigma ** 2 - 3) * (4 * cos2m ** 2 - 3)));
  const km = WGS84_B * A * (sigma - turn);
  const bearing = atan2(c2 * sinL, c1 * s2 - s1 * c2 * cosL);
  return [km * sin(bearing), km * cos(bearing)];
}
