// The entry point of the page. It connects the modules: stage.js (the map and the pin), level.js,
// building.js, compare.js, own.js (files), api.js (the service).

import * as api from "./api.js";
import { build, cancel, wireBuilding } from "./building.js";
import { wireTrying } from "./compare.js";
import { wireConcluding } from "./conclude.js";
import { nowhere, unproject } from "./geo.js";
import { whyNotHere } from "./device-build.js";
import { wireHere } from "./here.js";
import { restore, wireKeeping } from "./kept.js";
import {
  askedFor, isByService, isEverywhere, level, sendsWords, setByService, setGuarantee, setLevel, tellLevel,
  wireLevel,
} from "./level.js";
import { LARGEST_FILE, PLACES_HERE } from "./limits.js";
import { isForPoints, priorIn, visitsIn } from "./measures.js";
import { ownData } from "./own.js";
import { Pane } from "./pane.js";
import { showBuilt, wireResult } from "./result.js";
import { wireKey } from "./service-build.js";
import { pinEvents, repaint, setProfile } from "./stage.js";
import { $, SERVICE, hear, panes, setTheme, shown, state, theme } from "./state.js";
import * as tiles from "./tiles.js";
import { calm, trouble } from "./trouble.js";
import { readMechanism } from "./vendor/whereish.js";
import { alikeKm, count } from "./words.js";

/** Open a mechanism from disk: the client checks it before anything on the screen changes. */
async function openFile(file) {
  let bytes, mechanism, prior;
  try {
    if (file.size > LARGEST_FILE) throw new Error("it must be at most 500 MB to be shown here");
    bytes = new Uint8Array(await file.arrayBuffer());
    mechanism = await readMechanism(bytes, { warn: false });
    if (mechanism.hours) {
      throw new Error("it has a mechanism for each period of the day, and this page shows one for the whole day");
    }
    prior = isForPoints(mechanism) ? visitsIn(bytes) : priorIn(bytes);
  } catch (wrong) {
    trouble(`${file.name} cannot be opened: ${wrong.message}. Open a file that whereish build or ` +
      "this page has written.");
    return;
  }
  calm();
  cancel();
  const { plane } = mechanism;
  if (isForPoints(mechanism)) {
    showPoints(mechanism, prior, file.name);
    showOpened({ mechanism, bytes, prior: prior && prior.weights, name: file.name });
    return;
  }
  const xyKm = Array.from({ length: mechanism.places }, (_, x) => mechanism.input(x));
  setGuarantee("places");
  setProfile({
    name: file.name, personal: true, opened: true, earth: Boolean(plane), xyKm,
    latlon: xyKm.map((xy) => (plane ? unproject(plane, ...xy) : nowhere(xy))),
    cellKm: mechanism.cellKm,
    // The file may hold no prior. To build again, all places are then assumed equally likely.
    prior: prior ?? xyKm.map(() => 1 / xyKm.length), guessed: !prior,
  });
  showOpened({ mechanism, bytes, prior, name: file.name });
}

function showOpened(opened) {
  const { epsilon } = opened.mechanism;
  if (epsilon) setLevel(Number((alikeKm(2, epsilon) * 1000).toPrecision(4)), 2);
  const chosen = level();
  const asked = chosen.wrong ? null : askedFor(chosen);
  showBuilt({ ...opened, ratio: 2, asked });
}

/** The visited points of a file as a profile. If it holds none, its outputs are taken for them. */
function showPoints(mechanism, visits, name) {
  const { plane } = mechanism;
  const outputs = () =>
    Array.from({ length: mechanism.reports }, (_, z) => mechanism.output(z).xyKm);
  const xyKm = visits?.xyKm ?? outputs();
  const latlon = xyKm.map((xy) => (plane ? unproject(plane, ...xy) : nowhere(xy)));
  const weights = visits?.weights ?? xyKm.map(() => 1 / xyKm.length);
  setGuarantee("everywhere");
  setProfile({
    name, personal: true, opened: true, earth: Boolean(plane), xyKm, latlon, prior: weights,
    guessed: !visits, visits: { xyKm, latlon, weights }, what: visits ? "visited point" : "output",
  });
}

const visitsFrom = ({ points, weights }, earth) => ({
  latlon: earth ? points : points.map(nowhere), xyKm: earth ? null : points, weights,
});

/** The most places that the service builds. */
const mostThere = () => state.about?.limits?.places ?? 2000;

/** Take a profile that own.js has read, or that was kept. */
function takeProfile({ name, points, earth, cellKm, prior, visits }) {
  const most = mostThere();
  if (points.length > most) {
    trouble(`This ${SERVICE ? "service builds mechanisms" : "page shows profiles"} of at most ` +
      `${count(most)} places, and ${name} has ` +
      `${count(points.length)}: choose larger cells or fewer places.`);
    return;
  }
  calm();
  cancel();
  setProfile({
    name, earth, cellKm, prior, personal: true, xyKm: earth ? null : points,
    source: { name, points, earth, cellKm, prior, visits },
    latlon: earth ? points : points.map(nowhere),
    ...(visits?.points.length > 1 ? { visits: visitsFrom(visits, earth) } : {}),
  });
  buildIfHere();
}

/** Build at once on this device. What is too large for it waits for the person to press Build. */
function buildIfHere() {
  const why = whyNotHere({ profile: state.profile, everywhere: isEverywhere() });
  if (!wantsService) setByService(Boolean(why));
  if (why) $("sends").textContent = `${why} ${$("sends").textContent}`;
  else if (!wantsService) void build();
}

let wantsService = false; // whether the person has chosen it, and not this page

// The background of the service, or of a file of this device: { make, isMap }, where a map is one of
// whereish map, and anything else is tiles.
let offered = null;
let asked = 0; // the number of requests for a background: only the last one is shown

async function setBackdrop(wanted) {
  const mine = ++asked;
  $("tiles-wrong").textContent = "";
  if (wanted && !wanted.isMap && !panes.best.map.drawsTiles) {
    $("tiles").checked = false;
    $("tiles-wrong").textContent = "A background map of tiles needs WebGL, which this browser does " +
      "not have or does not allow. Everything else works without it, and so does a map of " +
      "whereish map.";
    return;
  }
  let [made, wrong] = [null, null];
  try {
    made = wanted ? await wanted.make() : null;
    if (mine !== asked) return;
    for (const pane of [panes.best, panes.laplace]) await pane?.setBackdrop(made);
  } catch (problem) {
    wrong = problem;
  }
  if (mine !== asked) return;
  if (wrong) {
    made = null;
    $("tiles").checked = false;
    trouble(`The background map cannot be shown: ${wrong.message}. Everything else works without ` +
      "it.");
    for (const pane of [panes.best, panes.laplace]) await pane?.setBackdrop(null);
  }
  state.backdrop = made;
  $("credit").textContent = made?.credit ?? "";
  if (state.profile) repaint();
}

/** Show a note beside the switch when a tile could not be loaded. */
function tileError() {
  $("tiles-wrong").textContent =
    "Part of the background map could not be loaded. The cells and circles are still drawn.";
}

/** Show a background map from a file of this device. */
function openMap(file) {
  offered = { make: () => tiles.fromFile(file), isMap: tiles.isMapName(file.name) };
  $("tiles").disabled = false;
  $("tiles").checked = true;
  $("tiles-words").textContent = `Show ${file.name}`;
  $("tiles-note").textContent =
    "This file is read on this device: no server learns which area you look at.";
  void setBackdrop(offered);
}

async function showWorld() {
  const world = await tiles.world();
  state.world = world;
  for (const pane of [panes.best, panes.laplace]) await pane?.setWorld(world);
}

/** Without a service, take out every control that needs one, and show what holds instead. */
function withoutService() {
  for (const one of document.querySelectorAll("[data-needs=service]")) one.remove();
  for (const one of document.querySelectorAll("[data-needs=no-service]")) one.hidden = false;
  $("tiles-words").textContent = "Show a background map";
}

function wire() {
  if (!SERVICE) withoutService();
  wireLevel(() => build());
  wireBuilding();
  wireResult();
  wireKey();
  wireTrying();
  wireConcluding();
  wireHere();
  wireKeeping();
  ownData({ taken: takeProfile, opened: openFile, mapped: openMap, sends: sendsWords });
  const press = {
    "trouble-close": calm,
    "how-open": () => $("how").showModal(),
    "file-open": () => $("file-input").click(),
    "pmtiles-open": () => $("pmtiles-input").click(),
    "who-city": () => {
      calm();
      cancel();
      setProfile(state.city);
      buildIfHere();
    },
    theme: () => setTheme(theme() === "dark" ? "light" : "dark"),
  };
  for (const [id, act] of Object.entries(press)) $(id).addEventListener("click", act);
  const picked = (id, act) => $(id).addEventListener("change", (event) => {
    if (event.target.files[0]) act(event.target.files[0]);
    event.target.value = "";
  });
  picked("file-input", openFile);
  picked("pmtiles-input", openMap);
  $("tiles").addEventListener("change", (event) =>
    setBackdrop(event.target.checked ? offered : null));
  hear("theme", applyTheme);
  hear("level", (event) => {
    if (event.detail?.name === "where") wantsService = isByService();
  });
}

function applyTheme() {
  $("theme").setAttribute("aria-pressed", String(theme() === "dark"));
  for (const pane of shown()) pane.setTheme(theme());
  if (state.profile) repaint();
}

function tellTiles(set) {
  const isMap = set?.kind === "geojson";
  offered = set ? { make: () => tiles.fromService(set), isMap } : null;
  $("tiles").disabled = !set;
  $("tiles-note").textContent = tiles.whoLearns(set);
  if (isMap) {
    // No server learns anything from it, so it is on.
    $("tiles").checked = true;
    void setBackdrop(offered);
  }
}

async function begin() {
  try {
    const [about, city] = await Promise.all([api.about(), api.city()]);
    state.about = about;
    state.city = {
      name: city.name, latlon: city.latlon, cellKm: city.cell_km, prior: city.prior, earth: true,
      lines: city.lines ?? [], names: city.names ?? [], personal: false,
    };
  } catch (wrong) {
    trouble(api.inWords(wrong, Boolean(state.profile)), begin);
    return;
  }
  $("version").textContent = `Whereish ${state.about.version}.`;
  if (SERVICE) $("most-there").textContent = `: up to ${count(mostThere())} places`;
  tellTiles(state.about.tiles);
  if (state.profile) return; // The person opened a file before the service answered.
  const own = restore();
  if (own) {
    takeProfile(own);
    return;
  }
  setProfile(state.city);
  buildIfHere();
}

wire();
$(SERVICE ? "most-here" : "most-alone").textContent = `: up to ${count(PLACES_HERE)} places`;
tellTiles(null);
tellLevel();
panes.best = await Pane.make($("pane-best"), theme(), pinEvents);
panes.best.map.onTileError = tileError;
applyTheme();
void showWorld();
await begin();
