// The state of the page in one object, and events for its changes.

export const $ = (id) => document.getElementById(id);

// Whether a service is behind this page. The page of `make site` has none: it builds on the device
// only, and the elements for a service are taken out (page.js).
export const SERVICE = document.querySelector("meta[name=whereish-service]").content === "here";

export const LOCAL = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

export const state = {
  about: null, // the answer of /v1/about
  city: null, // the profile that the page opens with
  profile: null, // the places on the map, and their prior
  built: null, // { mechanism, bytes, certificate, prior, name, ratio, asked, forgotten, loss, reach }
  laplace: null, // the same for planar Laplace, in a comparison
  // The place of the pin; a point in degrees if the guarantee is between any two points. It is never
  // sent to the service.
  place: 0,
  report: null, // where the report is whose conclusions are shown, in degrees; or null
  comparing: false,
  job: null, // { stop: AbortController } during a build
  backdrop: null,
  world: null, // the map of the world, once it is loaded
};

export const panes = { best: null, laplace: null };

/** The maps that are visible now. */
export const shown = () =>
  [panes.best, state.comparing ? panes.laplace : null].filter(Boolean);

const bell = new EventTarget();
/** Events: profile (a new one), level (changed by the person), job (begun or ended), built, moved (the pin), painted, theme. */
export const ring = (name, detail) => bell.dispatchEvent(new CustomEvent(name, { detail }));
export const hear = (name, act) => bell.addEventListener(name, act);

/** Hide an element. If it has the keyboard focus, move the focus to the element `next`. */
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
