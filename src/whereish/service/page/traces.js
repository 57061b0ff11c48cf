// Traces and profiles from files, read in the page. Everything here is text to points: no network,
// no DOM, so that it runs in a worker. What cannot be read says so in one sentence, without telling
// what the file says.

/** A file cannot be used: what must hold, what came, what to do. */
export class TraceError extends Error {}

export const MOST_BYTES = 200e6;
const MOST_POINTS = 8_000_000;
const QUARTER_MS = 900_000;
const LONGEST_STAY_MS = 400 * 86_400_000;
const EARLIEST = Date.UTC(2001, 0, 1);

/** Points in flat arrays, which grow; a time that is not known is NaN. */
export class Points {
  #lat = new Float64Array(1024);
  #lon = new Float64Array(1024);
  #time = new Float64Array(1024);
  length = 0;
  dropped = 0;
  cut = false; // whether the file that was read last ends early

  /** Take a point, or count it as dropped: no such place, or a receiver that knows nothing. */
  add(lat, lon, time = NaN) {
    lat = Number(lat ?? NaN);
    lon = Number(lon ?? NaN);
    const sane = Math.abs(lat) <= 90 && Math.abs(lon) <= 180 && !(lat === 0 && lon === 0);
    const timely = Number.isNaN(time) || (time > EARLIEST && time < Date.now() + 86_400_000);
    if (!sane || !timely) {
      this.dropped++;
      return;
    }
    if (this.length >= MOST_POINTS) {
      throw new TraceError("at most 8 million points can be read here: use whereish profile");
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

/** Milliseconds since 1970 of what exports call a time; NaN if it is none. */
export function asTime(value) {
  if (typeof value === "number" || /^\s*\d{9,}(\.\d+)?\s*$/.test(value ?? "")) {
    const number = Number(value);
    return number > 1e17 ? number / 1e6 : number > 1e14 ? number / 1e3
      : number > 1e11 ? number : number * 1000;
  }
  if (typeof value !== "string" || !/\d[T ]\d/.test(value)) return NaN; // a day alone is no time
  const text = value.trim().replaceAll("/", "-").replace(" ", "T");
  return Date.parse(/(Z|[+-]\d\d:?\d\d)$/i.test(text) ? text : `${text}Z`);
}

// --- line by line ---------------------------------------------------------------------------

/** The text of a file in pieces that end where `cut` last says one may. */
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
    if (rest.length > 5e7) throw new TraceError("it must have lines or points that end somewhere");
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

const NAMES = {
  lat: ["lat", "latitude", "y", "lat_deg", "location-lat", "position_lat"],
  lon: ["lon", "lng", "long", "longitude", "x", "lon_deg", "location-long", "position_long"],
  time: ["time", "timestamp", "datetime", "date_time", "date", "when", "utc", "ts", "created_at"],
};
const find = (columns, kind) => columns.findIndex((name) => NAMES[kind].includes(name));

/** A table: of a profile (it has a column prior), or of traces. */
async function readCsv(file, points, told) {
  let columns = null;
  let separator = ",";
  let at = null;
  const rows = [];
  for await (const piece of pieces(file, lastLine, told)) {
    for (const row of piece.split(/\r?\n/)) {
      if (!row.trim()) continue;
      if (!columns) {
        separator = [",", ";", "\t"].reduce((a, b) =>
          row.split(b).length > row.split(a).length ? b : a);
        columns = splitRow(row.replace(/^\ufeff/, ""), separator)
          .map((name) => name.trim().toLowerCase());
        at = { lat: find(columns, "lat"), lon: find(columns, "lon"), time: find(columns, "time") };
        const isProfile = columns.includes("prior");
        if (!isProfile && (at.lat < 0 || at.lon < 0)) {
          throw new TraceError("a table must have columns lat and lon (and time, or prior) in " +
            `its first row; got ${Math.min(columns.length, 99)} columns with other names`);
        }
        if (isProfile) at = null;
        continue;
      }
      const cells = splitRow(row, separator);
      if (!at) rows.push(cells);
      else {
        const read = (index) => separator === ";" ? cells[index]?.replace(",", ".") : cells[index];
        const time = at.time < 0 ? NaN : asTime(cells[at.time]);
        if (at.time >= 0 && Number.isNaN(time)) points.dropped++;
        else points.add(filled(read(at.lat)), filled(read(at.lon)), time);
      }
    }
  }
  if (!columns) throw new TraceError("the file is empty");
  if (at) return null;
  return fromColumns(Object.fromEntries(columns.map((name, i) => [name, rows.map((r) => r[i])])));
}

/** An empty cell is no number; to JavaScript it is 0. */
const filled = (text) => (text === undefined || text.trim() === "" ? NaN : text);

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

/** GPX by its points alone: a worker has no XML parser, and a damaged end spoils nothing. */
async function readGpx(file, points, told) {
  const ends = (text) => {
    const end = text.lastIndexOf("</trkpt>");
    return end < 0 ? 0 : end + 8;
  };
  let any = false;
  let whole = false;
  for await (const piece of pieces(file, ends, told)) {
    any ||= /<gpx[\s>]/.test(piece);
    whole = /<\/gpx>\s*$/.test(piece);
    for (const [, attributes, , inside] of
      piece.matchAll(/<trkpt\b([^>]*?)(\/>|>([\s\S]*?)<\/trkpt>)/g)) {
      const read = (name) =>
        attributes.match(new RegExp(`\\b${name}\\s*=\\s*["']([^"']+)["']`))?.[1];
      const time = inside?.match(/<time>([^<]+)<\/time>/)?.[1];
      points.add(read("lat"), read("lon"), time === undefined ? NaN : asTime(time));
    }
  }
  if (!any) throw new TraceError("a GPX file must begin with <gpx>, and this does not");
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
    throw new TraceError("a .json file must be JSON, and this is not, or it is cut short");
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
      const read = (names) => lower[names.find((name) => name in lower)];
      const time = read(NAMES.time);
      points.add(read(NAMES.lat), read(NAMES.lon), time === undefined ? NaN : asTime(time));
    }
    return null;
  }
  throw new TraceError("a .json file must be a Google Timeline or Takeout export, GeoJSON, or a " +
    "profile with lat, lon, prior; this is something else");
}

function readGeojson(features, points) {
  if (!Array.isArray(features)) throw new TraceError("GeoJSON must have features; this has none");
  if (features.some((f) => f?.properties && "prior" in f.properties)) return fromRegions(features);
  for (const { geometry, properties } of features) {
    const told = properties ?? {};
    const parts = geometry?.type === "GeometryCollection" ? geometry.geometries : [geometry];
    const times = told.coordTimes ?? told.times ?? told.coordinateProperties?.times ?? [];
    const alone = NAMES.time.map((n) => told[n]).find((t) => t !== undefined);
    const when = (value) => (value === undefined ? NaN : asTime(value));
    for (const part of parts) {
      const c = part?.coordinates;
      if (part?.type === "Point") points.add(c?.[1], c?.[0], when(alone));
      else if (part?.type === "MultiPoint" || part?.type === "LineString") {
        c?.forEach((p, i) => points.add(p?.[1], p?.[0], when(times[i] ?? alone)));
      } else if (part?.type === "MultiLineString") {
        c?.forEach((l, j) => l.forEach((p, i) =>
          points.add(p?.[1], p?.[0], when(times[j]?.[i] ?? alone))));
      }
    }
  }
  return null;
}

/** Google's four forms; false if it is none of them. */
function readGoogle(document, points) {
  const e7 = (item, lat = "latitudeE7", lon = "longitudeE7") => {
    // Some exports have negative numbers wrapped round at 2^32.
    const read = (value, limit) =>
      Number.isInteger(value) ? (value > limit ? value - 2 ** 32 : value) / 1e7 : NaN;
    return [read(item?.[lat], 9e8), read(item?.[lon], 1.8e9)];
  };
  const spoken = (value) => {
    const text = typeof value === "object" ? value?.latLng ?? value?.LatLng : value;
    const match = /^\s*(?:geo:)?\s*(-?[\d.]+)\s*°?\s*,\s*(-?[\d.]+)\s*°?\s*$/.exec(text ?? "");
    return match ? [match[1], match[2]] : [NaN, NaN];
  };
  const stay = (begin, end, where) => {
    const [first, last] = [asTime(begin), asTime(end)];
    points.add(...where, first);
    if (!(last - first > 1000 && last - first < LONGEST_STAY_MS)) return;
    const next = (Math.floor(first / QUARTER_MS) + 1) * QUARTER_MS;
    for (let t = next; t < last - 1000; t += QUARTER_MS) points.add(...where, t);
    points.add(...where, last - 1000);
  };
  const stamp = (item, name) => item?.[name] ?? item?.[`${name}Ms`];
  const segment = (item) => {
    const { startTime: begin, endTime: end } = item;
    if (item.visit) stay(begin, end, spoken(item.visit.topCandidate?.placeLocation));
    if (item.activity) {
      points.add(...spoken(item.activity.start), asTime(begin));
      points.add(...spoken(item.activity.end), asTime(end));
    }
    for (const p of item.timelinePath ?? []) {
      const later = asTime(begin) + 60_000 * Number(p?.durationMinutesOffsetFromStartTime);
      points.add(...spoken(p?.point), p?.time === undefined ? later : asTime(p.time));
    }
  };
  const semantic = ({ placeVisit: visit, activitySegment: way }) => {
    if (visit) {
      const own = e7(visit.location);
      const where = Number.isNaN(own[0]) ? e7(visit, "centerLatE7", "centerLngE7") : own;
      stay(stamp(visit.duration, "startTimestamp"), stamp(visit.duration, "endTimestamp"), where);
    }
    if (way) {
      points.add(...e7(way.startLocation), asTime(stamp(way.duration, "startTimestamp")));
      for (const p of way.simplifiedRawPath?.points ?? []) {
        points.add(...e7(p, "latE7", "lngE7"), asTime(stamp(p, "timestamp")));
      }
      points.add(...e7(way.endLocation), asTime(stamp(way.duration, "endTimestamp")));
    }
  };
  const known = (list, read) => {
    if (!Array.isArray(list)) return false;
    for (const item of list) if (item && typeof item === "object") read(item);
    return true;
  };
  const records = known(document?.locations, (item) =>
    points.add(...e7(item), asTime(stamp(item, "timestamp"))));
  const months = known(document?.timelineObjects, semantic);
  const segments = known(document?.semanticSegments, segment);
  const signals = known(document?.rawSignals, ({ position }) => position &&
    points.add(...spoken(position.LatLng ?? position.latLng), asTime(position.timestamp)));
  const ios = Array.isArray(document) &&
    document.some((s) => s?.visit || s?.activity || s?.timelinePath) && known(document, segment);
  return records || months || segments || signals || ios;
}

// --- profiles -------------------------------------------------------------------------------

function numbers(name, values) {
  return values.map((value, row) => {
    const number = typeof value === "string" ? Number(filled(value)) : Number(value ?? NaN);
    if (!Number.isFinite(number)) {
      throw new TraceError(`${name} must be a number, and is not in row ${row + 1}`);
    }
    return number;
  });
}

/** A profile as the library writes it: lat, lon, prior or x_km, y_km, prior, perhaps cells. */
function fromColumns(columns) {
  const earth = columns.lat && columns.lon;
  const plane = columns.x_km && columns.y_km;
  if (!columns.prior || Boolean(earth) === Boolean(plane)) {
    throw new TraceError("a profile must have the columns lat, lon, prior or x_km, y_km, prior");
  }
  if (columns.user && new Set(columns.user).size > 1) {
    throw new TraceError("a profile must be one person's, and this is of several: take one");
  }
  const [first, second] = earth ? ["lat", "lon"] : ["x_km", "y_km"];
  const a = numbers(first, columns[first]);
  const b = numbers(second, columns[second]);
  const cell = columns.width_km && columns.height_km
    ? [numbers("width_km", columns.width_km), numbers("height_km", columns.height_km)] : null;
  if (cell?.some((sizes) => sizes.some((size) => size !== sizes[0] || size <= 0))) {
    throw new TraceError("width_km and height_km must be positive and the same in every row");
  }
  return asProfile(a.map((v, i) => [v, b[i]]), numbers("prior", columns.prior),
    cell && [cell[0][0], cell[1][0]], Boolean(earth));
}

/** Regions with a prior: each stands for the middle of its outline. */
function fromRegions(features) {
  const corners = (g) => (g?.type === "Point" ? [g.coordinates]
    : g?.type === "Polygon" ? g.coordinates[0].slice(1) : g?.type === "MultiPolygon"
      ? g.coordinates[0][0].slice(1) : []);
  const middles = features.map(({ geometry }, row) => {
    const all = corners(geometry);
    if (!all.length) throw new TraceError(`feature ${row + 1} must be a point or a polygon`);
    return [1, 0].map((k) => all.reduce((sum, c) => sum + c[k], 0) / all.length);
  });
  const { width_km: w, height_km: h } = features[0].properties ?? {};
  const prior = numbers("prior", features.map((f) => f.properties?.prior));
  return asProfile(middles, prior, w > 0 && h > 0 ? [w, h] : null, true);
}

function asProfile(points, prior, cellKm, earth) {
  if (points.length < 2) throw new TraceError("a profile must have at least two places");
  if (earth) [["latitude", 90], ["longitude", 180]].forEach(([name, most], k) => {
    const row = points.findIndex((point) => Math.abs(point[k]) > most);
    if (row >= 0) {
      throw new TraceError(`a ${name} must be from -${most} to ${most} degrees, and is ` +
        `${points[row][k]} in row ${row + 1}: are the columns swapped?`);
    }
  });
  if (new Set(points.map(String)).size < points.length) {
    throw new TraceError("the places of a profile must be different, and two are the same");
  }
  const sum = prior.reduce((a, b) => a + b, 0);
  if (prior.some((share) => share < 0) || !(sum > 0) || !Number.isFinite(sum)) {
    throw new TraceError("the prior must not be negative, and not all of it zero");
  }
  return { points, earth, cellKm, sum, prior: prior.map((share) => share / sum) };
}

// --- the door -------------------------------------------------------------------------------

/** Read one file into `points`; returns a profile instead where the file is one. */
export async function readFile(file, points, told) {
  const name = file.name.toLowerCase();
  const begin = (await file.slice(0, 2048).text()).replace(/^\ufeff/, "").trimStart();
  if (begin === "") throw new TraceError("the file is empty");
  if (begin.includes("\u0000") || begin.startsWith("PK")) {
    throw new TraceError("it must be text (GPX, JSON, CSV), and is not: unpack archives first");
  }
  if (name.endsWith(".plt")) return readPlt(file, points, told);
  if (name.endsWith(".gpx") || begin.startsWith("<")) return readGpx(file, points, told);
  if (/\.(geo)?json$/.test(name) || /^[[{]/.test(begin)) return readJson(file, points, told);
  return readCsv(file, points, told);
}
