// Reads files in a worker, so that the page stays responsive. The points stay in this worker; the
// page gets places and a prior, and the visited points with their weights.

import { bestSize, inCells, layOut } from "./vendor/profile/grid.js";
import { visitedPoints } from "./vendor/profile/visited.js";
import { TraceError, readTraces } from "./vendor/profile.js";

let laid = null;

async function read(files) {
  const { profile, used, dropped, wrong, ...points } = await readTraces(files, {
    onProgress: (progress) => postMessage(progress),
  });
  if (profile) return { profile };
  const fresh = layOut(points);
  const grid = inCells(fresh, bestSize(fresh));
  if (grid.points.length < 2) throw new TraceError("traces must contain at least one place");
  laid = fresh;
  const visits = visitedPoints(points, fresh.centre, fresh.timed);
  return { grid, visits, used, points: points.lat.length, dropped, wrong };
}

addEventListener("message", async ({ data }) => {
  if (data.forget) {
    laid = null;
    return;
  }
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
