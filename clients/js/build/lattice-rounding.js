// From the matrix of the conic solver on a lattice to audited counts. The same steps as
// src/whereish/release/lattice_rounding.py; the proof is in docs/proofs/everywhere.md.

import { cornerCheck } from "../whereish/corners.js";
import { GuaranteeError } from "../whereish/errors.js";
import { toCounts } from "../whereish/rounding.js";
import { LARGEST_MIX, MIX_GROWTH, ROUNDING_ERROR, UNUSED_ON_LATTICE } from "./constants.js";
import { inUnits } from "./search.js";

/**
 * Return { counts, used, mix, tightest, tightestAt }: audited counts of the outputs in use, the
 * numbers of these outputs, the share of the uniform mechanism, and what the audit found.
 */
export function releasedLattice(matrix, m, lattice, epsilon) {
  const n = matrix.length / m;
  const used = Array.from({ length: m }, (_, z) => z).filter((z) => {
    for (let v = 0; v < n; v++) if (matrix[v * m + z] >= UNUSED_ON_LATTICE) return true;
    return false;
  });
  const width = used.length;
  const clean = new Float64Array(n * width);
  for (let v = 0; v < n; v++) {
    const row = used.map((z) => Math.max(matrix[v * m + z], 0));
    const sum = row.reduce((total, share) => total + share, 0);
    if (!(sum > 0 && sum < Infinity)) {
      throw new GuaranteeError("not a mechanism: some vertex would have nothing to report");
    }
    clean.set(row.map((share) => share / sum), v * width);
  }
  const short = shortfall(clean, width, lattice, epsilon);
  const mix = short / (short + epsilon / width);
  const repaired = clean.map((share) => (1 - mix) * share + mix / width);
  const closest = epsilon * Math.min(Infinity, ...stepsOf(lattice.xs), ...stepsOf(lattice.ys));
  let rounding = Math.min((width * (ROUNDING_ERROR + (4 * width) / 2 ** 63) * 3) / closest, LARGEST_MIX);
  const { xUnits, yUnits } = inUnits(lattice);
  for (;;) {
    if (!(mix + rounding <= LARGEST_MIX)) {
      throw new GuaranteeError(
        `the matrix must be private everywhere at epsilon ${epsilon} up to rounding, and more than ` +
          `${100 * LARGEST_MIX} % of it would have to be replaced: give the solver more time`,
      );
    }
    const counts = toCounts(repaired, n, width, Math.max(rounding, 2 ** -63));
    try {
      const audit = cornerCheck(counts, width, xUnits, yUnits, epsilon);
      while (!audit.goOn());
      const share = 1 - (1 - mix) * (1 - rounding);
      return { counts, used, mix: share, tightest: audit.tightest(), tightestAt: audit.tightestAt() };
    } catch (wrong) {
      if (!(wrong instanceof GuaranteeError)) throw wrong;
      rounding *= MIX_GROWTH;
    }
  }
}

const stepsOf = (axis) => Array.from(axis.subarray(1), (at, i) => at - axis[i]);

/** By how much the slope at a corner exceeds its limit eps k(v), at most; per km, or 0. */
function shortfall(matrix, m, { xs, ys }, epsilon) {
  const [nx, ny] = [xs.length, ys.length];
  const neighbours = (i, count) => (count === 1 ? [i] : [i - 1, i + 1].filter((j) => j >= 0 && j < count));
  let worst = 0;
  for (let iy = 0; iy < ny; iy++) {
    for (let ix = 0; ix < nx; ix++) {
      const v = (iy * nx + ix) * m;
      for (const ax of neighbours(ix, nx)) {
        const g = ax === ix ? 1 : Math.abs(xs[ax] - xs[ix]);
        for (const by of neighbours(iy, ny)) {
          const h = by === iy ? 1 : Math.abs(ys[by] - ys[iy]);
          const [a, b] = [(iy * nx + ax) * m, (by * nx + ix) * m];
          for (let z = 0; z < m; z++) {
            const east = (matrix[a + z] - matrix[v + z]) / g;
            const north = (matrix[b + z] - matrix[v + z]) / h;
            const over = Math.sqrt(east * east + north * north) - epsilon * matrix[v + z];
            if (over > worst) worst = over;
          }
        }
      }
    }
  }
  return worst;
}
