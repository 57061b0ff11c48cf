// Reads several files of traces of one person.

import { MOST_BYTES, Points, readFile } from "./traces.js";
import { TraceError } from "./values.js";

/**
 * Read files of traces: GPX, Google Timeline and Takeout, GeoJSON, PLT, CSV, or one profile that the
 * library wrote. A file that cannot be used is left out and named in `wrong`; if it is the only one,
 * a TraceError is thrown. A message never quotes the content of a file.
 *
 * @param files `File` objects, or objects { name, bytes }
 * @param options.onProgress called with { progress, points }: the share that is read, and how many
 *   points there are so far
 * @returns { lat, lon, time, used, dropped, wrong, profile }: the points, the names of the used files,
 *   the number of impossible points, sentences about files that were not used, and the profile if the
 *   file is one (then there are no points), otherwise null
 */
export async function readTraces(files, { onProgress = () => {} } = {}) {
  const given = Array.from(files, asFile);
  const size = given.reduce((sum, file) => sum + file.size, 0);
  if (size > MOST_BYTES) {
    const came = Math.round(size / 1e6);
    throw new TraceError(`files must be at most 200 MB together, got ${came} MB: ` +
      "choose fewer files, or use whereish profile, which reads any size");
  }
  const points = new Points();
  const wrong = [];
  const used = [];
  let done = 0;
  for (const file of given) {
    const told = (part) => onProgress({
      progress: (done + part * file.size) / Math.max(size, 1), points: points.length,
    });
    const before = points.length;
    points.cut = false;
    try {
      const profile = await readFile(file, points, told);
      if (profile && given.length > 1) {
        throw new TraceError("a profile must be the only file, and several were chosen");
      }
      if (profile) return { ...points.arrays, used: [file.name], dropped: 0, wrong, profile };
      if (points.cut && points.length === before) {
        throw new TraceError("the file is incomplete: it ends before its first point ends");
      }
      if (points.cut) {
        wrong.push(`${file.name} is incomplete: it ends early, and only the points before that ` +
          "are used");
      }
      if (points.length === before) throw new TraceError("the file has no points");
      used.push(file.name);
    } catch (problem) {
      if (!(problem instanceof TraceError) || given.length === 1) throw problem;
      wrong.push(`${file.name} could not be used: ${problem.message}`);
    }
    done += file.size;
  }
  if (points.length === 0) {
    throw new TraceError(wrong[0] ?? (points.dropped
      ? "every point must have valid coordinates and a valid time, and none of these " +
        `${points.dropped} points has`
      : "traces must have points, and these files have none"));
  }
  return { ...points.arrays, used, dropped: points.dropped, wrong, profile: null };
}

/** A file, or a name and bytes, as something that has the methods of a file. */
function asFile(file) {
  if (typeof file?.stream === "function" && typeof file.name === "string") return file;
  if (typeof file?.name !== "string" || file.bytes === undefined) {
    throw new TraceError("files must be File objects, or objects with a name and bytes");
  }
  const blob = new Blob([file.bytes]);
  return {
    name: file.name, size: blob.size, stream: () => blob.stream(), text: () => blob.text(),
    slice: (...range) => blob.slice(...range),
  };
}
