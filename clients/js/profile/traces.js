// Reads traces from files, with the formats and rules of whereish/traces/readers. It uses neither
// the network nor the DOM, so it runs in a worker. An error message is one sentence, and never
// quotes the content of the file.

import { COLUMN_NAMES, EARLIEST_MS, TIMES_NAMES } from "./constants.js";
import { readGoogle } from "./google.js";
import { fromColumns, fromRegions } from "./profile-file.js";
import { TraceError, asTime, filled } from "./values.js";

export { TraceError };
export const MOST_BYTES = 200e6;
const MOST_POINTS = 8_000_000;
const DAY_MS = 86_400_000;

/** Points in flat arrays that grow. An unknown time is NaN. */
export class Points {
  #lat = new Float64Array(1024);
  #lon = new Float64Array(1024);
  #time = new Float64Array(1024);
  length = 0;
  dropped = 0;
  cut = false; // whether the last file ends early

  /** Add a point. Drop it if its coordinates or time are impossible, as in cleaning.py. */
  add(lat, lon, time = NaN) {
    lat = Number(lat ?? NaN);
    lon = Number(lon ?? NaN);
    const nowhere = Math.abs(lat) < 1e-9 && Math.abs(lon) < 1e-9;
    const sane = Math.abs(lat) <= 90 && Math.abs(lon) <= 180 && !nowhere;
    const timely = Number.isNaN(time) || (time >= EARLIEST_MS && time <= Date.now() + DAY_MS);
    if (!sane || !timely) {
      this.dropped++;
      return;
    }
    if (this.length >= MOST_POINTS) {
      throw new TraceError("this page reads at most 8 million points: use whereish profile");
    }
    if (this.length === this.#lat.length) this.#grow();
    this.#lat[this.length] = lat;
    this.#lon[this.length] = lon;
    this.#time[this.length++] = time;
  }

  #grow() {
    const twice = (array) => {
      const larger = new Float64Array(array.length * 2);
      larger.set(array);
      return larger;
    };
    [this.#lat, this.#lon, this.#time] = [this.#lat, this.#lon, this.#time].map(twice);
  }

  get arrays() {
    return {
      lat: this.#lat.subarray(0, this.length), lon: this.#lon.subarray(0, this.length),
      time: this.#time.subarray(0, this.length),
    };
  }
}

// --- line by line ---------------------------------------------------------------------------

/** The text of a file in pieces. `cut(text)` returns the last position where a piece may end. */
async function* pieces(file, cut, told) {
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let done = 0; ; ) {
    const { value, done: last } = await reader.read();
    if (last) break;
    rest += value;
    told(Math.min(1, (done += value.length) / Math.max(file.size, 1)));
    const end = cut(rest);
    if (end > 0) {
      yield rest.slice(0, end);
      rest = rest.slice(end);
    }
    if (rest.length > 5e7) {
      throw new TraceError("a line or point must have at most 50 million characters");
    }
  }
  if (rest) yield rest;
}

const lastLine = (text) => text.lastIndexOf("\n") + 1;

function splitRow(row, separator) {
  if (!row.includes('"')) return row.split(separator);
  const cells = [];
  let cell = "";
  let quoted = false;
  for (let i = 0; i < row.length; i++) {
    if (row[i] === '"') {
      if (quoted && row[i + 1] === '"') cell += row[i++];
      else quoted = !quoted;
    } else if (row[i] === separator && !quoted) {
      cells.push(cell);
      cell = "";
    } else cell += row[i];
  }
  return [...cells, cell];
}

/** The index of the first column with a known name of this kind, or -1. */
const find = (columns, kind) =>
  COLUMN_NAMES[kind].map((name) => columns.indexOf(name)).find((index) => index >= 0) ?? -1;

/** The number of decimals of the last field. A file that was cut off may have fewer. */
const lastDigits = (row) => (row.trim().split(/[,;\t]/).at(-1).split(".")[1] ?? "").length;

/** A table of a profile (it has a column prior) or of traces. */
async function readCsv(file, points, told) {
  let columns = null;
  let separator = ",";
  let at = null;
  let before = "";
  const rows = [];
  for await (const piece of pieces(file, lastLine, told)) {
    const lines = piece.split(/\r?\n/);
    for (const [number, row] of lines.entries()) {
      if (!row.trim()) continue;
      if (!columns) {
        separator = [",", ";", "\t"].reduce((a, b) =>
          row.split(b).length > row.split(a).length ? b : a);
        columns = splitRow(row.replace(/^\ufeff/, ""), separator)
          .map((name) => name.replace(/^["'\s]+|["'\s]+$/g, "").toLowerCase());
        at = { lat: find(columns, "lat"), lon: find(columns, "lon"), time: find(columns, "time") };
        const isProfile = columns.includes("prior");
        if (!isProfile && (at.lat < 0 || at.lon < 0)) {
          throw new TraceError("a table must have columns lat and lon (and time, or prior) in " +
            `its first row; got ${Math.min(columns.length, 99)} columns with other names. ` +
            "The command whereish profile reads more formats");
        }
        if (isProfile) at = null;
        continue;
      }
      const cells = splitRow(row, separator);
      if (!at) rows.push(cells);
      else {
        const read = (index) => separator === ";" ? cells[index]?.replace(",", ".") : cells[index];
        const time = at.time < 0 ? NaN : asTime(cells[at.time]);
        // A last line without a line end may stop in the middle of a coordinate.
        const cut = number === lines.length - 1 && before && Math.max(at.lat, at.lon) ===
          columns.length - 1 && lastDigits(row) < lastDigits(before);
        if (cut || (at.time >= 0 && Number.isNaN(time))) points.dropped++;
        else points.add(filled(read(at.lat)), filled(read(at.lon)), time);
        before = row;
      }
    }
  }
  if (!columns) throw new TraceError("the file is empty");
  if (at) return null;
  return fromColumns(Object.fromEntries(columns.map((name, i) => [name, rows.map((r) => r[i])])));
}

async function readPlt(file, points, told) {
  let skipped = 0;
  for await (const piece of pieces(file, lastLine, told)) {
    for (const row of piece.split(/\r?\n/)) {
      if (skipped < 6) skipped++;
      else if (row.trim()) {
        const cells = row.split(",");
        points.add(filled(cells[0]), filled(cells[1]), asTime(`${cells[5]} ${cells[6]}`));
      }
    }
  }
  return null;
}

const GPX_POINT = /<(?:\w+:)?(trkpt|rtept|wpt)\b([^>]*?)(?:\/>|>([\s\S]*?)<\/(?:\w+:)?\1>)/g;
const GPX_END = /<\/(?:\w+:)?(?:trkpt|rtept|wpt)>/g;
const attribute = (text, name) =>
  text.match(new RegExp(`(?:^|\\s)${name}\\s*=\\s*["']([^"']+)["']`))?.[1];

/** GPX, by a search for points: a worker has no XML parser, and the file may be incomplete. */
async function readGpx(file, points, told) {
  const ends = (text) => {
    const last = [...text.matchAll(GPX_END)].at(-1);
    return last ? last.index + last[0].length : 0;
  };
  let any = false;
  let whole = false;
  for await (const piece of pieces(file, ends, told)) {
    any ||= /<(\w+:)?gpx[\s>]/.test(piece);
    whole = /<\/(\w+:)?gpx>\s*$/.test(piece);
    for (const [, kind, attributes, inside = ""] of
      piece.replace(/<!--[\s\S]*?-->/g, "").matchAll(GPX_POINT)) {
      const own = inside.replace(/<((?:\w+:)?extensions)\b[\s\S]*?<\/\1>/g, "");
      const time = own.match(/<(?:\w+:)?time>([^<]+)</)?.[1];
      // A planned route has no times: its points are not visits.
      if (kind !== "trkpt" && time === undefined) continue;
      points.add(attribute(attributes, "lat"), attribute(attributes, "lon"), asTime(time));
    }
  }
  if (!any) throw new TraceError("a GPX file must begin with <gpx>, and this file does not");
  points.cut = !whole;
  return null;
}

// --- JSON -----------------------------------------------------------------------------------

async function readJson(file, points, told) {
  const text = await file.text();
  told(0.6);
  let document;
  try {
    document = JSON.parse(text.replace(/^\ufeff/, ""));
  } catch {
    throw new TraceError("a .json file must be valid JSON, and this is not, or it is incomplete");
  }
  const kind = document?.type;
  if (kind === "FeatureCollection" || kind === "Feature") {
    return readGeojson(kind === "Feature" ? [document] : document.features, points);
  }
  if (readGoogle(document, points)) return null;
  if (Array.isArray(document) && document.some((row) => row && "prior" in Object(row))) {
    const names = [...new Set(document.flatMap((row) => Object.keys(row)))];
    return fromColumns(Object.fromEntries(names.map((n) => [n, document.map((row) => row[n])])));
  }
  if (document && Array.isArray(document.prior)) return fromColumns(document);
  if (Array.isArray(document)) {
    for (const row of document) {
      const cells = Object.entries(Object(row));
      const lower = Object.fromEntries(cells.map(([name, value]) => [name.toLowerCase(), value]));
      const read = (kind) => lower[COLUMN_NAMES[kind].find((name) => name in lower)];
      points.add(read("lat"), read("lon"), asTime(read("time")));
    }
    return null;
  }
  throw new TraceError("a .json file must be a Google Timeline or Takeout export, GeoJSON, or a " +
    "profile with lat, lon, prior; this file is none of these");
}

/** The vertices of a geometry as a list of lines. A point is a line of one vertex. */
function linesOf(shape) {
  const where = shape?.coordinates;
  switch (shape?.type) {
    case "Point": return [[where]];
    case "MultiPoint": case "LineString": return [where];
    case "MultiLineString": return where;
    case "GeometryCollection": return (shape.geometries ?? [])
      .filter((part) => part?.type !== shape.type).flatMap((part) => linesOf(part) ?? []);
    default: return [];
  }
}

function readGeojson(features, points) {
  if (!Array.isArray(features)) throw new TraceError("GeoJSON must have features; there are none");
  if (features.some((f) => f?.properties && "prior" in f.properties)) return fromRegions(features);
  for (const feature of features) {
    const about = Object(feature?.properties);
    const lower = new Map(Object.entries(about).map(([name, v]) => [name.toLowerCase(), v]));
    const named = (names) => lower.get(names.find((name) => lower.has(name)));
    const once = named(COLUMN_NAMES.time);
    const every = named(TIMES_NAMES) ?? about.coordinateProperties?.times;
    const times = Array.isArray(every?.[0]) ? every : [every];
    for (const [number, vertices] of (linesOf(feature?.geometry) ?? []).entries()) {
      for (const [index, vertex] of (Array.isArray(vertices) ? vertices : []).entries()) {
        const when = Array.isArray(times[number]) ? times[number][index] : once;
        points.add(vertex?.[1], vertex?.[0], asTime(when));
      }
    }
  }
  return null;
}

// --- any file -------------------------------------------------------------------------------

/** Read one file into `points`. Returns a profile if the file is a profile, otherwise null. */
export async function readFile(file, points, told) {
  const name = file.name.toLowerCase();
  const begin = (await file.slice(0, 2048).text()).replace(/^\ufeff/, "").trimStart();
  if (begin === "") throw new TraceError("the file is empty");
  if (begin.includes("\u0000") || begin.startsWith("PK")) {
    throw new TraceError("the file must be text (GPX, JSON, CSV): unpack archives first");
  }
  if (name.endsWith(".plt")) return readPlt(file, points, told);
  if (name.endsWith(".gpx") || begin.startsWith("<")) return readGpx(file, points, told);
  if (/\.(geo)?json$/.test(name) || /^[[{]/.test(begin)) return readJson(file, points, told);
  return readCsv(file, points, told);
}
