// The first mechanism of a level: planar Laplace noise, and the best remap for a public prior that is
// uniform in the square of the region. Far from its border, the point that is best for such a prior is
// the noisy point itself: what is left of the prior after a report is symmetric around it. Noise that
// leaves the square is moved to its nearest cell. So the remap is a table of equal cells, each
// reported by its centre: nothing has to be solved, and nothing depends on a position.
import { buildRecord, textsOf } from "../shared/vendor/whereish/certificate.js";
import { pack } from "../shared/vendor/whereish/container.js";
import { everywhereCertificate, MORE_BUILD } from "../shared/vendor/whereish/everywhere-certificate.js";
import { toUnits, UNITS_PER_KM } from "../shared/vendor/whereish/lattice.js";
import { unproject } from "../shared/vendor/whereish/unproject.js";

const MOST_CELLS = 100; // on each side: a file has at most 10,000 outputs

/** How many cells a side of the square has: half as wide as what the level hides, if that fits. */
const cellsOf = (km, metres) =>
  Math.max(2, Math.min(MOST_CELLS, Math.ceil((2 * km) / (metres / 2000))));

/** The bytes of a `.whereish` file for a region { lat, lon, km } and a level { epsilon, metres }. */
export function regionFile({ lat, lon, km }, { epsilon, metres }) {
  const side = cellsOf(km, metres);
  const width = (2 * km) / side;
  const borders = Array.from({ length: side - 1 }, (_, i) => toUnits((i + 1) * width - km));
  const outputs = new Float64Array(2 * side * side);
  const latlon = new Float64Array(2 * side * side);
  for (let z = 0; z < side * side; z++) {
    const middle = [(z % side) + 0.5, Math.floor(z / side) + 0.5].map((k) => k * width - km);
    outputs.set(middle, 2 * z);
    latlon.set(unproject([lat, lon], ...middle), 2 * z);
  }
  const axis = { dtype: "I64", shape: [side - 1], values: BigInt64Array.from(borders, BigInt) };
  const arrays = {
    table: { dtype: "I32", shape: [side, side], values: Int32Array.from({ length: side * side }, (_, z) => z) },
    xs: axis,
    ys: { ...axis, values: axis.values.slice() },
    outputs: { dtype: "F64", shape: [side * side, 2], values: outputs },
    outputs_latlon: { dtype: "F64", shape: [side * side, 2], values: latlon },
  };
  const build = buildRecord({ method: "planar-laplace-everywhere" }, false, MORE_BUILD);
  const kind = "planar-laplace";
  const checked = {
    vertices: null, cells: side * side, outputs: side * side, corners: 0, tightest: null, tightestAt: null,
  };
  const furthestKm = Math.hypot(km, km);
  const certificate = everywhereCertificate({ kind, epsilon, checked, furthestKm, build, personal: null });
  const facts = {
    kind, epsilon, epsilon_unit: "per km", units_per_km: UNITS_PER_KM,
    outputs: { plane: [lat, lon], cell_km: null }, build,
  };
  return pack(arrays, textsOf(facts, certificate, "2"));
}
