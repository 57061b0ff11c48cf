// What the header of a file says of a mechanism that was built here: the build record, the certificate
// and the guarantee in words. Names, order and words are those of the Python library
// (format/certificate.py, mechanisms/build.py); `whereish audit` computes the numbers again.
import { POLAR_RADIUS_KM, TELLS_PRIOR, VERSION, WORTH_SAYING } from "./constants.js";
import { EUCLIDEAN } from "./mechanism.js";

// Whole numbers; all others are written with a point, as Python writes a float.
const WHOLE = new Set([
  "places", "outputs", "ratios_checked", "variables", "constraints", "edges", "vertices", "cells",
  "corners_checked", "vertex", "output", "units_per_km",
]);

/** JSON as the library writes it: null for what is not finite, and a point in every float. */
function jsonOf(value, name = "") {
  if (typeof value === "number") {
    if (!Number.isFinite(value)) return "null";
    const text = String(value);
    return WHOLE.has(name) || /[.e]/.test(text) ? text : `${text}.0`;
  }
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map((part) => jsonOf(part, name)).join(",")}]`;
  const parts = Object.entries(value).map(([key, part]) => `${JSON.stringify(key)}:${jsonOf(part, key)}`);
  return `{${parts.join(",")}}`;
}

/** The texts of a header. */
export function textsOf(facts, certificate, version) {
  return {
    format: "whereish mechanism", version, mechanism: jsonOf(facts), certificate: jsonOf(certificate),
  };
}

const BUILD = {
  method: null, solver: null, form: null, seconds: null, variables: null, constraints: null,
  edges: null, dilation: null, requested_dilation: null, repair_mix: null, repair_cost_km: null,
  lower_bound_km: null, gap: null, program_gap: null, stopped: null, notes: [],
};
// Fields that say nothing of the prior but what the counts say.
const WITHOUT_PRIOR = [
  "method", "solver", "form", "variables", "constraints", "edges", "dilation", "requested_dilation",
  "stopped",
];

/** A build record. If the file holds no prior, nothing in it is computed from one. */
export function buildRecord(fields, keepPrior, more = {}) {
  if (keepPrior) return { ...BUILD, ...more, ...fields };
  const kept = WITHOUT_PRIOR.filter((name) => name in fields).map((name) => [name, fields[name]]);
  return { ...BUILD, ...more, ...Object.fromEntries(kept) };
}

/** When and with what a certificate was made. */
export const madeNow = () => ({
  created: new Date().toISOString().replace(/\.\d+Z$/, "+00:00"),
  versions: { whereish: VERSION, client: "javascript" },
});

/**
 * The certificate of a file of version 1 whose epsilon is per km.
 *
 * @param about epsilon, n, m, reachKm, furthestKm (from the centre of the plane), slack, mix, method,
 *   build (the record), and personal: what is computed from the prior, or null
 */
export function certificateOf({ epsilon, n, m, reachKm, furthestKm, slack, mix, build, personal }) {
  const own = (name) => personal?.[name] ?? null;
  return {
    certified: true,
    epsilon,
    epsilon_unit: "per km",
    metric: EUCLIDEAN,
    places: n,
    outputs: m,
    ratios_checked: n * (n - 1) * m,
    worst_slack: slack.least,
    worst_slack_at: { places: slack.pair, output: slack.output },
    largest_snap_km: reachKm,
    rounding_mix: mix,
    quality_loss_km: own("loss"),
    rounding_cost_km: own("roundingCost"),
    lower_bound_km: own("bound"),
    gap: own("gap"),
    method: build.method,
    solver: build.solver,
    requested_dilation: build.requested_dilation,
    dilation: build.dilation,
    repair_mix: build.repair_mix,
    repair_cost_km: build.repair_cost_km,
    stopped: build.stopped,
    seconds: build.seconds,
    prior_sha256: own("priorDigest"),
    ...madeNow(),
    guarantee: guarantee(epsilon, n, reachKm, furthestKm),
  };
}

function guarantee(epsilon, n, reachKm, furthestKm) {
  const level = general(epsilon, 6);
  const words = [
    `Between the ${n} places: from two of them d km apart no report is more than exp(${level} d) ` +
      "times likelier from one than from the other, whatever is known already. That is twice at " +
      `${general(Math.LN2 / epsilon, 3)} km.`,
    `A raw point is reported as its nearest place, up to ${general(reachKm, 3)} km away inside the ` +
      `area: between two raw points d km apart it is exp(${level} (d + ${general(2 * reachKm, 3)})).`,
    ...planeWords(epsilon, furthestKm),
    `For one report. k reports cost k times as much: k epsilon, with epsilon ${level}.`,
    TELLS_PRIOR,
  ];
  return words;
}

/** How many times longer than on the ground a distance is in the plane, up to so far from its centre. */
export function stretchWithin(km) {
  const angle = km / POLAR_RADIUS_KM;
  return angle > 0 ? angle / Math.sin(angle) : 1;
}

/** How much longer a distance is in the plane than on the ground, if that is worth saying. */
function planeWords(epsilon, furthestKm) {
  const stretch = stretchWithin(furthestKm);
  if (!(stretch > WORTH_SAYING)) return [];
  const most = (Math.ceil(1e4 * stretch) / 1e4).toFixed(4);
  return [
    `Distances are those of the local plane. They are up to ${most} times the distances on the ` +
      `ground: epsilon is at most ${general(epsilon * stretch * (1 + 1e-5), 6)} per km there.`,
  ];
}

/** A number with so many digits, in the form of Python's format "g". */
export function general(value, digits) {
  if (value === 0) return "0";
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  const power = Number(exponent);
  const bare = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (power >= -4 && power < digits) return bare(value.toFixed(digits - 1 - power));
  const size = String(Math.abs(power)).padStart(2, "0");
  return `${bare(mantissa)}e${power < 0 ? "-" : "+"}${size}`;
}
