// A lower bound on the quality loss of every private mechanism, from dual multipliers. Like the
// audit, it does not know how a mechanism was built. Every rounding is downwards. docs/proofs/bound.md
// has the proof, and src/whereish/measures/bound.py the same bound in Python.
import { bitLength, exactParts, expDown, FRACTION_BITS, KEPT_BITS, shifted } from "./audit.js";
import { GuaranteeError } from "./errors.js";
import { create, isInteger, lengthOf, toBigInt, toNumber } from "./primordials.js";

const F = toBigInt(FRACTION_BITS);
const ONE = 1n << F;
const UNIT = 256; // sums are whole numbers of 2^-UNIT
const ROOM = 2 ** -44; // relative, for rounding in the arguments: distances, priors, losses
const LARGEST = 1e100; // of a multiplier

/** A lower bound of ln 2 in units of 2^-F: the sum of 1 / (k 2^k), every term rounded down. */
function ln2Down() {
  let sum = 0n;
  for (let k = 1n; k <= F; k++) sum += (ONE >> k) / k;
  return sum;
}
const LN2 = ln2Down();

/** A number times a power of two, rounded up. */
const shiftedUp = (number, by) => -shifted(-number, by);

/**
 * A lower bound of exp(-y), y >= 0 in units of 2^-F: the number `size` 2^`power`.
 *
 * With k = floor(y / ln 2) + 1, exp(-y) is 2^-k exp(k ln 2 - y). ln 2 is rounded down, so the last
 * exponent is too, and it is not negative.
 */
function expMinusDown(y) {
  const k = y / LN2 + 1n;
  const found = expDown(k * LN2 - y);
  return { size: found.size, power: toNumber(found.power - k) - KEPT_BITS };
}

/**
 * Return a lower bound on the quality loss of every mechanism with this privacy, in km, or 0:
 *
 *     sum over x of min over z of  prior(x) loss(x, z) - (A'y)(x, z).
 *
 * In A'y, the multiplier y of a row adds y at its right place and takes y exp(-eps d) from its left
 * place. For y >= 0 that is a lower bound, by weak duality. It holds for these numbers and for all
 * within a relative 2^-51 of them.
 *
 * @param prior n numbers
 * @param loss n x m, row by row
 * @param metric n x n, row by row
 * @param proof { output, left, right, value }: rows k(right, z) >= exp(-eps d) k(left, z)
 */
export function lowerBoundKm({ prior, loss, metric, epsilon, proof }) {
  const n = lengthOf(prior);
  const m = lengthOf(loss) / n;
  checkRows(proof, n, m);
  const cells = create(null); // prior loss - A'y of every (x, z), in units of 2^-UNIT
  for (let x = 0; x < n; x++) {
    const weight = exactParts(prior[x]);
    for (let z = 0; z < m; z++) {
      const away = exactParts(loss[x * m + z]);
      // Less by a relative 2^-49: what the costs may be off counts before they cancel with y.
      const less = weight.m * away.m * ((1n << 49n) - 1n);
      cells[x * m + z] = shifted(less, weight.e + away.e - 49 + UNIT);
    }
  }
  const decay = create(null);
  const level = exactParts(epsilon);
  const decayOf = (left, right) => {
    const there = metric[left * n + right];
    const back = metric[right * n + left];
    const far = exactParts(there > back ? there : back); // the longer one is safe
    // eps d (1 + 2^-50), rounded up
    const y = level.m * far.m * ((1n << 50n) + 1n);
    return expMinusDown(shiftedUp(y, level.e + far.e - 50 + FRACTION_BITS));
  };
  const rows = lengthOf(proof.value);
  for (let i = 0; i < rows; i++) {
    const z = proof.output[i];
    const left = proof.left[i];
    const right = proof.right[i];
    const y = exactParts(proof.value[i]);
    const factor = (decay[left * n + right] ??= decayOf(left, right));
    cells[left * m + z] += shifted(y.m * factor.size, y.e + factor.power + UNIT);
    cells[right * m + z] -= shiftedUp(y.m, y.e + UNIT);
  }
  let sum = 0n;
  for (let x = 0; x < n; x++) {
    let least = cells[x * m];
    for (let z = 1; z < m; z++) if (cells[x * m + z] < least) least = cells[x * m + z];
    sum += least;
  }
  return doubleDown(sum) * (1 - ROOM) * (1 - 2 ** -52);
}

/** The relative gap between a loss and a lower bound, rounded up. */
export function relativeGap(loss, bound) {
  if (!(loss > 0)) return 0;
  const gap = (loss - bound) / loss + ROOM;
  return gap < 0 ? 0 : gap > 1 ? 1 : gap;
}

function checkRows({ output, left, right, value }, n, m) {
  const rows = lengthOf(value);
  const isOf = (number, most) => isInteger(number) && number >= 0 && number < most;
  let sane = lengthOf(output) === rows && lengthOf(left) === rows && lengthOf(right) === rows;
  for (let i = 0; sane && i < rows; i++) {
    sane = isOf(output[i], m) && isOf(left[i], n) && isOf(right[i], n) && left[i] !== right[i] &&
      value[i] >= 0 && value[i] <= LARGEST;
  }
  if (!sane) {
    throw new GuaranteeError("not a proof: a row must have an output, two places and a multiplier");
  }
}

/** The largest double not above a number of units of 2^-UNIT; 0 for a negative number. */
function doubleDown(number) {
  if (number <= 0n) return 0;
  const drop = bitLength(number) - 53;
  const size = toNumber(drop > 0 ? number >> toBigInt(drop) : number);
  return size * 2 ** ((drop > 0 ? drop : 0) - UNIT);
}
