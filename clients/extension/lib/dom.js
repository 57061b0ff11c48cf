// Small helpers for the pages of the extension.
import { CHOICES, LEVELS, NOISY } from "./levels.js";
import { kept } from "./mechanisms.js";

export const $ = (id) => document.getElementById(id);

/** Say that the page answers now. Until then it is inert: a button that is seen would do nothing. */
export const wired = () => { document.body.inert = false; };

export function make(kind, properties = {}, ...children) {
  const made = Object.assign(document.createElement(kind), properties);
  made.append(...children);
  return made;
}

/** A distance in metres, in words. */
export const distance = (metres) => (metres < 1000 ? `${metres} m`
  : `${Number((metres / 1000).toFixed(metres < 10_000 ? 1 : 0))} km`);

/** Radio buttons for the levels, each with what it hides and how far its reports are, short if `brief`. */
export async function levelButtons(into, chosen, pick, brief = false) {
  const made = Object.fromEntries(await Promise.all(NOISY.map(async (key) => [key, await kept(key)])));
  into.replaceChildren(...CHOICES.map((key) => {
    const { name, metres, says, short } = LEVELS[key];
    const far = !made[key] ? "" : brief ? ` 95 % of reports: within ${distance(made[key].accuracy)}.`
      : ` 95 % of reports are within ${distance(made[key].accuracy)} of you.`;
    const input = make("input", { type: "radio", name: "level", value: key, checked: key === chosen });
    input.addEventListener("change", () => pick(key));
    return make("label", {}, input, make("b", { textContent: name }),
      make("span", { className: "small", textContent: (!brief ? says : short ?? `Hides ${distance(metres)}.`) + far }));
  }));
}

const TIME = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

/** The day of a time in milliseconds, in words. */
export const dayOf = (time) => new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" }).format(time);

/** What a site was told last, in words. */
export function toldWords(last) {
  if (!last) return "nothing yet";
  const at = TIME.format(last.timestamp);
  if (last.level === "off") return `your true position, ${at}`;
  const where = `${Math.abs(last.latitude).toFixed(4)}° ${last.latitude < 0 ? "S" : "N"}, ` +
    `${Math.abs(last.longitude).toFixed(4)}° ${last.longitude < 0 ? "W" : "E"}`;
  return `${where}, give or take ${distance(last.accuracy)}; ${at}`;
}

/** The host of a site, for a heading. */
export const shortly = (name) => name.replaceAll(/https?:\/\//g, "");
