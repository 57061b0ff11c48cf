// The map under one's own data: reads a map file (whereish map) and draws it on a 2D canvas. The
// page and the extension share it. It loads nothing and keeps nothing.

import { COLOURS, NAMES, TOWN, WORLD, widthAt } from "./style.js";

const KINDS = new Set(["land", "park", "water", "rail", "road", "name"]);
const LARGEST_LAT = 85.0511; // of Web Mercator
const MOST_POINTS = 4_000_000;
const DEPTHS = { Point: 0, MultiPoint: 1, LineString: 1, MultiLineString: 2, Polygon: 2,
  MultiPolygon: 3 };
const BAD = "the map must be GeoJSON as whereish map writes it (a FeatureCollection with kind and " +
  "class)";

/** Web Mercator on a world of 512 pixels, as in MapLibre. */
export function toWorld(lon, lat) {
  const rad = (Math.min(Math.max(lat, -LARGEST_LAT), LARGEST_LAT) * Math.PI) / 180;
  return [
    ((lon + 180) / 360) * 512,
    ((1 - Math.log(Math.tan(Math.PI / 4 + rad / 2)) / Math.PI) / 2) * 512,
  ];
}

/** Whether the beginning of a file looks like a map file, and not like traces in GeoJSON. */
export function looksLikeMap(head) {
  return head.includes('"FeatureCollection"') && head.includes('"attribution"');
}

/**
 * Read a map file: a text, or the parsed document. Throws an Error that says in one line what must
 * hold, without any coordinate.
 */
export function readMap(given) {
  let document = given;
  if (typeof given === "string") {
    try {
      document = JSON.parse(given);
    } catch {
      throw new Error(`${BAD}, and it is not JSON`);
    }
  }
  if (document?.type !== "FeatureCollection" || !Array.isArray(document.features)) {
    throw new Error(`${BAD}, and it is not one`);
  }
  const { attribution, features } = document;
  if (typeof attribution !== "string" || attribution.trim() === "") {
    throw new Error("the map must say who made it (attribution), and it does not");
  }
  const budget = { left: MOST_POINTS };
  const layers = [];
  const names = [];
  for (const feature of features) {
    const { kind, class: name } = feature?.properties ?? {};
    const { type, coordinates } = feature?.geometry ?? {};
    if (!KINDS.has(kind) || typeof name !== "string" || !(type in DEPTHS)) throw new Error(BAD);
    if (kind === "name") names.push(...namesOf(feature.properties, type, coordinates, budget));
    else layers.push({ kind, name, lines: linesOf(type, coordinates, budget) });
  }
  const [west, south, east, north] = boxOf(document.bbox, layers);
  return {
    attribution, names, layers, document,
    bbox: [west, south, east, north],
    isWorld: east - west > 350,
  };
}

function namesOf({ class: name, name: text, names: texts }, type, coordinates, budget) {
  const points = type === "Point" ? [coordinates] : type === "MultiPoint" ? coordinates : null;
  const words = type === "Point" ? [text] : texts;
  if (!points || !Array.isArray(words) || words.length !== points.length) throw new Error(BAD);
  return points.map((point, k) => {
    const [x, y] = projected(point, budget);
    if (typeof words[k] !== "string") throw new Error(BAD);
    return { name: words[k], class: name, x, y };
  });
}

/** The lines and rings of a geometry: each with its points, its bounds, and its polygon's number. */
function linesOf(type, coordinates, budget) {
  const depth = DEPTHS[type];
  if (depth === 0 || type === "MultiPoint") throw new Error(BAD);
  const flat = (value, levels) => {
    if (!Array.isArray(value)) throw new Error(BAD);
    return levels === 0 ? [value] : value.flatMap((part) => flat(part, levels - 1));
  };
  return flat(coordinates, depth - 1).map((points) => {
    if (!Array.isArray(points)) throw new Error(BAD);
    const xy = new Float64Array(2 * points.length);
    const bounds = [Infinity, Infinity, -Infinity, -Infinity];
    points.forEach((point, k) => {
      const [x, y] = projected(point, budget);
      xy[2 * k] = x;
      xy[2 * k + 1] = y;
      bounds[0] = Math.min(bounds[0], x);
      bounds[1] = Math.min(bounds[1], y);
      bounds[2] = Math.max(bounds[2], x);
      bounds[3] = Math.max(bounds[3], y);
    });
    return { xy, bounds };
  });
}

function projected(point, budget) {
  if (--budget.left < 0) {
    throw new Error(`the map must have at most ${MOST_POINTS} points, and it has more: make it ` +
      "again with a smaller area or --size");
  }
  const [lon, lat] = Array.isArray(point) ? point : [];
  if (!Number.isFinite(lon) || !Number.isFinite(lat)) throw new Error(BAD);
  if (Math.abs(lon) > 180 || Math.abs(lat) > 90) throw new Error(BAD);
  return toWorld(lon, lat);
}

/** The bounding box in degrees: the file's, or that of its shapes. */
function boxOf(bbox, layers) {
  if (Array.isArray(bbox) && bbox.length === 4 && bbox.every(Number.isFinite)) return bbox;
  const all = layers.flatMap(({ lines }) => lines.map(({ bounds }) => bounds));
  const lon = (x) => (x / 512) * 360 - 180;
  const lat = (y) => (Math.atan(Math.sinh(Math.PI * (1 - (2 * y) / 512))) * 180) / Math.PI;
  const least = (k) => all.reduce((low, box) => Math.min(low, box[k]), Infinity);
  const most = (k) => all.reduce((high, box) => Math.max(high, box[k]), -Infinity);
  return [lon(least(0)), lat(most(3)), lon(most(2)), lat(least(1))];
}

/** The numbers that turn a point of the 512-pixel world into a pixel of a view. */
function lens({ center, zoom, width, height }) {
  const scale = 2 ** zoom;
  const [x, y] = toWorld(center.lng, center.lat);
  return { scale, dx: width / 2 - x * scale, dy: height / 2 - y * scale, width, height, zoom };
}

/**
 * Draw maps on a 2D canvas, the world first, the town over it.
 *
 * `view` is { center: { lat, lng }, zoom, width, height }: Web Mercator, pixels of the canvas's
 * coordinates, a world of 512 * 2 ** zoom pixels, as MapLibre has it. `theme` is "light" or "dark".
 * Names are drawn by `placeNames` and `drawNames`, after what is put on the map.
 */
export function drawBackground(context, maps, view, theme) {
  const colours = COLOURS[theme];
  const eye = lens(view);
  const { width, height } = view;
  context.save();
  context.setLineDash([]);
  context.lineJoin = context.lineCap = "round";
  const world = maps.some(({ isWorld }) => isWorld);
  context.fillStyle = world ? colours.water : colours.ground;
  context.fillRect(0, 0, width, height);
  for (const map of [...maps].sort((a, b) => b.isWorld - a.isWorld)) {
    if (!map.isWorld) cover(context, map.bbox, eye, colours.ground);
    for (const rule of map.isWorld ? WORLD : TOWN) drawRule(context, map, rule, eye, colours);
  }
  context.restore();
}

/** Hide the coarse world where a finer map is. */
function cover(context, [west, south, east, north], { scale, dx, dy }, colour) {
  const [x0, y0] = toWorld(west, north);
  const [x1, y1] = toWorld(east, south);
  context.fillStyle = colour;
  context.fillRect(x0 * scale + dx, y0 * scale + dy, (x1 - x0) * scale, (y1 - y0) * scale);
}

function drawRule(context, map, rule, eye, colours) {
  const [from, to] = rule.zooms;
  if (eye.zoom < from || eye.zoom >= to) return;
  context.beginPath();
  let drawn = 0;
  for (const layer of map.layers) {
    if (layer.kind !== rule.kind || layer.name !== rule.name) continue;
    for (const line of layer.lines) drawn += trace(context, line, eye, rule.type === "fill");
  }
  if (drawn === 0) return;
  if (rule.type === "fill") {
    context.fillStyle = colours[rule.colour];
    context.fill("evenodd");
    return;
  }
  context.strokeStyle = colours[rule.colour];
  context.lineWidth = widthAt(rule.widths, eye.zoom);
  context.setLineDash(rule.dash ?? []);
  context.lineCap = rule.dash ? "butt" : "round";
  context.stroke();
}

/** Add a line to the path if any of it can be seen; return whether it was. */
function trace(context, { xy, bounds }, { scale, dx, dy, width, height }, closed) {
  const left = bounds[0] * scale + dx;
  const top = bounds[1] * scale + dy;
  const right = bounds[2] * scale + dx;
  const bottom = bounds[3] * scale + dy;
  if (right < -20 || bottom < -20 || left > width + 20 || top > height + 20) return 0;
  if (right - left < 0.4 && bottom - top < 0.4) return 0; // less than a pixel
  context.moveTo(xy[0] * scale + dx, xy[1] * scale + dy);
  for (let k = 2; k < xy.length; k += 2) context.lineTo(xy[k] * scale + dx, xy[k + 1] * scale + dy);
  if (closed) context.closePath();
  return 1;
}

/**
 * Choose the names to show: those of the zoom that overlap no other, important ones first. `taken`
 * are boxes [left, top, right, bottom] in pixels that stay free; chosen ones are added to it.
 * Returns { name, class, x, y, px }: the middle of each name, and the size of its letters.
 */
export function placeNames(maps, view, taken = [], most = 60) {
  const eye = lens(view);
  const towns = maps.filter(({ isWorld }) => !isWorld);
  const found = [];
  // Names of the finer map first; those of the world only where there is none.
  for (const map of [...towns, ...maps.filter(({ isWorld }) => isWorld)]) {
    for (const one of map.names) {
      const rule = NAMES[one.class];
      if (!rule || eye.zoom < rule.zooms[0] || eye.zoom >= rule.zooms[1]) continue;
      const x = one.x * eye.scale + eye.dx;
      const y = one.y * eye.scale + eye.dy;
      if (x < 0 || y < 0 || x > eye.width || y > eye.height) continue;
      if (map.isWorld && towns.some((town) => holds(town.bbox, one))) continue;
      const half = one.name.length * rule.px * 0.29;
      const box = [x - half - 4, y - rule.px * 0.7, x + half + 4, y + rule.px * 0.7];
      if (taken.some((b) => box[0] < b[2] && box[2] > b[0] && box[1] < b[3] && box[3] > b[1])) {
        continue;
      }
      taken.push(box);
      found.push({ name: one.name, class: one.class, x, y, px: rule.px });
      if (found.length === most) return found;
    }
  }
  return found;
}

function holds([west, south, east, north], { x, y }) {
  const [x0, y0] = toWorld(west, north);
  const [x1, y1] = toWorld(east, south);
  return x >= x0 && x <= x1 && y >= y0 && y <= y1;
}

/** Draw the names that `placeNames` has chosen, with a halo. */
export function drawNames(context, placed, theme) {
  const colours = COLOURS[theme];
  context.save();
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  context.lineWidth = 3;
  context.strokeStyle = colours.halo;
  for (const { name, class: kind, x, y, px } of placed) {
    context.font = `600 ${px}px system-ui, sans-serif`;
    context.strokeText(name, x, y);
    context.fillStyle = colours[NAMES[kind].colour];
    context.fillText(name, x, y);
  }
  context.restore();
}

/** The attributions of maps, as one text: to be shown wherever they are drawn. */
export const creditOf = (maps) =>
  [...new Set(maps.filter(({ isWorld }) => !isWorld).map((map) => map.attribution))].join(" · ");
