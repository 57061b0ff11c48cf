// The drawing of map files, with a canvas that records what is drawn. Run by tests/test_background.py.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  creditOf, drawBackground, drawNames, looksLikeMap, placeNames, readMap, toWorld,
} from "../map/background.js";
import { mapLibreLayers } from "../map/layers.js";
import { COLOURS, NAMES, TOWN, WORLD, widthAt } from "../map/style.js";

const feature = (kind, name, type, coordinates, more = {}) => ({
  type: "Feature", properties: { kind, class: name, ...more }, geometry: { type, coordinates },
});
const square = (x, y, size) =>
  [[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]];
const file = (features, more = {}) => ({
  type: "FeatureCollection", attribution: "© Somebody", bbox: [7, 43, 8, 44], features, ...more,
});
const TOWN_FILE = file([
  feature("road", "motorway", "MultiLineString", [[[7.1, 43.5], [7.9, 43.5]], [[7, 43], [7, 43.1]]]),
  feature("road", "street", "LineString", [[7.4, 43.4], [7.6, 43.6]]),
  feature("park", "park", "Polygon", [square(7.2, 43.2, 0.3)]),
  feature("water", "lake", "MultiPolygon", [[square(7.5, 43.5, 0.3), square(7.6, 43.6, 0.1)]]),
  feature("name", "city", "Point", [7.5, 43.5], { name: "Testville" }),
  feature("name", "town", "Point", [7.5, 43.501], { name: "Too near" }),
]);
const WORLD_FILE = file([
  feature("land", "land", "MultiPolygon", [[square(0, 40, 10)]]),
  feature("water", "river", "MultiLineString", [[[1, 41], [2, 42]]]),
  feature("name", "metropolis", "MultiPoint", [[7.3, 43.3], [2, 42]], { names: ["Here", "There"] }),
], { bbox: [-180, -90, 180, 90], attribution: "Natural Earth" });

/** A 2D context that notes fills and strokes with their colour, and the points of each path. */
function canvas() {
  const notes = [];
  let path = [];
  return {
    notes, save() {}, restore() {}, setLineDash() {},
    beginPath: () => (path = []),
    moveTo: (x, y) => path.push(["M", x, y]),
    lineTo: (x, y) => path.push(["L", x, y]),
    closePath: () => path.push(["Z"]),
    fillRect(...box) { notes.push({ what: "rect", colour: this.fillStyle, box }); },
    fill(rule) { notes.push({ what: "fill", colour: this.fillStyle, path, rule }); },
    stroke() { notes.push({ what: "stroke", colour: this.strokeStyle, path, px: this.lineWidth }); },
    strokeText() {},
    fillText(text, x, y) { notes.push({ what: "text", colour: this.fillStyle, text, x, y }); },
  };
}
const view = (zoom, more = {}) =>
  ({ center: { lat: 43.5, lng: 7.5 }, zoom, width: 800, height: 600, ...more });

test("areas are under lines, and small roads under large ones", () => {
  for (const theme of ["light", "dark"]) {
    const pen = canvas();
    drawBackground(pen, [readMap(TOWN_FILE)], view(12), theme);
    const { park, water, street, motorway } = COLOURS[theme];
    const colours = pen.notes.filter(({ what }) => what !== "rect").map(({ colour }) => colour);
    assert.deepEqual(colours, [park, water, street, motorway]);
  }
});

test("a point is drawn where Web Mercator has it", () => {
  const pen = canvas();
  drawBackground(pen, [readMap(TOWN_FILE)], view(12), "light");
  const [, x, y] = pen.notes.at(-1).path[0]; // the motorway's west end
  const scale = 2 ** 12;
  const world = (lon, lat) => [(lon + 180) / 360 * 512,
    256 - 512 / (2 * Math.PI) * Math.asinh(Math.tan(lat * Math.PI / 180))];
  const [[x0, y0], [x1, y1]] = [world(7.5, 43.5), world(7.1, 43.5)];
  assert.ok(Math.abs(x - (400 + (x1 - x0) * scale)) < 1e-6);
  assert.ok(Math.abs(y - (300 + (y1 - y0) * scale)) < 1e-6);
  assert.deepEqual(toWorld(0, 0).map((v) => Math.round(v)), [256, 256]);
});

test("what cannot be seen is not drawn", () => {
  const pen = canvas();
  drawBackground(pen, [readMap(TOWN_FILE)], view(16, { center: { lat: 10, lng: 10 } }), "light");
  assert.deepEqual(pen.notes.filter(({ what }) => what === "stroke" || what === "fill"), []);
  const far = canvas();
  drawBackground(far, [readMap(TOWN_FILE)], view(6), "light");
  const colours = far.notes.map(({ colour }) => colour);
  assert.ok(!colours.includes(COLOURS.light.street) && colours.includes(COLOURS.light.motorway));
});

test("the sea is behind the world, and a town hides it", () => {
  const pen = canvas();
  drawBackground(pen, [readMap(TOWN_FILE), readMap(WORLD_FILE)], view(5), "light");
  const { water, ground } = COLOURS.light;
  assert.deepEqual(pen.notes.slice(0, 4).map(({ what, colour }) => [what, colour]),
    [["rect", water], ["fill", ground], ["stroke", water], ["rect", ground]]);
});

test("holes stay holes", () => {
  const pen = canvas();
  drawBackground(pen, [readMap(TOWN_FILE)], view(10), "light");
  const lake = pen.notes.find(({ colour }) => colour === COLOURS.light.water);
  assert.equal(lake.rule, "evenodd");
  assert.equal(lake.path.filter(([step]) => step === "M").length, 2);
});

test("names do not overlap, and the world's are left out inside a town's map", () => {
  const maps = [readMap(WORLD_FILE), readMap(TOWN_FILE)];
  assert.deepEqual(placeNames(maps, view(10)).map(({ name }) => name), ["Testville"]);
  assert.deepEqual(placeNames([maps[0]], view(5)).map(({ name }) => name), ["Here", "There"]);
  assert.deepEqual(placeNames(maps, view(10), [[0, 0, 800, 600]]), []);
  const pen = canvas();
  drawNames(pen, placeNames(maps, view(10)), "dark");
  assert.deepEqual(pen.notes.map(({ text, colour }) => [text, colour]),
    [["Testville", COLOURS.dark.name]]);
  // Many random names: no two boxes overlap.
  const many = file(Array.from({ length: 800 }, (_, k) => feature("name", "city", "Point",
    [7 + ((k * 0.618034) % 1), 43 + ((k * 0.414214) % 1)], { name: `Name ${k}` })));
  const taken = [];
  const placed = placeNames([readMap(many)], view(10), taken, 1000);
  assert.ok(placed.length > 10 && placed.length < 800);
  taken.forEach((a, i) => taken.slice(i + 1).forEach((b) =>
    assert.ok(a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1])));
});

test("who made a map is always told; the world's data is in the public domain", () => {
  assert.equal(creditOf([readMap(WORLD_FILE), readMap(TOWN_FILE)]), "© Somebody");
  assert.throws(() => readMap({ ...TOWN_FILE, attribution: " " }), /attribution/);
});

test("what is no map is refused in one line, without its numbers", () => {
  const line = (coordinates) => file([feature("road", "street", "LineString", coordinates)]);
  const bad = [
    "not JSON", "null", "[]", "{}", { type: "FeatureCollection", attribution: "x" },
    file([{}]), file([null]), file([feature("house", "x", "Point", [1, 2])]),
    file([feature("road", "street", "Polygon", [[["a", "b"]]])]),
    file([feature("road", "street", "Point", [1, 2])]),
    file([feature("name", "city", "Point", [1, 2])]),
    file([feature("name", "city", "MultiPoint", [[1, 2]], { names: [] })]),
    file([feature("road", "street", "MultiLineString", [[[7, 43]], 5])]),
    line([[7, 433.25]]), line([[Number.NaN, 4]]), line([[7, null]]), line("77"), line([7, 8]),
    file([feature("road", "street", "GeometryCollection", [])]),
  ];
  for (const one of bad) {
    assert.throws(() => readMap(one), (wrong) => wrong instanceof Error &&
      /^the map must/.test(wrong.message) && !/\n|433/.test(wrong.message), JSON.stringify(one));
  }
});

test("traces in GeoJSON are not taken for a map", () => {
  assert.ok(looksLikeMap(JSON.stringify(TOWN_FILE).slice(0, 400)));
  assert.ok(!looksLikeMap('{"type":"FeatureCollection","features":[{"type":"Feature"'));
});

test("MapLibre gets the same classes, colours and widths", () => {
  for (const theme of ["light", "dark"]) {
    const made = mapLibreLayers([readMap(WORLD_FILE), readMap(TOWN_FILE)], theme);
    assert.equal(made.behind, COLOURS[theme].water);
    assert.deepEqual(Object.keys(made.sources), ["ground-0", "ground-1", "ground-1-cover"]);
    assert.equal(made.layers.length, WORLD.length + 1 + TOWN.length);
    for (const layer of made.layers) assert.ok(layer.source in made.sources);
    const lines = made.layers.filter(({ type }) => type === "line");
    for (const { paint } of lines) {
      const stops = paint["line-width"].slice(3);
      assert.ok(stops.every((z, k) => k < 2 || k % 2 || z > stops[k - 2]));
    }
  }
  assert.equal(mapLibreLayers([readMap(TOWN_FILE)], "dark").behind, COLOURS.dark.ground);
});

test("both themes have the colours of every rule, and widths are interpolated", () => {
  for (const colours of Object.values(COLOURS)) {
    for (const { colour } of [...TOWN, ...WORLD, ...Object.values(NAMES)]) {
      assert.match(colours[colour], /^#[0-9a-f]{6}$/);
    }
  }
  assert.equal(widthAt([[10, 1], [12, 3]], 11), 2);
  assert.equal(widthAt([[10, 1], [12, 3]], 2), 1);
  assert.equal(widthAt([[10, 1], [12, 3]], 20), 3);
});
