// Mechanisms on a lattice: the test vectors that Python shares, draws at raw points, the ledger and
// the wrapped geolocation. Run by tests/test_client_lattice.py.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  BudgetError, EverywhereMechanism, FormatError, InputError, project, readMechanism, Reporter, wrapGeolocation,
} from "../whereish.js";
import { choosesUpper, toUnits } from "../whereish/lattice.js";

const shared = JSON.parse(readFileSync(new URL("lattice-vectors.json", import.meta.url), "utf8"));
const mechanisms = {};
for (const { name, file } of shared.mechanisms) {
  mechanisms[name] = await readMechanism(Buffer.from(file, "base64"));
}
const { city } = mechanisms;
const TOTAL = 1n << 63n;
const DRAWS = Number(process.env.WHEREISH_DRAWS ?? 100_000);

/** A source of these words, which counts how many were taken. */
function source(words) {
  const left = words.map(BigInt);
  const next = () => {
    assert.ok(left.length > 0, "no more words than the vector has");
    return left.shift();
  };
  return { next, left };
}

/** 63 random bits from a seed, fast: two xorshift generators of 32 bits. */
function seeded(seed) {
  let a = seed | 1;
  let b = ~seed | 1;
  const step = (x) => {
    x ^= x << 13;
    x ^= x >>> 17;
    return x ^ (x << 5);
  };
  for (let i = 0; i < 20; i++) [a, b] = [step(a), step(b)];
  const words = new BigUint64Array(1);
  const halves = new Uint32Array(words.buffer);
  return () => {
    halves[0] = a = step(a);
    halves[1] = (b = step(b)) & 0x7fffffff;
    return words[0];
  };
}

function shelf(kept = {}) {
  return { kept, getItem: (key) => kept[key] ?? null, setItem: (key, value) => (kept[key] = value) };
}

test("every vector in km is followed bit for bit", () => {
  let count = 0;
  for (const { name, vectors } of shared.mechanisms) {
    const mechanism = mechanisms[name];
    for (const vector of vectors) {
      const [east, north] = vector.km;
      assert.deepEqual([toUnits(east), toUnits(north)], vector.units);
      const at = mechanism.locateKm(east, north);
      for (const part of ["cell", "corner", "steps", "widths", "square"]) assert.deepEqual(at[part], vector[part]);
      const { next, left } = source(vector.words);
      assert.equal(mechanism.drawKm(east, north, next), vector.output);
      assert.equal(left.length, 0);
      // The corner, from the words and the whole numbers alone.
      const more = source(vector.words.slice(3));
      const chosen = [0, 1].map((axis) => {
        const single = mechanism.lattice[axis ? "ys" : "xs"].length === 1;
        const interval = { steps: vector.steps[axis], width: vector.widths[axis] };
        const upper = choosesUpper(BigInt(vector.words[axis]), interval, more.next);
        return vector.corner[axis] + (upper && !single ? 1 : 0);
      });
      assert.equal(chosen[1] * mechanism.lattice.xs.length + chosen[0], vector.vertex);
      const row = mechanism.countsOf(vector.vertex);
      let sum = 0n;
      const output = row.findIndex((part) => BigInt(vector.words[2]) < (sum += part));
      assert.equal(output, vector.output);
      count++;
    }
  }
  assert.ok(count > 300, `${count} vectors`);
});

test("every vector in degrees: a micrometre apart, and the same corner and report", () => {
  let count = 0;
  let furthest = 0;
  for (const { name, vectors } of shared.mechanisms) {
    const mechanism = mechanisms[name];
    for (const vector of vectors) {
      if (!vector.degrees) continue;
      const [lat, lon] = vector.degrees;
      const xy = project(mechanism.plane, lat, lon);
      for (const axis of [0, 1]) {
        const off = Math.abs(toUnits(xy[axis]) - vector.units[axis]);
        furthest = Math.max(furthest, off);
      }
      const at = mechanism.locate(lat, lon);
      assert.deepEqual([at.cell, at.corner], [vector.cell, vector.corner]);
      assert.equal(mechanism.draw(lat, lon, source(vector.words).next), vector.output);
      count++;
    }
  }
  assert.ok(count > 60, `${count} vectors`);
  assert.ok(furthest <= shared.tolerance_units, `${furthest} units`);
});

/** The chi-square statistic of draws at a point in km against the interpolated counts. */
function chiSquare(mechanism, [east, north], size, next) {
  const { corner, steps, widths } = mechanism.locateKm(east, north);
  const { xs } = mechanism.lattice;
  const shares = steps.map((step, axis) => step / widths[axis]);
  const expected = new Array(mechanism.reports).fill(0);
  for (const [dx, dy] of [[0, 0], [1, 0], [0, 1], [1, 1]]) {
    const weight = (dx ? shares[0] : 1 - shares[0]) * (dy ? shares[1] : 1 - shares[1]);
    const row = mechanism.countsOf((corner[1] + dy) * xs.length + corner[0] + dx);
    row.forEach((count, z) => (expected[z] += size * weight * (Number(count) / 2 ** 63)));
  }
  const seen = new Array(mechanism.reports).fill(0);
  for (let i = 0; i < size; i++) seen[mechanism.drawKm(east, north, next)]++;
  return expected.reduce((sum, mean, z) => sum + (seen[z] - mean) ** 2 / mean, 0);
}

test("many draws at a raw point have the interpolated probabilities, and a biased corner is seen", () => {
  const { xs, ys } = city.lattice; // 5 outputs: 4 degrees of freedom, p = 1e-6 at 33.4
  for (const [i, j] of [[1, 2], [5, 0], [3, 3]]) {
    const point = [xs[i] + 0.31 * (xs[i + 1] - xs[i]), ys[j] + 0.57 * (ys[j + 1] - ys[j])];
    const found = chiSquare(city, point, DRAWS, seeded(11 * i + j));
    assert.ok(found < 33.4, `${found}`);
    // The same words, the first two with 1 bit instead of 63: corners have multiples of a half.
    const next = seeded(11 * i + j);
    let calls = 0;
    const coarse = () => (calls++ % 3 === 2 ? next() : (next() >> 62n) << 62n);
    const biased = chiSquare(city, point, DRAWS, coarse);
    assert.ok(biased > 60 * (DRAWS / 100_000), `${biased}`);
  }
});

test("the draws of the system's generator do the same", () => {
  const { line } = mechanisms; // 4 outputs: 3 degrees of freedom, p = 1e-6 at 30.7
  const { ys } = line.lattice;
  const at = [2.5, (ys[1] + ys[2]) / 2];
  const mean = line.probabilitiesKm(...at);
  assert.ok(Math.abs(mean.reduce((sum, share) => sum + share, 0) - 1) < 1e-12);
  const seen = mean.map(() => 0);
  for (let i = 0; i < 40_000; i++) seen[line.drawKm(...at)]++;
  const found = mean.reduce((sum, share, z) => sum + (seen[z] - 40_000 * share) ** 2 / (40_000 * share), 0);
  assert.ok(found < 30.7, `${found}`);
});

test("no point is snapped: probabilities of any two points keep their ratio", () => {
  const next = seeded(5);
  const uniform = () => Number(next()) / 2 ** 63;
  for (const mechanism of Object.values(mechanisms)) {
    const { xs, ys } = mechanism.lattice;
    const side = (axis) => axis[0] - 0.1 + uniform() * (axis.at(-1) - axis[0] + 0.2);
    for (let i = 0; i < 500; i++) {
      const one = [side(xs), side(ys)];
      const size = 10 ** (-6 * uniform());
      const other = [one[0] + size * (uniform() - 0.5), one[1] + size * (uniform() - 0.5)];
      const [p, q] = [one, other].map((point) => mechanism.probabilitiesKm(...point));
      const most = Math.exp(mechanism.epsilon * Math.hypot(one[0] - other[0], one[1] - other[1])) * (1 + 1e-9);
      p.forEach((share, z) => assert.ok(share <= most * q[z] && q[z] <= most * share));
    }
  }
});

test("a point outside is projected onto the rectangle, and one that is too far is refused", () => {
  const { xs, ys } = city.lattice;
  const at = city.locateKm(xs.at(-1) + 3, ys[0] - 4);
  assert.deepEqual([at.outside, at.corner], [true, [xs.length - 2, 0]]);
  assert.ok(Math.abs(at.movedKm - 5) < 1e-9);
  assert.equal(at.steps[0], at.widths[0]);
  assert.equal(at.steps[1], 0);
  assert.equal(typeof city.report(41.4, 2.17).output, "number"); // 800 km away
  assert.throws(() => city.report(-33.9, 151.2), /within 3400 km/);
  assert.throws(() => mechanisms.line.report(48, 2), /does not lie on the earth/);
});

test("what is no point, word, vertex or output is refused, and nothing can be changed", () => {
  for (const point of [[91, 0], [0, 181], [NaN, 0], [undefined, 0], ["48", 2]]) {
    for (const ask of ["locate", "draw", "report"]) assert.throws(() => city[ask](...point), InputError);
  }
  for (const point of [[NaN, 0], [0, Infinity], ["1", 0], [1n, 0]]) {
    for (const ask of ["locateKm", "drawKm", "probabilitiesKm"]) assert.throws(() => city[ask](...point), InputError);
  }
  for (const word of [-1n, TOTAL, 5, null, undefined]) assert.throws(() => city.drawKm(0, 0, () => word), InputError);
  assert.throws(() => city.drawKm(0, 0, 5n), InputError);
  for (const number of [-1, city.vertices, 0.5, "0"]) assert.throws(() => city.countsOf(number), InputError);
  for (const number of [-1, city.reports, null]) assert.throws(() => city.output(number), InputError);
  for (const share of [0, 2, NaN]) assert.throws(() => city.accuracyKm(share), InputError);
  assert.throws(() => (city.epsilon = 9), TypeError);
  assert.throws(() => (city.certificate.epsilon = 9), TypeError);
  assert.throws(() => city.lattice.xs.push(9), TypeError);
  assert.throws(() => new EverywhereMechanism({}, {}), FormatError);
  assert.deepEqual(
    [city.certified, city.kind, city.epsilonUnit, city.metricDigest, city.holdsPrior],
    [true, "lattice", "per km", null, false],
  );
});

test("accuracy is the radius of most reports, at the given points or where reports are", () => {
  const rows = Array.from({ length: city.vertices }, (_, v) => city.countsOf(v).map((count) => Number(count) / 2 ** 63));
  const outputs = Array.from({ length: city.reports }, (_, z) => city.output(z));
  const reported = outputs.map((_, z) => rows.reduce((sum, row) => sum + row[z], 0) / city.vertices);
  const check = (said, points, weights) => {
    let within = 0;
    let below = 0;
    points.forEach((at, i) => {
      city.probabilitiesKm(...at).forEach((share, z) => {
        const away = Math.hypot(...outputs[z].xyKm.map((value, axis) => value - at[axis]));
        if (away <= said + 1e-6) within += weights[i] * share;
        if (away < said - 1e-6) below += weights[i] * share;
      });
    });
    assert.ok(within >= 0.95 - 1e-9 && below < 0.95, `${within} ${below}`);
  };
  check(city.accuracyKm(), outputs.map(({ xyKm }) => xyKm), reported);
  const visits = { points: [[48.8612, 2.3534], [48.87, 2.36]], weights: [0.7, 0.3] };
  check(city.accuracyKm(0.95, visits), visits.points.map((point) => project(city.plane, ...point)), visits.weights);
  for (const wrong of [{ points: [], weights: [] }, { points: [[1, 2]], weights: [1, 2] }, { points: [[1, 2]], weights: [-1] }]) {
    assert.throws(() => city.accuracyKm(0.95, wrong), InputError);
  }
});

test("a square of 100 m gets the same report all period, a new one costs", () => {
  const storage = shelf();
  const options = { newPlaces: 2, clock: () => 0 };
  const reporter = new Reporter(city, storage, options);
  const here = [48.8612, 2.3534];
  const first = reporter.report(...here);
  assert.deepEqual([first.fresh, first.cost], [true, city.epsilon]);
  const beside = [here[0] + 1e-6, here[1]];
  assert.equal(city.locate(...beside).square, city.locate(...here).square);
  for (let i = 0; i < 30; i++) {
    const again = new Reporter(city, storage, options).report(...beside);
    assert.deepEqual([again.output, again.fresh, again.cost], [first.output, false, 0]);
  }
  const far = [41.4, 2.17]; // outside: no option is needed
  assert.notEqual(city.locate(...far).square, city.locate(...here).square);
  assert.equal(city.locate(41.3, 2.17).square, city.locate(...far).square); // the same corner
  assert.throws(() => new Reporter(city, shelf(), { newPlaces: 1, outside: "nearest" }), /must not be given/);
  assert.equal(reporter.report(...far).fresh, true);
  assert.equal(reporter.state.newPlacesLeft, 0);
  assert.throws(() => reporter.report(48.875, 2.37), BudgetError);
  const squares = [[0, 0], [0.0999, 0], [0.1, 0], [0, -1e-9], [-0.05, 0.1]].map(([x, y]) => city.locateKm(x, y).square);
  const first0 = 2 ** 41 + 2 ** 20;
  assert.deepEqual(squares, [first0, first0, first0 + 2 ** 21, first0 - 1, first0 - 2 ** 21 + 1]);
});

test("a page gets reports of the point itself, and nothing that tells more", () => {
  const position = {
    coords: { latitude: 48.8612, longitude: 2.3534, accuracy: 5, altitude: 35, speed: 1.5, heading: 90 },
    timestamp: 1,
  };
  const geolocation = {
    getCurrentPosition(succeed) { succeed(position); },
    watchPosition(succeed) { succeed(position); return 7; },
  };
  const navigator = { geolocation };
  const undo = wrapGeolocation(navigator, city, { storage: shelf(), newPlaces: 3 });
  const seen = [];
  navigator.geolocation.getCurrentPosition((found) => seen.push(found), assert.fail, { enableHighAccuracy: true });
  assert.equal(navigator.geolocation.watchPosition((found) => seen.push(found)), 7);
  assert.equal(seen.length, 2);
  const outputs = Array.from({ length: city.reports }, (_, z) => city.output(z).latlon.join());
  for (const { coords } of seen) {
    assert.ok(outputs.includes([coords.latitude, coords.longitude].join()));
    assert.equal(coords.accuracy, city.accuracyKm() * 1000);
    for (const name of ["altitude", "altitudeAccuracy", "heading", "speed"]) assert.equal(coords[name], null);
  }
  undo();
  const levels = { "https://map": "real", "https://news": city };
  const other = wrapGeolocation(navigator, mechanisms.vertex, { storage: shelf(), newPlaces: 3, origin: "https://news", levels });
  navigator.geolocation.getCurrentPosition(({ coords }) => assert.equal(coords.accuracy, city.accuracyKm() * 1000));
  other();
});
