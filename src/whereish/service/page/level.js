// The level: a distance in metres and a ratio, from which epsilon is computed.

import { $, LOCAL, SERVICE, hear, ring, state } from "./state.js";
import { count, digits, epsilonOf, metres, some, times } from "./words.js";

const SLIDER = { from: 100, to: 5000 }; // metres at its ends
const TELLING = 20; // above this ratio, a report hardly hides which of two places it is from

/** The number in a field, or undefined if it is outside the limits of the field. */
function within(field) {
  const number = Number(field.value);
  return number >= Number(field.min) && number <= Number(field.max) ? number : undefined;
}

const limits = (field) => `from ${count(Number(field.min))} to ${count(Number(field.max))}`;

/** The chosen level: metres, ratio, epsilon per km; or an error message in `wrong`. */
export function level() {
  const apart = within($("metres"));
  const ratio = within($("ratio"));
  if (!apart) return { wrong: `The distance must be ${limits($("metres"))} metres.` };
  if (!ratio) {
    return { wrong: `The second number must be ${limits($("ratio"))}: 2 means at most twice as ` +
      "likely." };
  }
  return { metres: apart, ratio, epsilon: epsilonOf(ratio, apart) };
}

/** Whether the person wants the service to build. */
export const isByService = () => new FormData($("level")).get("where") === "service";

export function setByService(on) {
  if (!SERVICE) return;
  document.querySelector(`[name=where][value=${on ? "service" : "device"}]`).checked = true;
  tellGuarantee();
}

export const isFaster = () => new FormData($("level")).get("mode") === "faster";

/** Whether the guarantee is to hold between any two points, and not only between places. */
export const isEverywhere = () => new FormData($("level")).get("guarantee") === "everywhere";

export function setGuarantee(name) {
  document.querySelector(`[name=guarantee][value=${name}]`).checked = true;
  tellGuarantee();
}

/** A key for a level and method: if it differs from the mechanism's, that one is outdated. */
export const askedFor = ({ epsilon }) =>
  `${epsilon.toPrecision(9)} ${isEverywhere() ? "everywhere" : isFaster()}`;

export function setLevel(apart, ratio) {
  $("metres").value = apart;
  $("ratio").value = ratio;
  tellLevel();
}

/** The values of the form, to be kept over a reload. */
export const levelFields = () => ({
  metres: $("metres").value, ratio: $("ratio").value,
  guarantee: isEverywhere() ? "everywhere" : "places", mode: isFaster() ? "faster" : "exact",
});

export function setLevelFields({ metres: apart, ratio, guarantee, mode } = {}) {
  for (const value of [guarantee, mode]) {
    const field = [...$("level").elements].find((one) => one.type === "radio" && one.value === value);
    if (field) field.checked = true;
  }
  if (Number(apart) > 0 && Number(ratio) > 0) setLevel(apart, ratio);
  tellGuarantee();
}

/** Show what the level means. `by` is the field that the person has changed: it is not updated. */
export function tellLevel(by = null) {
  const chosen = level();
  $("level-wrong").hidden = !chosen.wrong;
  $("level-wrong").textContent = chosen.wrong ?? "";
  $("build").disabled = Boolean(chosen.wrong) || !state.profile;
  $("epsilon").textContent = "";
  tellTelling(chosen);
  if (chosen.wrong) return;
  const { from, to } = SLIDER;
  if (by !== $("metres-slider")) {
    $("metres-slider").value = (Math.log(chosen.metres / from) / Math.log(to / from)) * 100;
  }
  $("metres-slider").setAttribute("aria-valuetext", `${count(chosen.metres)} metres`);
  $("epsilon").textContent = `That is ε = ${digits(chosen.epsilon, 4)} per km: at most ` +
    `${times(chosen.ratio)} at ${metres(chosen.metres / 1000)}, ` +
    `${times(chosen.ratio ** 2)} at ${metres(chosen.metres / 500)}.`;
}

/** Say that the mechanism on the map is of another level, unless it is being replaced. */
export function tellStale(replacing) {
  const chosen = level();
  const stale = !chosen.wrong && state.built && state.built.asked !== askedFor(chosen);
  $("stale").hidden = !stale || replacing;
}

/** Warn if all places are twice as far apart as the level says, or if a report reveals the place. */
function tellTelling({ epsilon, metres: alike }) {
  const apart = isEverywhere() ? NaN : state.profile?.nearestKm;
  const ratio = Math.exp(epsilon * apart);
  $("telling").hidden = !(ratio > TELLING || apart * 1000 > 2 * alike);
  $("telling").textContent = $("telling").hidden ? ""
    : `The nearest two places are ${metres(apart)} apart: at this level a report ` +
      (ratio > TELLING ? "reveals which place you are at."
        : `may be ${times(ratio)} likelier from one than from the other.`);
}

/** Adapt the words of the panel to the chosen guarantee. */
export function tellGuarantee() {
  const everywhere = isEverywhere();
  $("level-what").textContent = everywhere ? "points" : "places";
  $("modes").hidden = everywhere;
  const { personal, guessed, latlon, visits } = state.profile ?? {};
  const told = guessed ? "The file does not hold the prior. To build and to compare, all " +
    "places are assumed equally likely. " : "";
  $("sends").textContent = told + (personal || !isByService()
    ? sendsWords(latlon?.length, guessed, visits?.weights.length) : "");
}

/** What a build of the chosen guarantee sends. */
export function sentData(places, guessed, points) {
  if (!isEverywhere()) {
    return some(places, "place") + (guessed ? "" : " and how likely you are at each");
  }
  return some(points, "visited point") + (guessed ? "" : " and the share of your time at each");
}

/** A sentence: which data a build sends to which service. */
export function sendsWords(places, guessed = false, points = places) {
  if (!isByService()) {
    return "Built in this browser. Nothing is sent: places, prior, level and pin stay on this device.";
  }
  const what = sentData(places, guessed, points);
  const fine = isEverywhere() ? " Points of traces within about 50 m of each other are sent as " +
    "one visited point, to a metre: that is finer than places." : "";
  return fine.slice(1) + (fine && " ") + toWhom(what);
}

function toWhom(what) {
  return LOCAL
    ? `To build, this page gives ${what} to the service on this machine, and asks it to delete ` +
      "them afterwards. Your traces stay in this page."
    : `To build, this page sends ${what} to ${location.host}, after you agree. Your traces are ` +
      "never sent.";
}

export function wireLevel(build) {
  // Some fields of the form are elsewhere on the page.
  document.addEventListener("input", (event) => {
    if (event.target.form !== $("level")) return;
    if (event.target === $("metres-slider")) {
      const apart = SLIDER.from * (SLIDER.to / SLIDER.from) ** (Number(event.target.value) / 100);
      const step = apart < 1000 ? 10 : apart < 3000 ? 50 : 100;
      $("metres").value = Math.round(apart / step) * step;
    }
    tellGuarantee();
    tellLevel(event.target);
    ring("level", { name: event.target.name });
  });
  $("level").addEventListener("submit", (event) => {
    event.preventDefault();
    void build();
  });
  hear("profile", () => {
    tellGuarantee();
    tellLevel();
  });
  hear("built", () => tellLevel());
}
