// The level in words: so many metres, so many times likelier; epsilon follows.

import { $, LOCAL, hear, state } from "./state.js";
import { count, digits, epsilonOf, metres, some, times } from "./words.js";

const SLIDER = { from: 100, to: 5000 }; // metres at its ends
const TELLING = 20; // a ratio between the nearest places that hardly hides which it is

/** A field's number, or undefined if it is not within what the field itself allows. */
function within(field) {
  const number = Number(field.value);
  return number >= Number(field.min) && number <= Number(field.max) ? number : undefined;
}

const limits = (field) => `from ${count(Number(field.min))} to ${count(Number(field.max))}`;

/** What is asked for: metres, ratio, epsilon per km; or what is wrong with it. */
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

/** What was asked for, to be told from what is asked for later. */
export const askedFor = ({ epsilon }) => `${epsilon.toPrecision(9)} ${isFaster()}`;

export function setLevel(apart, ratio) {
  $("metres").value = apart;
  $("ratio").value = ratio;
  tellLevel();
}

/** Tell what the level means; `by` is what it was set with, which is left as it is. */
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
  $("epsilon").textContent = `That is ε = ${digits(chosen.epsilon, 4)} per km: ` +
    `${times(chosen.ratio)} at ${metres(chosen.metres / 1000)}, ` +
    `${times(chosen.ratio ** 2)} at ${metres(chosen.metres / 500)}.`;
}

/** A level finer than the places are apart hides nothing among them. */
function tellTelling({ epsilon }) {
  const apart = state.profile?.nearestKm;
  $("telling").hidden = !(Math.exp(epsilon * apart) > TELLING);
  $("telling").textContent = $("telling").hidden ? ""
    : `The nearest two places are ${metres(apart)} apart: at this level a report gives away ` +
      "which place you are at.";
}

/** What building would tell, and whom. */
export function sendsWords(places, guessed = false) {
  const what = some(places, "place") + (guessed ? "" : " and how likely you are at each");
  return LOCAL
    ? `Building gives ${what} to the service on this machine, which is told to forget them ` +
      "when it is done. Traces stay in this page."
    : `Building sends ${what} to ${location.host}, after you have said yes. Traces are never sent.`;
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
    const told = guessed ? "The file does not hold the prior: to build and to compare, all " +
      "places are taken as equally likely. " : "";
    $("sends").textContent = told + (personal ? sendsWords(latlon.length, guessed) : "");
    tellLevel();
  });
  hear("built", () => tellLevel());
}
