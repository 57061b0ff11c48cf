// The profile of one person, from points.

import { bestSize, inCells, layOut } from "./grid.js";
import { TraceError } from "./values.js";
import { visitedPoints } from "./visited.js";

/**
 * Make a profile from points: the places where a person is most, and how likely each is.
 *
 * @param points { lat, lon, time }: arrays of degrees and of milliseconds since 1970, NaN for an
 *   unknown time
 * @param options.cellM the side of a place in metres: 100, 200, 400, 800 or 1600. If it is not given,
 *   the smallest one whose places hold 90 % of the time in the area.
 */
export function profileOf({ lat, lon, time }, { cellM } = {}) {
  if (lat.length === 0) throw new TraceError("traces must have points, and these have none");
  const points = { lat, lon, time };
  const laid = layOut(points);
  const { points: places, ...grid } = inCells(laid, cellM ?? bestSize(laid));
  if (places.length < 2) throw new TraceError("traces must contain at least one place");
  const visits = visitedPoints(points, laid.centre, laid.timed);
  return { places, ...grid, centre: laid.centre, visits };
}
