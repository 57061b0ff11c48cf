// The options page: region, sites, map, places. The first two are also the first run.
import { readTraces, profileOf, TraceError } from "./shared/vendor/profile.js";
import { api } from "./lib/api.js";
import { filesForRegion, filesForVisits } from "./lib/building.js";
import { $, dayOf, make, shortly, toldWords, wired } from "./lib/dom.js";
import { drawMap } from "./lib/drawing.js";
import { forgetEverything, exported } from "./lib/keeping.js";
import { accounts } from "./lib/ledger.js";
import { learned } from "./lib/learning.js";
import { CHOICES, LEVELS, NOISY } from "./lib/levels.js";
import { bytesOf, keepAll, kept } from "./lib/mechanisms.js";
import { hoursNeeded, isReplaceable, keepLearned, visitsOf } from "./lib/rebuilding.js";
import { RADII_KM, RADIUS_KM, suggestedTown, townNames, townOf } from "./lib/regions.js";
import { changeSettings, settings } from "./lib/settings.js";
import { EVERYWHERE } from "./lib/sites.js";

let chosenFile = null; // a .whereish file
let picked = null; // a middle that was clicked on the map

const map = drawMap($("map"), ([lat, lon]) => {
  picked = { name: "the point on the map", lat: Number(lat.toFixed(2)), lon: Number(lon.toFixed(2)) };
  $("town").value = picked.name;
  void showMap(regionOfForm());
});

/** The region of the form, or null. */
function regionOfForm() {
  const town = picked && $("town").value === picked.name ? picked : townOf($("town").value);
  return town && { ...town, km: Number($("radius").value) };
}

async function showMap(region) {
  const told = Object.values(await accounts()).map(({ last }) => last).filter((one) => one?.latitude);
  const { places, prior } = await profileNow();
  map.show({ region, places, prior, reports: told.map((one) => [one.latitude, one.longitude]) });
  if (region) map.fit(region);
  else map.fitWorld();
}

async function profileNow() {
  const imported = (await api.storage.local.get("profile")).profile;
  if (imported) return imported;
  try {
    return (await learned()).profile();
  } catch (wrong) {
    if (wrong instanceof TraceError) return { places: null, prior: null };
    throw wrong;
  }
}

async function show() {
  const now = await settings();
  // The person may take access back in the browser's own settings.
  const missing = now.scope === "all" && !(await api.permissions.contains({ origins: EVERYWHERE }));
  if (missing) now.scope = "none";
  const ready = now.region && now.scope !== "none";
  $("first").hidden = Boolean(ready);
  $("first-step").textContent = now.region
    ? "Step 2: choose which sites are protected." : "Step 1: choose your region.";
  $("scope-words").textContent = {
    none: "No site is protected yet.",
    chosen: "Only sites that you choose are protected: open a site and press the button of Whereish.",
    all: "Every site is protected. A site that wants to know where you are makes Whereish ask you.",
  }[now.scope];
  $("all-sites").hidden = now.scope === "all";
  $("all-sites").disabled = !now.region;
  $("some-sites").disabled = !now.region || now.scope === "chosen";
  $("new-places").value = now.newPlaces;
  $("learn").checked = now.learn;
  await showSites(now);
  await showPlaces();
  await showMap(now.region ?? regionOfForm());
}

async function showSites({ sites }) {
  const told = await accounts();
  const rows = Object.keys(sites).sort().map((name) => {
    const select = make("select", {}, ...CHOICES.map((key) =>
      new Option(LEVELS[key].name, key, false, key === sites[name])));
    select.setAttribute("aria-label", `Level of ${name}`);
    select.addEventListener("change", () =>
      changeSettings((now) => { now.sites[name] = select.value; }).then(show));
    const remove = make("button", { type: "button", textContent: "Remove" });
    remove.addEventListener("click", () => changeSettings((now) => {
      delete now.sites[name];
      now.chosen = now.chosen.filter((one) => one !== name);
    }).then(show));
    return make("tr", {}, make("td", { textContent: shortly(name) }), make("td", {}, select),
      make("td", { textContent: toldWords(told[name]?.last) }), make("td", {}, remove));
  });
  const head = make("tr", {}, ...["site", "level", "told last", ""].map((word) =>
    make("th", { textContent: word })));
  $("site-rows").replaceChildren(...(rows.length ? [head, ...rows] : []));
}

async function showPlaces() {
  const made = await kept("neighbourhood");
  const words = {
    region: (name) => `Reports come from noise in the whole region (${name}): Whereish does not know ` +
      "your places yet. Reports get better when it does.",
    learned: () => "Reports come from a mechanism for the places that were learned on this device, " +
      `built on ${dayOf(made.made)}.`,
    traces: (name) => `Reports come from a mechanism for the traces that you imported (${name}).`,
    file: (name) => `At least one level uses a file that you imported (${name}).`,
  };
  $("made-words").textContent = made ? words[made.source](made.name) : "There is no mechanism yet.";
  $("export").disabled = !made;
  const { hours } = await learned();
  const needed = await hoursNeeded();
  const next = !(await isReplaceable()) ? "What you imported stays in use until you press Build now."
    : hours < needed ? `Whereish builds from them when there are ${needed} hours.`
    : "Whereish builds from them at the first position of the next day.";
  $("learned-words").textContent = hours === 0 ? "Nothing was learned yet."
    : `Learned so far: ${hours} ${hours === 1 ? "hour" : "hours"} with positions. ` +
      ($("learn").checked ? next : "Learning is off: nothing is built by itself.");
  $("build").disabled = hours < 2;
}

// ---- Work that takes a while ----------------------------------------------------------------------

async function busy(name, work) {
  const fail = $(`${name}-wrong`);
  fail.hidden = true;
  $(`${name}-progress`).hidden = false;
  const rows = document.querySelectorAll(".row, #site-rows");
  for (const row of rows) row.inert = true; // nothing else is begun meanwhile, least of all forgetting
  const told = (done, all, level) => {
    $(`${name}-bar`).value = done / all;
    $(`${name}-words`).textContent = level ? `On this device: building the level ${level}…` : "";
  };
  try {
    await work(told);
  } catch (wrong) {
    fail.textContent = `${wrong.message}.`;
    fail.hidden = false;
  }
  for (const row of rows) row.inert = false;
  $(`${name}-progress`).hidden = true;
  await show();
}

async function importTraces(files) {
  const read = await readTraces(files);
  const profile = read.profile
    ? { places: read.profile.points, prior: read.profile.prior, visits: read.profile.visits }
    : profileOf(read);
  const name = read.used.length === 1 ? read.used[0] : `${read.used.length} files`;
  await api.storage.local.set({ profile: { places: profile.places, prior: profile.prior } });
  return { profile, name };
}

$("use-region").addEventListener("click", () => busy("region", async (told) => {
  const region = regionOfForm();
  if (!region) throw new Error("choose a town of the list, or click the map");
  await keepAll(await filesForRegion(region, told), { source: "region", name: region.name });
  await changeSettings((now) => { now.region = region; });
}));
$("town").addEventListener("change", () => void showMap(regionOfForm()));
$("radius").addEventListener("change", () => void showMap(regionOfForm()));
$("all-sites").addEventListener("click", async () => {
  if (!(await api.permissions.request({ origins: EVERYWHERE }))) return;
  await changeSettings((now) => { now.scope = "all"; });
  await show();
});
$("some-sites").addEventListener("click", async () => {
  await changeSettings((now) => { now.scope = "chosen"; });
  await show();
});
$("new-places").addEventListener("change", () => changeSettings((now) => {
  const number = Math.round(Number($("new-places").value));
  if (number >= 1 && number <= 100) now.newPlaces = number;
}).then(show));
$("learn").addEventListener("change", () =>
  changeSettings((now) => { now.learn = $("learn").checked; }).then(show));
$("build").addEventListener("click", () => busy("build", async (told) => {
  const learner = await learned();
  const files = await filesForVisits(visitsOf(learner.profile()), told);
  await api.storage.local.remove("profile");
  await keepLearned(files, learner.hours);
}));
$("traces").addEventListener("click", () => $("traces-input").click());
$("traces-input").addEventListener("change", () => busy("build", async (told) => {
  const files = [...$("traces-input").files];
  $("traces-input").value = "";
  const { profile, name } = await importTraces(files);
  await keepAll(await filesForVisits(visitsOf(profile), told), { source: "traces", name });
}));
$("file").addEventListener("click", () => $("file-input").click());
$("file-input").addEventListener("change", () => {
  [chosenFile] = $("file-input").files;
  $("file-input").value = ""; // the same file can be chosen again
  $("file-level-row").hidden = false;
});
$("file-use").addEventListener("click", () => busy("build", async () => {
  const bytes = new Uint8Array(await chosenFile.arrayBuffer());
  await keepAll({ [$("file-level").value]: { bytes } }, { source: "file", name: chosenFile.name });
  $("file-level-row").hidden = true;
}));
$("export").addEventListener("click", async () => {
  for (const level of NOISY) if (await kept(level)) exported(`${level}.whereish`, await bytesOf(level));
});
$("forget").addEventListener("click", () => { $("forget-row").hidden = !$("forget-row").hidden; });
$("forget-sure").addEventListener("click", async () => {
  await forgetEverything();
  $("forget-row").hidden = true;
  await show();
});

$("towns").replaceChildren(...townNames.map((name) => new Option(name)));
$("radius").replaceChildren(...RADII_KM.map((km) => new Option(`${km} km`, km, false, km === RADIUS_KM)));
$("file-level").replaceChildren(...NOISY.map((key) => new Option(LEVELS[key].name, key)));
const { region } = await settings();
const guess = region ? null : suggestedTown(Intl.DateTimeFormat().resolvedOptions().timeZone);
if (guess) {
  $("town").value = guess.name;
  $("guess").textContent = `Your time zone, which every site can read, suggests ${guess.name}.`;
} else if (region) {
  picked = region;
  $("town").value = region.name;
  $("radius").value = region.km;
}
await show();
wired();
document.body.dataset.ready = "true";
