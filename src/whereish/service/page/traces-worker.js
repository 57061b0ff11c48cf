// Reads files in a worker, so that the page stays responsive. The points stay in this worker; the
// page gets places and a prior, and the visited points with their weights.

import { bestSize, inCells, layOut } from "./grid.js";
import { MOST_BYTES, Points, TraceError, readFile } from "./traces.js";
import { visitedPoints } from "./visited.js";

let laid = null;

async function read(files) {
  const size = files.reduce((sum, file) => sum + file.size, 0);
  if (size > MOST_BYTES) {
    const came = Math.round(size / 1e6);
    throw new TraceError(`files must be at most 200 MB together, got ${came} MB: ` +
      "choose fewer files, or use whereish profile, which reads any size");
  }
  const points = new Points();
  const wrong = [];
  const used = [];
  let done = 0;
  for (const file of files) {
    const told = (part) => postMessage({
      progress: (done + part * file.size) / Math.max(size, 1), points: points.length,
    });
    const before = points.length;
    points.cut = false;
    try {
      const profile = await readFile(file, points, told);
      if (profile && files.length > 1) {
        throw new TraceError("a profile must be the only file, and several were chosen");
      }
      if (profile) return { profile };
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
      if (!(problem instanceof TraceError) || files.length === 1) throw problem;
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
  const fresh = layOut(points.arrays);
  const grid = inCells(fresh, bestSize(fresh));
  if (grid.points.length < 2) throw new TraceError("traces must contain at least one place");
  laid = fresh;
  const visits = visitedPoints(points.arrays, fresh.centre, fresh.timed);
  return { grid, visits, used, points: points.length, dropped: points.dropped, wrong };
}

addEventListener("message", async ({ data }) => {
  try {
    postMessage(data.files ? { found: await read(data.files) }
      : { grid: inCells(laid, data.cellM) });
  } catch (problem) {
    postMessage({
      wrong: problem instanceof TraceError ? problem.message
        : "it could not be read: it may be damaged, or too large for this device",
    });
  }
});
