// The device's side of the app. The true position is used here and nowhere else: to draw a report,
// and to sort the answer. Only the report is sent.

import { BudgetError, InputError, Reporter, readMechanism } from "./client/whereish.js";

const NEW_PLACES = 3; // of a day: the budget of privacy that a person spends on this app
const SHOWN = 8;
const $ = (id) => document.getElementById(id);

/** Kilometres between two points in degrees, accurate enough for a town. */
function kmBetween([lat, lon], [lat0, lon0]) {
  const east = (lon - lon0) * 111.2 * Math.cos(((lat + lat0) * Math.PI) / 360);
  return Math.hypot((lat - lat0) * 111.2, east);
}

const position = () => new Promise((resolve, reject) =>
  navigator.geolocation.getCurrentPosition(resolve, reject, { timeout: 20000 }));

async function start() {
  const answer = await fetch("town.whereish");
  // Every ratio of the file is checked here. An app pins its digest: { sha256: "..." }.
  const mechanism = await readMechanism(await answer.arrayBuffer());
  const reporter = new Reporter(mechanism, localStorage, { newPlaces: NEW_PLACES });
  $("find").disabled = false;
  $("find").addEventListener("click", () => find(reporter).catch(explain));
}

async function find(reporter) {
  $("said").textContent = "Asking your browser…";
  const { coords } = await position();
  const here = [coords.latitude, coords.longitude];
  // Before the request: an error sends nothing. The same place gets the same report all day.
  const report = reporter.report(...here).latlon;
  const query = new URLSearchParams({ lat: report[0], lon: report[1] });
  const answer = await fetch(`cafes?${query}`, { credentials: "omit" });
  if (!answer.ok) throw new Error(await answer.text());
  show(await answer.json(), here, report, reporter.state.newPlacesLeft);
}

function show(cafes, here, report, left) {
  // The nearest to the true position: the server cannot sort by what it does not know.
  const near = cafes.map((cafe) => ({ ...cafe, km: kmBetween([cafe.lat, cafe.lon], here) }))
    .sort((a, b) => a.km - b.km).slice(0, SHOWN);
  $("list").replaceChildren(...near.map(({ name, km }) => {
    const row = document.createElement("li");
    const far = document.createElement("span");
    far.textContent = km < 1 ? `${Math.round(km * 100) * 10} m` : `${km.toFixed(1)} km`;
    row.append(name, far);
    return row;
  }));
  $("said").textContent = near.length ? `The nearest ${near.length} cafés:` : "No café is near.";
  $("told").textContent = `The server was told a place ${kmBetween(report, here).toFixed(1)} km ` +
    `from you. New places left today: ${left}.`;
  $("list").dataset.done = String(Number($("list").dataset.done ?? 0) + 1);
}

/** Say what is wrong. Nothing has been sent, unless the answer itself was wrong. */
function explain(wrong) {
  $("list").replaceChildren();
  $("said").textContent = wrong instanceof BudgetError
    ? "Your budget of new places for today is spent: come back to a place of today, or tomorrow."
    : wrong instanceof InputError
      ? "You are outside the town that this app knows. Nothing was sent."
      : `It did not work: ${wrong.message}`;
}

start().catch(explain);
