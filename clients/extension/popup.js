// The popup: the level of this site, what it was told last, and what is left of its budget.
import { api } from "./lib/api.js";
import { showBadge } from "./lib/badge.js";
import { $, dayOf, levelButtons, make, shortly, toldWords, wired } from "./lib/dom.js";
import { accounts, newDay, placesLeft } from "./lib/ledger.js";
import { HIDES, LEVELS } from "./lib/levels.js";
import { kept } from "./lib/mechanisms.js";
import { blocksNatively, protects } from "./lib/protection.js";
import { changeSettings, settings } from "./lib/settings.js";
import { belongsTo, patternOf } from "./lib/sites.js";

const SOURCES = {
  region: "noise for your whole region: Whereish does not know your places",
  learned: "places learned on this device", traces: "traces that you imported",
  file: "a file that you imported",
};
const chosenTab = new URLSearchParams(location.search).get("tab"); // for tests: a popup has no tab
const [tab] = chosenTab ? [await api.tabs.get(Number(chosenTab))]
  : await api.tabs.query({ active: true, currentWindow: true });
const origin = tab?.url && /^https?:/.test(tab.url) ? new URL(tab.url).origin : null;

async function show() {
  const now = await settings();
  const covered = await protects(origin);
  const level = now.sites[origin];
  $("site").textContent = origin ? shortly(origin) : "Whereish";
  $("pause").textContent = now.paused ? "Resume" : "Pause";
  $("pause").setAttribute("aria-pressed", String(now.paused));
  $("paused").hidden = !now.paused;
  $("setup").hidden = Boolean(now.region);
  $("protect").hidden = !origin || !now.region;
  $("why").textContent = !origin ? "There is no site in this tab."
    : !now.region ? "Whereish is not set up yet: choose your region first."
    : "This site is not protected: it gets your true position if you allow it.";
  $("unprotected").hidden = covered && Boolean(now.region);
  $("protected").hidden = !covered || !now.region;
  $("second-line").textContent = blocksNatively()
    ? "Sandboxed frames that scripts cannot enter are refused by the browser: they get no report."
    : "Firefox: a script that gets round the extension makes the browser's own prompt appear. " +
      "Refuse it: protected sites never need it.";
  const { last, spent = 0 } = (await accounts())[origin] ?? {};
  $("told").textContent = toldWords(last);
  $("alike").textContent = HIDES;
  $("left").textContent = leftWords(level, spent, now.newPlaces);
  const made = LEVELS[level]?.epsilon ? await kept(level) : null;
  const when = made?.source === "learned" ? ` (built on ${dayOf(made.made)})` : "";
  $("source").textContent = made ? SOURCES[made.source] + when : "—";
  await levelButtons($("levels"), level, choose, true);
  await showFrames(now);
}

function leftWords(level, spent, newPlaces) {
  const epsilon = LEVELS[level]?.epsilon;
  if (!level) return "the site has not asked yet";
  if (!epsilon) return "no limit: nothing is spent at this level";
  const left = placesLeft(spent, epsilon, newPlaces);
  return `${left} of ${newPlaces} new places. ` + (left > 0
    ? "The same place gets the same report again, at no cost."
    : `At a new place the site is told "position unavailable" until ${newDay()}.`);
}

async function showFrames({ sites }) {
  const others = Object.keys(sites).filter((name) => name !== origin && belongsTo(name, origin ?? " "));
  $("frames").hidden = others.length === 0;
  $("frame-rows").replaceChildren(...others.map((name) => make("tr", {},
    make("td", { textContent: shortly(name.split(" in ")[0]) }),
    make("td", { textContent: LEVELS[sites[name]].name }))));
}

async function choose(level) {
  await changeSettings((now) => { now.sites[origin] = level; });
  await showBadge(tab.id, origin);
  await show();
}

$("pause").addEventListener("click", async () => {
  await changeSettings((now) => { now.paused = !now.paused; });
  if (origin) await showBadge(tab.id, origin);
  await show();
});
$("protect").addEventListener("click", async () => {
  // The request must come first: the browser shows it only during a click.
  const granted = await api.permissions.request({ origins: [patternOf(origin)] });
  if (!granted) return;
  await changeSettings((now) => {
    if (now.scope !== "all") now.scope = "chosen";
    now.chosen = [...new Set([...now.chosen, origin])];
  });
  $("reload-hint").hidden = false;
  await show();
});
$("reload").addEventListener("click", async () => {
  await api.tabs.reload(tab.id);
  close();
});
$("setup").addEventListener("click", () => api.runtime.openOptionsPage());
$("options").addEventListener("click", (event) => {
  event.preventDefault();
  api.runtime.openOptionsPage();
});
wired();
await show();
