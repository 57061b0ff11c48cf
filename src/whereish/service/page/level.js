// The level in words: so many metres, so many times likelier; epsilon follows.

import { $, LOCAL, hear, state } from "./state.js";
import { count, epsilonOf, metres, some, times } from "./words.js";

const SLIDER = { from: 100, to: 5000 }; // metres at its ends

/** What is asked for: metres, ratio, epsilon per km; or what is wrong with it. */
export function level() {
  const apart = Number($("metres").value);
  const ratio = Number($("ratio").value);
  if (!(apart >= 1 && apart <= 100_000)) {
    return { wrong: "The distance must be from 1 to 100,000 metres." };
  }
  if (!(ratio > 1 && ratio <= 1e6)) {
    return { wrong: "The second number must be above 1: 2 means at most twice as likely." };
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

export function tellLevel() {
  const chosen = level();
  $("level-wrong").hidden = !chosen.wrong;
  $("level-wrong").textContent = chosen.wrong ?? "";
  $("build").disabled = Boolean(chosen.wrong) || !state.profile;
  const stale = !chosen.wrong && state.built && state.built.asked !== askedFor(chosen);
  $("stale").hidden = !stale;
  if (chosen.wrong) return;
  const { from, to } = SLIDER;
  $("metres-slider").value = (Math.log(chosen.metres / from) / Math.log(to / from)) * 100;
  $("metres-slider").setAttribute("aria-valuetext", `${count(chosen.metres)} metres`);
  $("epsilon").textContent = `That is ε = ${Number(chosen.epsilon.toPrecision(4))} per km: ` +
    `${times(chosen.ratio)} at ${metres(chosen.metres / 1000)}, ` +
    `${Number((chosen.ratio ** 2).toPrecision(3))} times at ${metres(chosen.metres / 500)}.`;
}

/** What building would tell, and whom. */
export function sendsWords(places) {
  const what = `${some(places, "place")} and how likely you are at each`;
  return LOCAL
    ? `Building gives ${what} to the service on this machine, which forgets them when it is ` +
      "done. Traces stay in this page."
    : `Building sends ${what} to ${location.host}, after you have said yes. Traces are never sent.`;
}

export function wireLevel(build) {
  $("level").addEventListener("input", (event) => {
    if (event.target === $("metres-slider")) {
      const apart = SLIDER.from * (SLIDER.to / SLIDER.from) ** (Number(event.target.value) / 100);
      const step = apart < 1000 ? 10 : apart < 3000 ? 50 : 100;
      $("metres").value = Math.round(apart / step) * step;
    }
    tellLevel();
  });
  $("level").addEventListener("submit", (event) => {
    event.preventDefault();
    void build();
  });
  hear("profile", () => {
    const { personal, latlon } = state.profile;
    $("sends").textContent = personal ? sendsWords(latlon.length) : "";
    tellLevel();
  });
  hear("built", tellLevel);
}
