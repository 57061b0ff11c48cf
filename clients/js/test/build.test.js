// The steps of a build and of a profile, one by one, on generated inputs: the definitions are checked
// by loops that share no code with the client. Run by tests/test_device_build.py.
import assert from "node:assert/strict";
import { test } from "node:test";
import { erfc } from "../build/erfc.js";
import { releasedLattice } from "../build/lattice-rounding.js";
import { loopsOf } from "../build/loops.js";
import { repaired } from "../build/repair.js";
import { toCounts } from "../whereish/rounding.js";
import { clustered, medians } from "../build/visits.js";
import { Learner, profileOf, readTraces, TraceError } from "../profile.js";
import { compiled } from "../solve/core.js";
import { general } from "../whereish/certificate.js";
import { project } from "../whereish/plane.js";
import { unproject } from "../whereish/unproject.js";

const TOTAL = 1n << 63n;

/** Numbers from 0 to 1 that are the same in every run (a linear congruential generator). */
function random(seed) {
  let state = seed;
  return () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
}

function placesOf(next, n) {
  const xy = Array.from({ length: n }, () => [4 * next(), 4 * next()]);
  return Float64Array.from({ length: n * n }, (_, at) => {
    const [a, b] = [xy[Math.floor(at / n)], xy[at % n]];
    return Math.hypot(a[0] - b[0], a[1] - b[1]);
  });
}

/** A private matrix: exponential in the distance, with rows of sum 1. */
function privateMatrix(metric, n, epsilon) {
  const matrix = metric.map((distance) => Math.exp((-epsilon / 2) * distance));
  for (let x = 0; x < n; x++) {
    const row = matrix.subarray(x * n, (x + 1) * n);
    const sum = row.reduce((a, b) => a + b);
    row.forEach((share, z) => (row[z] = share / sum));
  }
  return matrix;
}

test("a repaired matrix is private, and near to the one that was given", async () => {
  const loops = loopsOf(await compiled());
  for (let seed = 1; seed < 20; seed++) {
    const next = random(seed);
    const n = 2 + Math.floor(20 * next());
    const epsilon = 10 ** (2 * next() - 0.5);
    const metric = placesOf(next, n);
    const good = privateMatrix(metric, n, epsilon);
    // As a solver leaves it: what is small is zero or negative, rows are off in the ninth digit.
    const bad = good.map((share) => (share < 1e-6 ? -1e-12 * next() : share * (1 + 1e-9 * next())));
    const { matrix, mix } = repaired(bad, { n, m: n, epsilon, metric, loops });
    assert.ok(mix < 1e-12, `${mix}`);
    for (let x = 0; x < n; x++) {
      const row = matrix.subarray(x * n, (x + 1) * n);
      assert.ok(Math.abs(row.reduce((a, b) => a + b) - 1) < 1e-12);
      for (let o = 0; o < n; o++) {
        for (let z = 0; z < n; z++) {
          assert.ok(matrix[x * n + z] <= Math.exp(epsilon * metric[x * n + o]) * matrix[o * n + z] * (1 + 1e-12));
          assert.ok(matrix[x * n + z] > 0 || matrix[o * n + z] === 0);
          assert.ok(Math.abs(matrix[x * n + z] - Math.max(bad[x * n + z], 0)) < 1e-5);
        }
      }
    }
  }
});

test("a matrix without probabilities is refused", async () => {
  const loops = loopsOf(await compiled());
  const metric = Float64Array.of(0, 1, 1, 0);
  assert.throws(() => repaired(new Float64Array(4), { n: 2, m: 2, epsilon: 1, metric, loops }), /nothing to report/);
});

test("rows of counts sum to 2^63, near to the probabilities, and no zero faces a count", () => {
  for (let seed = 1; seed < 30; seed++) {
    const next = random(seed);
    const [n, m] = [1 + Math.floor(5 * next()), 1 + Math.floor(9 * next())];
    const rows = Array.from({ length: n }, () => Array.from({ length: m }, (_, z) => (z === 1 ? 0 : next() ** 9 + 1e-30)));
    const matrix = Float64Array.from(rows.flatMap((row) => row.map((share) => share / row.reduce((a, b) => a + b))));
    const mix = next() * 1e-6;
    const counts = toCounts(matrix, n, m, mix);
    const used = Array.from({ length: m }, (_, z) => z).filter((z) => m === 1 || z !== 1).length;
    for (let x = 0; x < n; x++) {
      let sum = 0n;
      for (let z = 0; z < m; z++) {
        const count = counts[x * m + z];
        sum += count;
        assert.equal(count === 0n, m > 1 && z === 1);
        const wanted = z === 1 && m > 1 ? 0 : (1 - mix) * matrix[x * m + z] + mix / used;
        assert.ok(Math.abs(Number(count) / 2 ** 63 - wanted) < 1e-14);
      }
      assert.equal(sum, TOTAL);
    }
  }
});

test("counts on a lattice obey every corner, in exact arithmetic", () => {
  const lattice = { xs: Float64Array.of(0, 0.5, 1.25), ys: Float64Array.of(0, 1) };
  const next = random(5);
  const epsilon = 1.5;
  const matrix = Float64Array.from({ length: 12 }, (_, at) => {
    const height = 0.5 + 0.18 * (at % 2 ? -1 : 1) * Math.floor(at / 2) * 0.3;
    return height + 1e-9 * next();
  });
  const { counts, used, mix } = releasedLattice(matrix, 2, lattice, epsilon);
  assert.deepEqual(used, [0, 1]);
  assert.ok(mix < 1e-6);
  const at = (ix, iy, z) => Number(counts[(iy * 3 + ix) * 2 + z]);
  for (let z = 0; z < 2; z++) {
    for (let ix = 0; ix < 3; ix++) {
      for (let iy = 0; iy < 2; iy++) {
        for (const ax of [ix - 1, ix + 1].filter((k) => k >= 0 && k < 3)) {
          const slope = Math.hypot((at(ax, iy, z) - at(ix, iy, z)) / (lattice.xs[ax] - lattice.xs[ix]), at(ix, 1 - iy, z) - at(ix, iy, z));
          assert.ok(slope <= epsilon * at(ix, iy, z) * (1 + 1e-12));
        }
      }
    }
  }
  const steep = Float64Array.of(0.9, 0.1, 0.1, 0.9, 0.9, 0.1, 0.1, 0.9, 0.9, 0.1, 0.1, 0.9);
  assert.throws(() => releasedLattice(steep, 2, lattice, epsilon), /must be private everywhere/);
});

test("erfc, numbers in words, clusters and medians are what they are by definition", () => {
  const known = [[0, 1], [0.5, 0.4795001221869535], [1, 0.15729920705028513], [2, 0.004677734981047266],
    [3, 2.209049699858544e-5], [6, 2.1519736712498913e-17], [30, 0]];
  for (const [x, value] of known) assert.ok(Math.abs(erfc(x) - value) <= 1e-13 * value + 1e-17, `${x}`);
  for (const [value, digits, text] of [[1.07, 6, "1.07"], [1234567, 6, "1.23457e+06"], [0.00001234, 3, "1.23e-05"],
    [100, 3, "100"], [1000, 3, "1e+03"], [0.0001, 6, "0.0001"], [0, 3, "0"], [0.6478, 3, "0.648"]]) {
    assert.equal(general(value, digits), text);
  }
  const next = random(3);
  const count = 60;
  const xy = Float64Array.from({ length: 2 * count }, () => Math.floor(9 * next()) / 3);
  const weights = new Float64Array(count).fill(1 / count);
  for (const most of [3, 10, 1000]) {
    const groups = clustered({ xy, weights, count }, most);
    assert.ok(groups.count <= most);
    assert.ok(Math.abs(groups.weights.reduce((a, b) => a + b) - 1) < 1e-12);
    for (let c = 0; c < groups.count; c++) {
      const members = Array.from({ length: count }, (_, i) => i).filter((i) => groups.of[i] === c);
      const mean = members.reduce((sum, i) => sum + xy[2 * i], 0) / members.length;
      assert.ok(Math.abs(mean - groups.xy[2 * c]) < 1e-12);
    }
  }
  const share = Float64Array.from({ length: count }, () => next() ** 3);
  const cost = (x, y) => share.reduce((sum, w, i) => sum + w * Math.hypot(xy[2 * i] - x, xy[2 * i + 1] - y), 0);
  const [x, y] = medians(share, 1, xy);
  for (let k = 0; k < 200; k++) assert.ok(cost(x, y) <= cost(3 * next(), 3 * next()) * (1 + 1e-9));
});

test("degrees come back from the plane to a micrometre", () => {
  const next = random(8);
  for (let k = 0; k < 200; k++) {
    const centre = [160 * next() - 80, 360 * next() - 180];
    const [x, y] = [60 * next() - 30, 60 * next() - 30];
    const at = project(centre, ...unproject(centre, x, y));
    assert.ok(Math.hypot(at[0] - x, at[1] - y) < 1e-8, `${centre}`);
  }
});

/** A made-up life: home, work and errands, a position every few minutes. */
function life(learner, seed, count) {
  const next = random(seed);
  let time = Date.UTC(2024, 4, 1, 6);
  for (let i = 0; i < count; i++) {
    time += 60_000 * (1 + 9 * next());
    const k = Math.floor(20 * next() ** 3);
    learner.add(48.85 + 0.004 * k + 0.0004 * next(), 2.33 + 0.003 * ((7 * k) % 13), time);
  }
  return learner;
}

test("a learner has the profile of its visits, in bounded memory, and survives JSON", () => {
  const learner = life(new Learner(), 4, 3000);
  const profile = learner.profile();
  assert.deepEqual(profile, profileOf(learner.points()));
  assert.equal(profile.places.length, profile.prior.length);
  assert.ok(Math.abs(profile.prior.reduce((a, b) => a + b) - 1) < 1e-12);
  assert.ok(profile.hours === learner.hours && learner.hours > 100 && profile.timed);
  const again = Learner.from(JSON.stringify(learner));
  assert.deepEqual(again.profile(), profile);
  assert.deepEqual(Learner.from(learner.toJSON()).toJSON(), learner.toJSON());
  // The same five minutes in the same cell count once.
  const one = new Learner();
  for (let i = 0; i < 100; i++) one.add(48.85, 2.33, Date.UTC(2024, 4, 1) + 1000 * i);
  assert.equal(one.points().lat.length, 1);
  // Years of a traveller stay below some megabytes.
  const far = new Learner();
  for (let i = 0; i < 400_000; i++) far.add(-60 + (i % 5000) * 0.02, 7, Date.UTC(2014, 0, 1) + i * 240_000);
  assert.ok(JSON.stringify(far).length < 6e6);
  for (const [lat, lon, time] of [[91, 0, 2e12], [0, 181, 2e12], [NaN, 1, 2e12], [1, 1, NaN], [1, 1, 0], [0, 0, 1.6e12]]) {
    assert.equal(one.add(lat, lon, time), false);
  }
  assert.equal(one.hours, 1);
  for (const wrong of ["", "{}", null, { version: 1, visits: { 1: [1] } }, { version: 1, visits: { 1: [1, 5000] } }, { version: 2, visits: {} }]) {
    assert.throws(() => Learner.from(wrong), TraceError);
  }
  assert.throws(() => new Learner().profile(), TraceError);
});

test("points of a learner are within a cell of the positions", () => {
  const next = random(6);
  for (let k = 0; k < 300; k++) {
    const [lat, lon] = [178 * next() - 89, 360 * next() - 180];
    const learner = new Learner();
    learner.add(lat, lon, Date.UTC(2024, 0, 1));
    const { lat: [north], lon: [east] } = learner.points();
    const [x, y] = project([lat, lon], north, east);
    assert.ok(Math.hypot(x, y) < 0.025, `${Math.hypot(x, y)}`);
  }
});

test("several files of traces are one person; what cannot be used is named", async () => {
  const gpx = (points) => `<gpx><trk><trkseg>${points.map(([a, b, t]) =>
    `<trkpt lat="${a}" lon="${b}"><time>2024-05-01T${t}:00Z</time></trkpt>`).join("")}</trkseg></trk></gpx>`;
  const files = [
    { name: "a.gpx", bytes: gpx([[48.85, 2.33, "06:00"], [48.86, 2.34, "07:10"]]) },
    { name: "b.gpx", bytes: new TextEncoder().encode(gpx([[48.87, 2.35, "08:20"]])) },
    { name: "c.gpx", bytes: "<html>" },
  ];
  const traces = await readTraces(files);
  assert.deepEqual([...traces.lat], [48.85, 48.86, 48.87]);
  assert.deepEqual(traces.used, ["a.gpx", "b.gpx"]);
  assert.ok(traces.wrong.length === 1 && traces.wrong[0].startsWith("c.gpx could not be used"));
  assert.equal(traces.profile, null);
  assert.ok(profileOf(traces).places.length >= 2);
  await assert.rejects(readTraces([files[2]]), TraceError);
  await assert.rejects(readTraces([]), TraceError);
  await assert.rejects(readTraces(["a.gpx"]), TraceError);
  const profile = await readTraces([{ name: "p.csv", bytes: "lat,lon,prior\n48.1,2,0.25\n48.2,2,0.75\n" }]);
  assert.deepEqual(profile.profile.prior, [0.25, 0.75]);
  assert.throws(() => profileOf(profile), TraceError);
});
