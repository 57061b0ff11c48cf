// Greedy spanners: few edges whose shortest paths approximate every distance. The same steps, in the
// same order, as src/whereish/programs/spanner.py: the same metric gives the same edges.

import { InputError } from "../whereish/errors.js";

// Of three places on a line the longest pair is redundant, but their distances add up only up to
// rounding. A relative detour this small counts as none.
const COLLINEAR_TOLERANCE = 1e-10;
const LARGEST_DILATION = 1e6; // above, a spanner is a tree at any rate

/**
 * Build a greedy spanner (Algorithm 1 of the paper; Althofer, Das, Dobkin, Joseph, Soares: On sparse
 * spanners of weighted graphs, 1993). Take all pairs in increasing distance, and add a pair as an
 * edge if its shortest path along the edges so far is longer than `dilation` times its distance.
 *
 * `metric` has n x n distances, row by row.
 */
export function spannerOf(metric, dilation = 1) {
  const n = Math.round(Math.sqrt(metric?.length));
  if (!(n >= 1) || n * n !== metric.length) {
    throw new InputError("metric must have n x n distances, row by row");
  }
  if (typeof dilation !== "number" || !(dilation >= 1)) {
    throw new InputError("dilation must be a number of at least 1");
  }
  checkMetric(metric, n);
  const requested = Math.min(dilation, LARGEST_DILATION);
  const stretched = requested * (1 + COLLINEAR_TOLERANCE);
  const order = pairsByDistance(metric, n);
  const graph = new Float64Array(n * n).fill(Infinity); // d_G, the distances along the edges so far
  for (let x = 0; x < n; x++) graph[x * n + x] = 0;
  const edges = [];
  for (const at of order) {
    if (graph[at] > metric[at] * stretched) {
      const u = Math.floor(at / n);
      edges.push(u, at % n);
      addEdge(graph, n, u, at % n, metric[at]);
    }
  }
  let largest = 1;
  for (const at of order) largest = Math.max(largest, graph[at] / metric[at]);
  const lengths = new Float64Array(edges.length / 2);
  for (let e = 0; e < lengths.length; e++) lengths[e] = metric[edges[2 * e] * n + edges[2 * e + 1]];
  return {
    edges: Int32Array.from(edges),
    lengths,
    dilation: Math.min(largest, requested),
    exactDilation: largest,
  };
}

function checkMetric(metric, n) {
  for (let x = 0; x < n; x++) {
    for (let y = 0; y <= x; y++) {
      const distance = metric[x * n + y];
      if (x === y ? distance !== 0 : !(distance > 0 && distance < Infinity)) {
        throw new InputError("metric must be 0 on the diagonal, and finite and above 0 elsewhere");
      }
      if (distance !== metric[y * n + x]) {
        throw new InputError("metric must be symmetric");
      }
    }
  }
}

/** The positions x n + y, x < y, of all pairs: by distance, then row by row. */
function pairsByDistance(metric, n) {
  const order = new Int32Array((n * (n - 1)) / 2);
  for (let x = 0, next = 0; x < n; x++) {
    for (let y = x + 1; y < n; y++) order[next++] = x * n + y;
  }
  return order.sort((a, b) => metric[a] - metric[b] || a - b);
}

/**
 * Update the shortest-path distances for a new edge (u, v). It can only shorten paths between the
 * places nearer to u and those nearer to v.
 */
function addEdge(graph, n, u, v, length) {
  const nearU = [];
  const nearV = [];
  for (let x = 0; x < n; x++) {
    if (graph[u * n + x] + length < graph[v * n + x]) nearU.push(x);
    if (graph[v * n + x] + length < graph[u * n + x]) nearV.push(x);
  }
  const fromV = nearV.map((y) => graph[v * n + y]);
  for (const x of nearU) {
    const before = graph[u * n + x] + length;
    for (let b = 0; b < nearV.length; b++) {
      const y = nearV[b];
      const through = before + fromV[b];
      if (through < graph[x * n + y]) graph[x * n + y] = graph[y * n + x] = through;
    }
  }
}
