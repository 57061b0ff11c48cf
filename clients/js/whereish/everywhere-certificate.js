// The certificate of a file of version 2 that was built here: see certificate.js. Names, order and
// words are those of the Python library (format/everywhere_certificate.py).
import { general, madeNow, stretchWithin } from "./certificate.js";
import { FURTHEST_KM } from "./constants.js";
import { METRIC, UNIT } from "./everywhere-checks.js";

/** Numbers of a build record that version 1 does not have. */
export const MORE_BUILD = { loss_km: null, program_bound_km: null, other_loss_km: null };

/**
 * The certificate of a mechanism for every point.
 *
 * @param about kind, epsilon, checked (what the audit found), furthestKm (of the lattice or the table,
 *   from the centre of the plane), build (the record), personal: what is computed from the points, or
 *   null
 */
export function everywhereCertificate({ kind, epsilon, checked, furthestKm, build, personal }) {
  const own = (name) => personal?.[name] ?? null;
  return {
    certified: true,
    epsilon,
    epsilon_unit: UNIT,
    metric: METRIC,
    kind,
    vertices: checked.vertices,
    cells: checked.cells,
    outputs: checked.outputs,
    corners_checked: checked.corners,
    tightest_epsilon: checked.tightest,
    tightest_at: checked.tightestAt,
    quality_loss_km: own("loss"),
    lower_bound_km: own("bound"),
    gap: own("gap"),
    points_sha256: own("digest"),
    method: build.method,
    solver: build.solver,
    repair_mix: build.repair_mix,
    repair_cost_km: build.repair_cost_km,
    stopped: build.stopped,
    seconds: build.seconds,
    ...madeNow(),
    guarantee: guarantee(kind, epsilon, furthestKm),
  };
}

function guarantee(kind, epsilon, furthestKm) {
  const level = general(epsilon, 6);
  const isLattice = kind === "lattice";
  const cells = isLattice ? "lattice" : "table";
  const stretch = Math.ceil(1e4 * stretchWithin(Math.min(furthestKm, FURTHEST_KM))) / 1e4;
  return [
    `For any two points d km apart, wherever they are, no report is more than exp(${level} d) times ` +
      "likelier from one than from the other, whatever is known already. That is twice at " +
      `${general(Math.LN2 / epsilon, 3)} km.`,
    isLattice
      ? "A point is not moved to a place first. A point outside the rectangle of the lattice is " +
        "reported as the nearest point of the rectangle. The guarantee holds there too. Coordinates " +
        "are rounded to a nanometre before anything else."
      : "The report is planar Laplace noise around the point, in whole units of 2^-40 km, and then a " +
        "table that is fixed in advance. The guarantee is that of the noise.",
    `Distances are those of the local plane: between points of the ${cells} at most ` +
      `${stretch.toFixed(4)} times the distances on the ground, and at most 1.05 times up to ` +
      `${FURTHEST_KM.toLocaleString("en-US")} km from its centre. Points further away are refused.`,
    `For one report. k reports cost k times as much: k epsilon, with epsilon ${level}.`,
    "This mechanism tells much about the points it was built for to anyone who has it, even if its " +
      `file does not hold them: its ${cells} is fine where they are, and its outputs are near them. ` +
      "Epsilon limits what a report tells, not what the mechanism itself tells (docs/limitations.md).",
  ];
}
