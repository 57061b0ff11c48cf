// The exact audit of counts on a lattice, on the device. Between the vertices, probabilities are
// interpolated bilinearly. The mechanism is private between any two points of the plane if at every
// corner v of every cell, with a and b its horizontal and its vertical neighbour in that cell, at
// the distances g and h,
//
//     ((N_a - N_v) / g)^2 + ((N_b - N_v) / h)^2 <= (eps N_v)^2,
//
// and only then. Distances are whole units and eps is the exact value of its double, so both sides
// are rational numbers, and they are compared in integers. Clear cases are decided in doubles, with
// a margin that covers their rounding. docs/proofs/everywhere.md has the full proof.
import { GuaranteeError } from "./errors.js";
import { exactParts } from "./audit.js";
import { F64, lengthOf, now, sqrt, toBigInt, toNumber } from "./primordials.js";

const UNIT_BITS = 40; // a unit is 2^-40 km
const MARGIN = 2 ** -48; // each side is at most 8 roundings of 2^-53 away from its true value
const STEP_MS = 100;

/** The number of comparisons of an audit: corners of cells, times outputs. */
export function cornersOf(xs, ys, m) {
  const nx = lengthOf(xs);
  const ny = lengthOf(ys);
  if (nx * ny === 1) return 0;
  return (nx > 1 ? 2 * (nx - 1) : 1) * (ny > 1 ? 2 * (ny - 1) : 1) * m;
}

/**
 * Prepare the exact check of every corner. The result has a function `goOn`, which continues the
 * check for 0.1 s. It returns true when all corners are checked and hold, and false when there is
 * more to do. It throws GuaranteeError at the first corner that does not hold. After that,
 * `tightest` returns an epsilon per km that the counts have, at most 1e-14 above the smallest, and
 * `tightestAt` where it is attained.
 * `values` are the counts as doubles.
 *
 * @param counts BigUint64Array, a row of m for each vertex; vertex iy * nx + ix is at (xs[ix], ys[iy])
 * @param xs,ys Float64Array, the coordinates in whole units
 */
export function cornerCheck(counts, m, xs, ys, epsilon) {
  const nx = lengthOf(xs);
  const ny = lengthOf(ys);
  const rate = epsilon / 2 ** UNIT_BITS; // exact: a division by a power of two
  const level = exactParts(epsilon);
  const values = new F64(nx * ny * m);
  for (let i = 0; i < nx * ny * m; i++) values[i] = toNumber(counts[i]);

  /** Whether a corner holds, in integers: A <= eps^2 B with A and B below. */
  function holds(v, a, b, g, h) {
    const here = counts[v];
    const width = toBigInt(g);
    const height = toBigInt(h);
    const east = (counts[a] - here) * height;
    const north = (counts[b] - here) * width;
    const allowed = level.m * width * height * here;
    const slope = east * east + north * north;
    // eps is m 2^e per km, so m 2^(e - 40) per unit. Epsilon is below 2^40: the exponent is negative.
    return slope << toBigInt(2 * (UNIT_BITS - level.e)) <= allowed * allowed;
  }

  let steepest = 0; // the largest square of slope over count so far
  let vertex = 0; // and where it is
  let output = 0;

  /** Check all outputs at a corner with these neighbours, at distances g and h. */
  function checkCorner(v, a, b, g, h) {
    for (let z = 0, i = v * m, j = a * m, k = b * m; z < m; z++, i++, j++, k++) {
      // Differences of counts are exact before they are converted: equal counts give 0.
      const east = toNumber(counts[j] - counts[i]) / g;
      const north = toNumber(counts[k] - counts[i]) / h;
      const slope = east * east + north * north;
      if (slope === 0) continue;
      const most = rate * values[i];
      const ratio = slope / (values[i] * values[i]);
      if (ratio > steepest) {
        steepest = ratio;
        vertex = v;
        output = z;
      }
      if (slope * (1 + MARGIN) <= most * most) continue;
      if (holds(i, j, k, g, h)) continue;
      throw new GuaranteeError(
        `not private everywhere: output ${z} changes too fast at vertex ${v} for epsilon ${epsilon}`,
      );
    }
  }

  /** Check a vertex as a corner of each of its cells. On a line it stands for its own neighbour. */
  function checkVertex(ix, iy) {
    const v = iy * nx + ix;
    for (let dx = -1; dx <= 1; dx += 2) {
      const ax = nx === 1 ? ix : ix + dx;
      if (ax < 0 || ax >= nx) continue;
      const g = nx === 1 ? 1 : dx * (xs[ax] - xs[ix]);
      for (let dy = -1; dy <= 1; dy += 2) {
        const by = ny === 1 ? iy : iy + dy;
        if (by < 0 || by >= ny) continue;
        const h = ny === 1 ? 1 : dy * (ys[by] - ys[iy]);
        checkCorner(v, iy * nx + ax, by * nx + ix, g, h);
      }
    }
  }

  let next = 0;
  const goOn = () => {
    const begun = now();
    while (next < nx * ny) {
      checkVertex(next % nx, (next - (next % nx)) / nx);
      next++;
      if (now() - begun > STEP_MS) break;
    }
    return next >= nx * ny;
  };
  const tightest = () => sqrt(steepest * (1 + MARGIN)) * (1 + MARGIN) * 2 ** UNIT_BITS;
  const tightestAt = () => ({ vertex, output });
  return { goOn, tightest, tightestAt, values };
}
