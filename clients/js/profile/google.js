// Reads Google's location histories by the rules of whereish/traces/readers/google.py.

import { LONGEST_STAY_MS, QUARTER_MS } from "./constants.js";
import { asTime } from "./values.js";

/** Degrees times ten million. Some exports store negative values as value + 2^32. */
function e7(item, lat = "latitudeE7", lon = "longitudeE7") {
  const read = (value, limit) =>
    !Number.isInteger(value) || Math.abs(value) >= 2 ** 40 ? NaN
      : (value > limit && value < 2 ** 32 ? value - 2 ** 32 : value) / 1e7;
  return [read(item?.[lat], 9e8), read(item?.[lon], 1.8e9)];
}

/** "48.85°, 2.35°", "geo:48.85,2.35", or an object with such a latLng. */
function spoken(value) {
  const text = typeof value === "object" ? value?.latLng ?? value?.LatLng : value;
  const match = /^\s*(?:geo:)?\s*(-?[\d.]+)\s*°?\s*,\s*(-?[\d.]+)\s*°?\s*$/.exec(text ?? "");
  return match ? [match[1], match[2]] : [NaN, NaN];
}

const stamp = (item, name) => item?.[name] ?? item?.[`${name}Ms`];

/** A time from which others are computed: it must have a time zone, or be a number. */
const moment = (value) =>
  /^\d+$|(Z|[+-]\d\d:?\d\d)$/i.test(String(value)) ? asTime(value) : NaN;

/** Yields [lat, lon, time] of a stay: at its start, at every quarter of an hour, at its end. */
function* stay(begin, end, where) {
  yield [...where, asTime(begin)];
  const [first, last] = [moment(begin), moment(end)];
  if (!(last - first > 1000 && last - first < LONGEST_STAY_MS)) return;
  const next = (Math.floor(first / QUARTER_MS) + 1) * QUARTER_MS;
  for (let t = next; t < last - 1000; t += QUARTER_MS) yield [...where, t];
  yield [...where, last - 1000];
}

function* record(item) {
  yield [...e7(item), asTime(stamp(item, "timestamp"))];
}

/** A stay or a journey in a file of Semantic Location History. */
function* semantic({ placeVisit: visit, activitySegment: way }) {
  if (visit) {
    const own = e7(visit.location);
    const where = own.every(Number.isNaN) ? e7(visit, "centerLatE7", "centerLngE7") : own;
    const { duration } = visit;
    yield* stay(stamp(duration, "startTimestamp"), stamp(duration, "endTimestamp"), where);
    for (const child of visit.childVisits ?? []) {
      if (child && typeof child === "object") yield* semantic({ placeVisit: child });
    }
  }
  if (way) {
    yield [...e7(way.startLocation), asTime(stamp(way.duration, "startTimestamp"))];
    for (const point of way.simplifiedRawPath?.points ?? []) {
      yield [...e7(point, "latE7", "lngE7"), asTime(stamp(point, "timestamp"))];
    }
    yield [...e7(way.endLocation), asTime(stamp(way.duration, "endTimestamp"))];
  }
}

/** A segment of a Timeline export from a phone. */
function* segment(item) {
  const { startTime: begin, endTime: end } = item;
  if (item.visit) yield* stay(begin, end, spoken(item.visit.topCandidate?.placeLocation));
  if (item.activity) {
    yield [...spoken(item.activity.start), asTime(begin)];
    yield [...spoken(item.activity.end), asTime(end)];
  }
  for (const point of item.timelinePath ?? []) {
    const later = moment(begin) + 60_000 * Number(point?.durationMinutesOffsetFromStartTime);
    yield [...spoken(point?.point), point?.time === undefined ? later : asTime(point.time)];
  }
}

function* signal({ position }) {
  if (!position) return;
  yield [...spoken(position.LatLng ?? position.latLng), asTime(position.timestamp)];
}

/** Google's formats, by the key of their list. An iOS export is a list of segments. */
const FORMS = {
  locations: record, timelineObjects: semantic, semanticSegments: segment, rawSignals: signal,
};

/** Add the points of a history. Returns false if the document is not a history. */
export function readGoogle(document, points) {
  const ios = Array.isArray(document) &&
    document.some((item) => item?.visit || item?.activity || item?.timelinePath);
  const lists = ios ? [[document, segment]]
    : Object.entries(FORMS).map(([key, form]) => [document?.[key], form]);
  const known = lists.filter(([list]) => Array.isArray(list));
  for (const [list, form] of known) {
    for (const item of list) {
      if (item && typeof item === "object") for (const point of form(item)) points.add(...point);
    }
  }
  return known.length > 0;
}
