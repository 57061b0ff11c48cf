// Files are read here, beside the page, so that it stays alive meanwhile. What was read stays in
// this worker; the page gets places and shares.

import { bestSize, inCells, layOut } from "./grid.js";
import { MOST_BYTES, Points, TraceError, readFile } from "./traces.js";

let laid = null;

async function read(files) {
  const size = files.reduce((sum, file) => sum + file.size, 0);
  if (size > MOST_BYTES) {
    const came = Math.round(size / 1e6);
    throw new TraceError(`files must be at most 200 MB together, got ${came} MB: ` +
      "take fewer, or use whereish profile, which reads any size");
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
        throw new TraceError("a profile must come alone, and several files came: choose it only");
      }
      if (profile) return { profile };
      if (points.cut && points.length === before) {
        throw new TraceError("the file is not whole: it ends before its first point does");
      }
      if (points.cut) {
        wrong.push(`${file.name} is not whole: it ends early, and what comes before that is used`);
      }
      if (points.length === before) throw new TraceError("there are no points in it");
      used.push(file.name);
    } catch (problem) {
      if (!(problem instanceof TraceError) || files.length === 1) throw problem;
      wrong.push(`${file.name} could not be used: ${problem.message}`);
    }
    done += file.size;
  }
  if (points.length === 0) {
    throw new TraceError(wrong[0] ?? (points.dropped
      ? "every point must have a place and a time that can be read, and none of these " +
        `${points.dropped} has`
      : "traces must have points, and there are none in what came"));
  }
  const fresh = layOut(points.arrays);
  const grid = inCells(fresh, bestSize(fresh));
  if (grid.points.length < 2) throw new TraceError("traces must be of at least one place");
  laid = fresh;
  return { grid, used, points: points.length, dropped: points.dropped, wrong };
}

addEventListener("message", async ({ data }) => {
  try {
    postMessage(data.files ? { found: await read(data.files) }
      : { grid: inCells(laid, data.cellM) });
  } catch (problem) {
    postMessage({
      wrong: problem instanceof TraceError ? problem.message
        : "it could not be read: is it damaged, or too large for this device?",
    });
  }
});
