// The level: a distance in metres and a ratio, from which epsilon is computed.

import { $, LOCAL, hear, state } from "./state.js";
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

export const isFaster = () => new FormData($("level")).get("mode") === "faster";

/** A key for a level and method: if it differs from the mechanism's, that one is outdated. */
export const askedFor = ({ epsilon }) => `${epsilon.toPrecision(9)} ${isFaster()}`;

export function setLevel(apart, ratio) {
  $("metres").value = apart;
  $("ratio").value = ratio;
  tellLevel();
}

/** Show what the level means. `by` is the field that the person has changed: it is not updated. */
export function tellLevel(by = null) {
  const chosen = level();
  $("level-wrong").hidden = !chosen.wrong;
  $("level-wrong").textContent = chosen.wrong ?? "";
  $("build").disabled = Boolean(chosen.wrong) || !state.profile;
  const stale = !chosen.wrong && state.built && state.built.asked !== askedFor(chosen);
  $("stale").hidden = !stale;
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

/** Warn if the level is so weak that even the nearest places do not look alike. */
function tellTelling({ epsilon }) {
  const apart = state.profile?.nearestKm;
  $("telling").hidden = !(Math.exp(epsilon * apart) > TELLING);
  $("telling").textContent = $("telling").hidden ? ""
    : `The nearest two places are ${metres(apart)} apart: at this level a report reveals ` +
      "which place you are at.";
}

/** A sentence: which data a build sends to which service. */
export function sendsWords(places, guessed = false) {
  const what = some(places, "place") + (guessed ? "" : " and how likely you are at each");
  return LOCAL
    ? `To build, this page gives ${what} to the service on this machine, and asks it to delete ` +
      "them afterwards. Your traces stay in this page."
    : `To build, this page sends ${what} to ${location.host}, after you agree. Your traces are ` +
      "never sent.";
}

export function wireLevel(build) {
  $("level").addEventListener("input", (event) => {
    if (event.target === $("metres-slider")) {
      const apart = SLIDER.from * (SLIDER.to / SLIDER.from) ** (Number(event.target.value) / 100);
      const step = apart < 1000 ? 10 : apart < 3000 ? 50 : 100;
      $("metres").value = Math.round(apart / step) * step;
    }
    tellLevel(event.target);
  });
  $("level").addEventListener("submit", (event) => {
    event.preventDefault();
    void build();
  });
  hear("profile", () => {
    const { personal, guessed, latlon } = state.profile;
    const told = guessed ? "The file does not hold the prior. To build and to compare, all " +
      "places are assumed equally likely. " : "";
    $("sends").textContent = told + (personal ? sendsWords(latlon.length, guessed) : "");
    tellLevel();
  });
  hear("built", () => tellLevel());
}
