// Rounds probabilities to the released counts: integers out of 2^63, which are audited exactly. The
// same steps as src/whereish/release/rounding.py; the proof is in docs/proofs/rounding.md.
import { ratioCheck } from "./audit.js";
import { LARGEST_MIX, MIX_GROWTH, ROUNDED_EXPONENT, ROUNDING_ERROR, SPARE_COUNTS } from "./constants.js";
import { GuaranteeError } from "./errors.js";
import { expm1, F64, floor, I32, toBigInt, toNumber, U64 } from "./primordials.js";

const TOTAL = 1n << 63n;

/**
 * Return { counts, mix }: audited counts for an n x m matrix that is private up to its last digits,
 * and the share of the uniform mechanism in them. If the audit refuses, the share is increased.
 *
 * @param shape.closest the smallest epsilon times distance of two places
 * @param shape.xy the places in the plane; `shape.metric`, n by n, replaces them if not null
 */
export function roundedPrivate(matrix, { n, m, epsilon, xy, metric, closest }) {
  const { width } = usedIn(matrix, n, m);
  let exponent = closest < ROUNDED_EXPONENT ? closest : ROUNDED_EXPONENT;
  if (exponent < 1e-300) exponent = 1e-300;
  let mix = (width * (ROUNDING_ERROR + (4 * width) / toNumber(TOTAL))) / expm1(exponent);
  if (!(mix < LARGEST_MIX)) mix = LARGEST_MIX;
  for (;;) {
    const counts = toCounts(matrix, n, m, mix);
    try {
      const goOn = ratioCheck(counts, n, m, epsilon, xy, metric);
      while (goOn() !== true);
      return { counts, mix };
    } catch (wrong) {
      if (!(wrong instanceof GuaranteeError) || mix >= LARGEST_MIX) throw wrong;
      mix = MIX_GROWTH * mix < LARGEST_MIX ? MIX_GROWTH * mix : LARGEST_MIX;
    }
  }
}

/** The smallest epsilon times distance of two of n places, for `roundedPrivate`. */
export function closestExponent(epsilon, n, distance) {
  let closest = ROUNDED_EXPONENT;
  for (let x = 0; x < n; x++) {
    for (let o = 0; o < n; o++) {
      const exponent = x === o ? closest : epsilon * distance(x, o);
      if (exponent < closest) closest = exponent;
    }
  }
  return closest;
}

/** The outputs that some place reports: the first `width` entries of `used`. */
function usedIn(matrix, n, m) {
  const used = new I32(m);
  let width = 0;
  for (let z = 0; z < m; z++) {
    let any = false;
    for (let x = 0; x < n && !any; x++) any = matrix[x * m + z] > 0;
    if (any) used[width++] = z;
  }
  return { used, width };
}

/**
 * Counts whose rows sum to exactly 2^63, with a share of the uniform mechanism. An output that no
 * place reports has no counts; every other has at least one count for every place.
 */
export function toCounts(matrix, n, m, mix) {
  const counts = new U64(n * m);
  const { used, width } = usedIn(matrix, n, m);
  const share = toBigInt(floor(mix * 2 ** 63)) / toBigInt(width);
  const uniform = mix > 0 && share < 1n ? 1n : share;
  const whole = TOTAL - toBigInt(width) * uniform;
  const rest = toNumber(whole - toBigInt(SPARE_COUNTS));
  const shares = new F64(width);
  const parts = new U64(width);
  for (let x = 0; x < n; x++) {
    let sum = 0;
    for (let u = 0; u < width; u++) sum += matrix[x * m + used[u]];
    let missing = whole;
    for (let u = 0; u < width; u++) {
      shares[u] = matrix[x * m + used[u]] / sum;
      parts[u] = toBigInt(floor(shares[u] * rest));
      missing -= parts[u];
    }
    const first = toNumber(missing);
    let most = 0;
    for (let u = 0; u < width; u++) {
      const more = toBigInt(floor(shares[u] * first));
      parts[u] += more;
      missing -= more;
      if (parts[u] > parts[most]) most = u;
    }
    parts[most] += missing;
    for (let u = 0; u < width; u++) counts[x * m + used[u]] = parts[u] + uniform;
  }
  return counts;
}
