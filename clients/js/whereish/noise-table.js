// The probabilities of planar Laplace noise in the cells of a table, for displays and averages:
// numerical integrals. Reports are not drawn from them (see noise.js), and the guarantee does not
// depend on them.
import { exp, F64, I32, lengthOf, sortTyped, sqrt } from "./primordials.js";

const BEYOND = 40; // how far the integration goes, in units of 1 / epsilon: exp(-40) is left
const FIRST = 0.25; // the interval beside the point, in the same units
const GROWTH = 1.35; // from one interval to the next, away from the point
// Gauss-Legendre with three nodes on [-1, 1].
const NODES = [-sqrt(0.6), 0, sqrt(0.6)];
const WEIGHTS = [5 / 9, 8 / 9, 5 / 9];

/** How many of increasing numbers are at or below a value, a number or a BigInt. */
export function countUpTo(axis, value) {
  const length = lengthOf(axis);
  let count = 0;
  for (let i = 0; i < length; i++) if (axis[i] <= value) count++;
  return count;
}

/**
 * Nodes and weights on one axis: intervals that grow away from the coordinate `at`, cut at the
 * borders. `cells` has the number of the cell of each node.
 */
function quadrature(borders, at, epsilon) {
  const most = lengthOf(borders);
  let steps = 0;
  for (let away = 0, width = FIRST; away < BEYOND; width *= GROWTH) {
    away += width;
    steps++;
  }
  const furthest = BEYOND / epsilon;
  const first = countUpTo(borders, at - furthest);
  const inside = countUpTo(borders, at + furthest) - first;
  const sides = new F64(2 * steps + 1 + inside);
  let used = 0;
  sides[used++] = at;
  for (let k = 0, away = 0, width = FIRST; k < steps; k++, width *= GROWTH) {
    away += width;
    const km = (away < BEYOND ? away : BEYOND) / epsilon;
    sides[used++] = at - km;
    sides[used++] = at + km;
  }
  for (let i = first; i < most && i < first + inside; i++) sides[used++] = borders[i];
  sortTyped(sides, (one, other) => one - other);
  const nodes = new F64(3 * (used - 1));
  const weights = new F64(3 * (used - 1));
  const cells = new I32(3 * (used - 1));
  for (let i = 0; i + 1 < used; i++) {
    const half = (sides[i + 1] - sides[i]) / 2;
    const middle = (sides[i + 1] + sides[i]) / 2;
    const cell = countUpTo(borders, middle);
    for (let k = 0; k < 3; k++) {
      nodes[3 * i + k] = middle + half * NODES[k] - at;
      weights[3 * i + k] = half * WEIGHTS[k];
      cells[3 * i + k] = cell;
    }
  }
  return { nodes, weights, cells };
}

/**
 * The probability of each of m outputs at a point in km: the density of the noise, integrated over
 * the cells of the table. The result is off by about 1e-5.
 *
 * @param xs,ys Float64Array, the borders of columns and rows in km
 * @param table the output of each cell, row by row
 */
export function noiseShares(xs, ys, table, m, epsilon, east, north) {
  const x = quadrature(xs, east, epsilon);
  const y = quadrature(ys, north, epsilon);
  const columns = lengthOf(xs) + 1;
  const wide = lengthOf(x.nodes);
  const high = lengthOf(y.nodes);
  const found = new F64(m);
  let total = 0;
  for (let j = 0; j < high; j++) {
    const row = y.cells[j] * columns;
    const square = y.nodes[j] * y.nodes[j];
    for (let i = 0; i < wide; i++) {
      const away = sqrt(x.nodes[i] * x.nodes[i] + square);
      const mass = exp(-epsilon * away) * x.weights[i] * y.weights[j];
      found[table[row + x.cells[i]]] += mass;
      total += mass;
    }
  }
  for (let z = 0; z < m; z++) found[z] /= total;
  return found;
}
