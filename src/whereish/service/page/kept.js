// The level and the profile over a reload, if the person wants it: in the storage of this browser
// only. Traces, the pin and mechanisms are never kept.

import { levelFields, setLevelFields } from "./level.js";
import { $, hear, hide, state } from "./state.js";
import { some } from "./words.js";

const NAME = "whereish-kept";
const VERSION = 1;

const isNumbers = (list, length) => Array.isArray(list) && list.length === length &&
  list.every(Number.isFinite);
const isPoints = (list) => Array.isArray(list) && list.length > 0 &&
  list.every((point) => isNumbers(point, 2));

/** Whether a stored profile is one: storage can be changed by anybody who uses the browser. */
function isProfile({ name, points, earth, cellKm, prior, visits }) {
  return typeof name === "string" && typeof earth === "boolean" && isPoints(points) &&
    isNumbers(prior, points.length) && (cellKm === null || isNumbers(cellKm, 2)) &&
    (visits === null || (isPoints(visits.points) && isNumbers(visits.weights, visits.points.length)));
}

/** What is kept: the fields of the level, and a profile or null. Null if nothing usable is. */
function kept() {
  try {
    const found = JSON.parse(localStorage.getItem(NAME));
    if (found?.version !== VERSION) return null;
    return { ...found, profile: found.profile && isProfile(found.profile) ? found.profile : null };
  } catch {
    return null; // storage may be blocked, or hold something else
  }
}

/** The part of a profile that is kept: only one that was made from the person's own files. */
function ownProfile() {
  const own = state.profile?.source;
  if (!own) return null;
  const { name, points, earth, cellKm = null, prior, visits = null } = own;
  return {
    name, points, earth, cellKm, prior: Array.from(prior),
    visits: visits && { points: visits.points, weights: Array.from(visits.weights) },
  };
}

function save() {
  if (!$("keep").checked) return;
  try {
    localStorage.setItem(NAME, JSON.stringify(
      { version: VERSION, level: levelFields(), profile: ownProfile() }));
    tell();
  } catch {
    $("keep").checked = false;
    $("keep-note").textContent = "This browser does not let the page keep anything.";
  }
}

function forget() {
  try {
    localStorage.removeItem(NAME);
  } catch {
    // Storage is blocked: nothing was kept.
  }
  $("keep").checked = false;
  tell();
}

/** Say what is kept, or what would be. */
function tell() {
  const found = kept();
  if (found) $("forget").hidden = false;
  else hide("forget", "keep");
  const own = found?.profile;
  const places = own && some(own.points.length, "place");
  const points = own?.visits ? ` and ${some(own.visits.points.length, "visited point")}` : "";
  $("keep-note").textContent = found
    ? `Kept in this browser, for this page: the level${own
      ? `, and ${places}${points} with how often you are at each` : ""}. Who uses this browser can ` +
      "read it. Nothing of it is sent."
    : "Nothing is kept now: after a reload, this page starts anew. If you tick this, the level and " +
      "the places of your own files stay in this browser. Traces and the pin are never kept.";
}

/** Restore what is kept; returns the profile to show, or null. */
export function restore() {
  const found = kept();
  $("keep").checked = Boolean(found);
  tell();
  if (found) setLevelFields(found.level);
  return found?.profile ?? null;
}

export function wireKeeping() {
  $("keep").addEventListener("change", (event) => (event.target.checked ? save() : forget()));
  $("forget").addEventListener("click", forget);
  hear("level", save);
  hear("profile", save);
}
