// The stage: a profile on the map, a mechanism on it, the pin, and what is seen from there.

import { nowhere } from "./geo.js";
import { neighbour } from "./measures.js";
import { heat, roundUp } from "./scene.js";
import { $, panes, ring, shown, state, theme } from "./state.js";
import { alikeKm, metres, percent, some, times, wind } from "./words.js";

/** Half of how near the nearest places are: for places without a cell. */
function discOf(xy) {
  let least = Infinity;
  for (let i = 0; i < Math.min(xy.length, 500); i++) {
    for (let j = 0; j < i; j++) {
      least = Math.min(least, Math.hypot(xy[i][0] - xy[j][0], xy[i][1] - xy[j][1]));
    }
  }
  return (Number.isFinite(least) && least > 0 ? least : 1) * 0.48;
}

/** Km east and north of a point, near enough to tell what is beside what. */
function aside([lat, lon], [lat0, lon0]) {
  return [(lon - lon0) * 111.32 * Math.cos((lat0 * Math.PI) / 180), (lat - lat0) * 110.9];
}

/** What a pane draws: the places, and a mechanism or none. */
export function stageOf(mechanism) {
  const { latlon, cellKm, discKm, prior, lines, names } = state.profile;
  const outputs = mechanism
    ? Array.from({ length: mechanism.reports }, (_, z) => {
        const there = mechanism.output(z);
        return there.latlon ?? nowhere(there.xyKm);
      })
    : latlon;
  return { inputs: latlon, outputs, cellKm, discKm, prior, lines, names, mechanism };
}

/** Put somebody's places on the map; what was built for others goes. */
export function setProfile(profile) {
  const flat = profile.xyKm ?? profile.latlon.map((point) => aside(point, profile.latlon[0]));
  state.profile = { lines: [], names: [], ...profile, flat, discKm: discOf(flat) };
  state.built = state.laplace = null;
  const { prior } = profile;
  state.place = prior.reduce((best, share, i) => (share > prior[best] ? i : best), 0);
  ring("profile");
  panes.best.show(stageOf(null));
  repaint();
  $("who-name").textContent = profile.name;
  $("who-more").textContent = ` · ${some(profile.latlon.length, "place")}`;
  $("who-city").hidden = !profile.personal || !state.city;
}

/** Name a place: the quarter it is in, where one is near, or its number. */
function nameOf(latlon, number) {
  const { names, cellKm } = state.profile;
  let [found, best] = [null, Math.max(...(cellKm ?? [0.5])) * 0.75];
  for (const { name, latlon: there } of names) {
    const away = Math.hypot(...aside(there, latlon));
    if (away < best) [found, best] = [name, away];
  }
  return found ? `near ${found}` : `at place ${number + 1}`;
}

/** Paint every pane for the pin's place; `held` while the pin is in somebody's hand. */
export function repaint(held = false) {
  const { place, profile, built } = state;
  const seen = shown().map((pane) => pane.look(place));
  const most = roundUp(Math.max(...seen.flatMap(({ shares }) => Array.from(shares))));
  const level = built?.mechanism.epsilon;
  const hiddenKm = level ? alikeKm(built.ratio, level) : 0;
  const label = `Pin: you are ${nameOf(profile.latlon[place], place)}. ` +
    "Arrow keys move it to the next place.";
  for (const pane of shown()) pane.paint(place, { most, hiddenKm, label, held });
  tellScale(most);
  tellCircles(seen, hiddenKm);
  tellWhere(seen[0]);
  ring("painted");
}

function tellScale(most) {
  const bar = $("scale-bar");
  const pen = bar.getContext("2d");
  for (let x = 0; x < bar.width; x++) {
    pen.fillStyle = heat(((x + 0.5) / bar.width) ** 2 * most, most, theme());
    pen.fillRect(x, 0, 1, bar.height);
  }
  $("scale-title").textContent = state.built
    ? "How often each place is reported from the pin" : "How likely each place is, before reports";
  $("scale-ticks").replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((at) => {
    const tick = document.createElement("span");
    tick.textContent = percent(at * at * most);
    return tick;
  }));
}

function tellCircles(seen, hiddenKm) {
  const { built } = state;
  $("legend").classList.toggle("unbuilt", !built);
  if (!built) return;
  const [reach, other] = seen.map((one) => metres(one.reach));
  $("key-hidden").textContent = hiddenKm
    ? `hidden within ${metres(hiddenKm)}: at most ${times(built.ratio)} likelier`
    : "no epsilon is promised";
  $("key-reach").textContent =
    `95 % of reports: within ${reach}${other ? `, planar Laplace ${other}` : ""}`;
  $("figure-hidden").textContent = hiddenKm ? metres(hiddenKm) : "nowhere";
  $("figure-reach").textContent = reach;
}

let spoken = 0;
/** Say where reports go; while the pin is dragged, only when it rests. */
function tellWhere(seen) {
  clearTimeout(spoken);
  const { built, profile, place } = state;
  if (!built) {
    $("where").textContent = "";
    return;
  }
  const { mechanism } = built;
  const here = mechanism.input(place);
  const order = Array.from(seen.shares.keys()).sort((a, b) => seen.shares[b] - seen.shares[a]);
  const told = order.slice(0, 3).map((z) => {
    const { xyKm, latlon } = mechanism.output(z);
    const [dx, dy] = [xyKm[0] - here[0], xyKm[1] - here[1]];
    const away = Math.hypot(dx, dy);
    const often = percent(seen.shares[z]);
    if (away < 0.001) return `the same place ${often}`;
    const name = latlon ? nameOf(latlon, z) : "";
    const near = name.startsWith("near") ? ` (${name})` : "";
    return `${metres(away)} ${wind(dx, dy)}${near} ${often}`;
  });
  spoken = setTimeout(() => {
    $("where").textContent = `The pin is ${nameOf(profile.latlon[place], place)}. Reports from ` +
      `here: ${told.join(", ")}. They are ${metres(seen.mean)} off on average, and 95 % fall ` +
      `within ${metres(seen.reach)}.`;
  }, panes.best.dragging ? 250 : 0);
}

// --- the pin -------------------------------------------------------------------------------

function nearest(point) {
  let [found, best] = [0, Infinity];
  state.profile.latlon.forEach((there, i) => {
    const away = Math.hypot(...aside(there, point));
    if (away < best) [found, best] = [i, away];
  });
  return found;
}

function movePin(place, held) {
  const same = place === state.place;
  state.place = place;
  if (!same) ring("moved");
  if (!same || !held) repaint(held);
}

export const pinEvents = {
  moved: (latlon) => movePin(nearest(latlon), true),
  dropped: () => repaint(),
  stepped: (dx, dy) => movePin(neighbour(state.profile.flat, state.place, dx, dy), false),
  camera: (pane) => follow(pane),
};

let following = false;
/** Two maps have one camera. */
function follow(leader) {
  const other = leader === panes.best ? panes.laplace : panes.best;
  if (following || !state.comparing || !other) return;
  following = true;
  other.map.camera = leader.map.camera;
  following = false;
}
