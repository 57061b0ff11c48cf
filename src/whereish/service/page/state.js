// What the page knows, in one object; and a bell that rings when some of it has changed.

export const $ = (id) => document.getElementById(id);

export const LOCAL = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

export const state = {
  about: null, // what the service says of itself
  city: null, // the profile that the page opens with
  profile: null, // whose places are on the map
  built: null, // { mechanism, bytes, certificate, prior, name, ratio, asked, forgotten, loss, reach }
  laplace: null, // the same, to be compared with
  place: 0, // where the pin is: it is told to nobody
  comparing: false,
  job: null, // { stop: AbortController } while something is built
  backdrop: null,
};

export const panes = { best: null, laplace: null };

/** The maps that are to be seen now. */
export const shown = () =>
  [panes.best, state.comparing ? panes.laplace : null].filter(Boolean);

const bell = new EventTarget();
/** Names: profile (another one), job (begun or ended), built, moved (the pin), painted, theme. */
export const ring = (name) => bell.dispatchEvent(new Event(name));
export const hear = (name, act) => bell.addEventListener(name, act);

/** Hide something; who was in it with the keyboard goes on where it makes sense. */
export function hide(id, next) {
  const within = $(id).contains(document.activeElement);
  $(id).hidden = true;
  if (within) ($(next).disabled ? $("controls") : $(next)).focus();
}

const darkness = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
export const theme = () => chosen ?? (darkness.matches ? "dark" : "light");

export function setTheme(name) {
  chosen = name;
  document.documentElement.dataset.theme = name;
  ring("theme");
}

darkness.addEventListener("change", () => ring("theme"));
