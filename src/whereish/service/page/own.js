// The dialog for a person's own data: it reads files and returns places with a prior. The rest of
// the page does not change until the person presses "Use these places".

import { $ } from "./state.js";
import { isMapFile } from "./tiles.js";
import { CELL_SIZES_M, FEW_POINTS } from "./vendor/profile/constants.js";
import { count, digits, percent, some } from "./words.js";

/**
 * Add the event listeners of the dialog. `taken(profile)` gets the chosen profile, `opened(file)`
 * gets a mechanism file, `mapped(file)` a background map, `sends(places, guessed, points)` returns
 * sentences: what would be sent to which host, for so many places or visited points.
 */
export function ownData({ taken, opened, mapped, sends }) {
  const dialog = $("own");
  let worker = null;
  let reading = null; // the files that the worker reads now
  let files = []; // those that it has read
  let found = null;

  /** Start the worker, so that its files are loaded while there is a network. */
  function prepare() {
    const made = new Worker(new URL("traces-worker.js", import.meta.url),
      { type: "module", name: "whereish-reader" });
    worker = made;
    made.addEventListener("message", ({ data }) => hear(data));
    made.addEventListener("error", (event) => {
      event.preventDefault();
      if (worker !== made) return;
      worker = null;
      if (reading) {
        fail("The files could not be read. One of them may be too large for this device.");
      }
      reading = null;
    });
  }
  prepare();

  /** Delete the points of the worker. A worker that is reading is ended. */
  const stop = () => {
    if (reading) {
      worker?.terminate();
      worker = reading = null;
    } else worker?.postMessage({ forget: true });
    if (!worker) prepare();
    $("own-progress").hidden = true;
  };
  const fail = (words) => {
    $("own-progress").hidden = true;
    $("own-wrong").textContent = words;
    $("own-wrong").hidden = false;
  };

  async function read(chosen) {
    if (chosen.length === 0) return;
    if (chosen.length === 1 && (chosen[0].name.endsWith(".pmtiles") || await isMapFile(chosen[0]))) {
      dialog.close();
      mapped(chosen[0]);
      return;
    }
    if (chosen.length === 1 && chosen[0].name.toLowerCase().endsWith(".whereish")) {
      dialog.close();
      opened(chosen[0]);
      return;
    }
    stop();
    $("own-wrong").hidden = true;
    $("own-progress").hidden = false;
    $("own-bar").removeAttribute("value");
    $("own-progress-words").textContent = `Reading ${some(chosen.length, "file")} on this device…`;
    reading = chosen;
    worker.postMessage({ files: chosen });
  }

  function hear(data) {
    if (!dialog.open) return; // an answer to a dialog that was closed
    if (data.progress !== undefined) {
      $("own-bar").value = data.progress;
      $("own-progress-words").textContent = `${some(data.points, "point")} read so far`;
      return;
    }
    files = reading ?? files;
    reading = null;
    if (data.wrong) {
      const name = files.length === 1 ? `${files[0].name}: ` : "";
      fail(`${name}${data.wrong}.`);
    } else if (data.found?.profile) show({ ...data.found.profile, name: files[0].name });
    else if (data.found) {
      const { grid, visits, used, points, dropped, wrong } = data.found;
      const name = used.length === 1 ? used[0] : some(used.length, "file");
      offerSizes(grid.cellM);
      show({ ...grid, visits, name, read: { points, dropped, wrong } });
    } else show({ ...data.grid, visits: found.visits, name: found.name, read: found.read });
  }

  function offerSizes(chosen) {
    $("own-cell").replaceChildren(...CELL_SIZES_M.map((size) =>
      new Option(`${count(size)} m`, size, false, size === chosen)));
  }

  function show(profile) {
    found = profile;
    $("own-progress").hidden = true;
    $("own-cell-label").hidden = !profile.cellM;
    $("own-words").textContent = profile.cellM ? ofTraces(profile)
      : `A profile of ${some(profile.points.length, "place")}.` + ofSum(profile.sum);
    $("own-sends").textContent =
      sends(profile.points.length, false, several(profile.visits));
    $("own-found").hidden = false;
    $("own-use").disabled = false;
    if (profile.read?.wrong.length) {
      const { wrong } = profile.read;
      const more = wrong.length > 1 ? ` ${some(wrong.length - 1, "more file")} had a problem.` : "";
      fail(`${wrong[0]}.${more}`);
    }
  }

  $("own-open").addEventListener("click", () => {
    dialog.showModal();
    $("own-choose").focus();
  });
  $("own-choose").addEventListener("click", () => $("own-input").click());
  $("own-input").addEventListener("change", (event) => {
    read([...event.target.files]);
    event.target.value = "";
  });
  $("own-cell").addEventListener("change", (event) =>
    worker?.postMessage({ cellM: Number(event.target.value) }));
  $("own-close").addEventListener("click", () => dialog.close());
  $("own-use").addEventListener("click", () => {
    dialog.close();
    taken(found);
    scrollTo({ top: 0 }); // on a phone, the level and the map are above this button
  });
  dialog.addEventListener("close", () => {
    // The worker holds the points: they are deleted. The dialog opens empty next time.
    stop();
    $("own-found").hidden = true;
    $("own-wrong").hidden = true;
    $("own-use").disabled = true;
  });
  // Files may be dropped anywhere on the page. Without this, the browser would open the file and
  // leave the page.
  addEventListener("dragover", (event) => {
    event.preventDefault();
    $("drop").classList.add("over");
  });
  addEventListener("dragleave", () => $("drop").classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    $("drop").classList.remove("over");
    const files = [...event.dataTransfer.files];
    if (files.length === 0) return;
    if (!dialog.open && !document.querySelector("dialog[open]")) dialog.showModal();
    if (dialog.open) read(files);
  });
}

/** How many visited points there are; undefined if a build takes the places for them. */
const several = (visits) => (visits?.points.length > 1 ? visits.points.length : undefined);

/** A sentence about a prior that does not sum to 1: the page normalises it. */
function ofSum(sum) {
  if (Math.abs(sum - 1) < 1e-6) return "";
  return ` Its prior sums to ${digits(sum, 4)}, not to 1, so all of it is divided by this sum.`;
}

function ofTraces({ read, timed, hours, covered, visited, points, cellM }) {
  const what = timed ? `${some(hours, "hour")} with points` : "without times";
  const dropped = read.dropped
    ? ` (${some(read.dropped, "more point")} could not be used)` : "";
  const around = points.length > visited
    ? ` The page adds ${some(points.length - visited, "cell")} around them to hide among.` : "";
  const few = read.points < FEW_POINTS
    ? " These are few points: the prior is not yet that of a person's days." : "";
  return `${some(read.points, "point")}${dropped}, ${what}. ${some(visited, "cell")} of ` +
    `${count(cellM)} m ${visited === 1 ? "holds" : "hold"} ${percent(covered)} of ` +
    `${timed ? "this time" : "them"}.${around}${few}`;
}
