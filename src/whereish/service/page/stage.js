// The map area: a profile, a mechanism, the pin, and the reports from the place of the pin.

import { hasKey } from "./api.js";
import { kmPerDegree, nowhere, offset } from "./geo.js";
import { isByService } from "./level.js";
import { inKm, isForPoints, neighbour } from "./measures.js";
import { heat, roundUp } from "./scene.js";
import { $, hear, hide, panes, ring, shown, state, theme } from "./state.js";
import { alikeKm, metres, percent, some, times, wind } from "./words.js";

export const FURTHEST_KM = 3000; // from the centre of the plane: the client refuses points a bit further
const SELDOM = 0.005; // places that are reported less often are not named

/** The distance in km between the nearest two places. */
function nearestOf(xy) {
  let least = Infinity;
  for (let i = 0; i < xy.length; i++) {
    for (let j = 0; j < i; j++) {
      least = Math.min(least, (xy[i][0] - xy[j][0]) ** 2 + (xy[i][1] - xy[j][1]) ** 2);
    }
  }
  return Number.isFinite(least) && least > 0 ? Math.sqrt(least) : 1;
}

/** The offset of a point in km east and north of another, accurate enough for a map. */
function aside([lat, lon], [lat0, lon0]) {
  const [perLat, perLon] = kmPerDegree((lat + lat0) / 2);
  return [(lon - lon0) * perLon, (lat - lat0) * perLat];
}

/** The data for a pane: the places, and a mechanism or null. */
export function stageOf(mechanism) {
  const { latlon, cellKm, discKm, prior, guessed, earth, lines, names } = state.profile;
  const outputs = mechanism
    ? Array.from({ length: mechanism.reports }, (_, z) => {
        const there = mechanism.output(z);
        return there.latlon ?? nowhere(there.xyKm);
      })
    : latlon;
  const usual = guessed ? null : prior;
  if (isForPoints(mechanism)) return pointStage(mechanism, outputs);
  return { inputs: latlon, outputs, cellKm, discKm, prior, usual, earth, lines, names, mechanism };
}

/** The data for a pane with a guarantee between any two points: the inputs are visited points. */
function pointStage(mechanism, outputs) {
  const { visits, guessed, earth, lines, names } = state.profile;
  const flat = outputs.map((_, z) => mechanism.output(z).xyKm);
  const extent = Math.max(...[0, 1].map((k) => {
    const line = flat.map((xy) => xy[k]);
    return Math.max(...line) - Math.min(...line);
  }));
  const discKm = extent > 0
    ? Math.max(Math.min(nearestOf(flat) * 0.48, extent / 14), extent / 60) : 0.1;
  return {
    inputs: visits.latlon, outputs, cellKm: null, discKm, prior: visits.weights,
    usual: guessed ? null : visits.weights, earth, lines, names, mechanism,
  };
}

/** The data for planar Laplace beside a mechanism for places: noise has outputs of its own. */
export function besideStage(mechanism) {
  if (!isForPoints(mechanism)) return stageOf(mechanism);
  const { latlon, discKm } = state.profile;
  const outputs = Array.from({ length: mechanism.reports }, (_, z) => mechanism.output(z).latlon);
  // The outputs of a remap are closer together than places.
  return { ...stageOf(null), inputs: latlon, outputs, cellKm: null, discKm: discKm / 2, mechanism };
}

/** The places of positive prior as visited points, for a profile without two of its own. */
function visitsOf({ latlon, xyKm, prior }) {
  const all = [...prior.keys()];
  const likely = all.filter((x) => prior[x] > 0);
  const used = likely.length > 1 ? likely : all; // a build needs two points
  return {
    latlon: used.map((x) => latlon[x]), xyKm: xyKm && used.map((x) => xyKm[x]),
    weights: used.map((x) => prior[x]),
  };
}

/** Whether the mechanism on the map has a guarantee between any two points. */
const isAnywhere = () => isForPoints(state.built?.mechanism);

/** Give the pin a spot that the mechanism on the map knows: a point, or the nearest place. */
export function resetPin() {
  const { place, profile } = state;
  if (isAnywhere() && !Array.isArray(place)) {
    const { visits, latlon, prior } = profile;
    const heaviest = visits.latlon[likeliest(visits.weights)];
    state.place = place === likeliest(prior) ? heaviest : latlon[place];
  }
  if (!isAnywhere() && Array.isArray(place)) state.place = nearest(place, profile.latlon);
}

/** Put a profile on the map. A mechanism for another profile is removed. */
export function setProfile(profile) {
  const flat = profile.xyKm ?? profile.latlon.map((point) => aside(point, profile.latlon[0]));
  const nearestKm = nearestOf(flat);
  state.profile = {
    lines: [], names: [], visits: visitsOf(profile), ...profile, flat, nearestKm,
    discKm: nearestKm * 0.48,
  };
  state.built = state.laplace = null;
  state.place = likeliest(profile.prior);
  ring("profile");
  panes.best.show(stageOf(null));
  repaint();
  $("who-name").textContent = profile.name;
  $("who-more").textContent = ` · ${some(profile.latlon.length, profile.what ?? "place")}`;
  if (profile.personal && state.city) $("who-city").hidden = false;
  else hide("who-city", "own-open");
}

/** The index of the nearest of some points in degrees. */
export function nearest(point, points) {
  let [found, best] = [0, Infinity];
  points.forEach((there, i) => {
    const away = Math.hypot(...aside(there, point));
    if (away < best) [found, best] = [i, away];
  });
  return found;
}

/** The quarter whose nearest point is this one, so that no two points get the same name. */
function quarterOf(number, points) {
  const { names } = state.profile;
  return names.find(({ latlon }) => nearest(latlon, points) === number)?.name;
}

const from = ([dx, dy], what) => `${metres(Math.hypot(dx, dy))} ${wind(dx, dy)} of ${what}`;

/** Where a spot is, in words: relative to the nearest name, or to the most likely place. */
function whereIs(place) {
  const { names, latlon, flat, prior, guessed, xyKm } = state.profile;
  const isPoint = Array.isArray(place);
  const quarter = isPoint ? null : quarterOf(place, latlon);
  if (quarter) return `near ${quarter}`;
  const point = isPoint ? place : latlon[place];
  if (names.length) {
    const { name, latlon: there } = names[nearest(point, names.map((n) => n.latlon))];
    return from(aside(point, there), name);
  }
  const here = !isPoint ? flat[place]
    : xyKm ? inKm(state.built.mechanism, place) : aside(place, latlon[0]);
  const middle = [0, 1].map((k) => flat.reduce((sum, xy) => sum + xy[k], 0) / flat.length);
  const [x, y] = guessed ? middle : isPoint ? heaviest() : flat[likeliest(prior)];
  const what = guessed ? "the middle of the places"
    : isPoint ? "the most visited point" : "the most likely place";
  const away = [here[0] - x, here[1] - y];
  return Math.hypot(...away) < 0.001 ? `at ${what}` : from(away, what);
}

/** The most visited point, in the same km as the point of the pin. */
function heaviest() {
  const { visits, latlon, xyKm } = state.profile;
  const number = likeliest(visits.weights);
  return xyKm ? visits.xyKm[number] : aside(visits.latlon[number], latlon[0]);
}

const likeliest = (prior) =>
  prior.reduce((best, share, i) => (share > prior[best] ? i : best), 0);

/** Paint every pane for the place of the pin; `held` is true while the pin is dragged. */
export function repaint(held = false) {
  const { place, built } = state;
  const seen = shown().map((pane) => pane.look(place));
  const most = roundUp(Math.max(...seen.flatMap(({ shares }) => Array.from(shares))));
  const level = built?.mechanism.epsilon;
  const hiddenKm = level ? alikeKm(built.ratio, level) : 0;
  const step = isAnywhere() ? `by ${metres(stepKm())}` : "to the next place";
  const label = `Pin: you are ${whereIs(place)}. Arrow keys move it ${step}.`;
  shown().forEach((pane, k) =>
    pane.paint(place, { most, hiddenKm, reachKm: reachOf(k), label, held }));
  tellScale(most, built ? "How often each place is reported from the pin"
    : `Prior: how likely each place is${state.profile.guessed ? " (not known)" : ""}`);
  tellCircles(hiddenKm);
  tellWhere(seen[0]);
  ring("painted");
}

/** The radius of 95 % of the reports over the prior, of the mechanism of a pane; or NaN. */
const reachOf = (k) => (k === 0 ? state.built : state.laplace)?.reach ?? NaN;

/** The scale of the colours from 0 to `most`, and what they mean. */
export function tellScale(most, title) {
  const bar = $("scale-bar");
  const pen = bar.getContext("2d");
  for (let x = 0; x < bar.width; x++) {
    pen.fillStyle = heat(((x + 0.5) / bar.width) ** 2 * most, most, theme());
    pen.fillRect(x, 0, 1, bar.height);
  }
  $("scale-title").textContent = title;
  $("scale-ticks").replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((at) => {
    const tick = document.createElement("span");
    tick.textContent = percent(at * at * most);
    return tick;
  }));
}

function tellCircles(hiddenKm) {
  const { built } = state;
  $("legend").classList.toggle("unbuilt", !built);
  if (!built) return;
  const [reach, other] = shown().map((_, k) => metres(reachOf(k)));
  $("key-reach-item").hidden = Number.isNaN(reachOf(0));
  $("key-hidden").textContent = hiddenKm
    ? `${isAnywhere() ? "any two points" : "places"} look alike within ${metres(hiddenKm)}: ` +
      `reports at most ${times(built.ratio)} likelier`
    : "no epsilon is promised";
  $("key-reach").textContent =
    `95 % of reports: within ${reach} of the true place` +
    (other ? `, planar Laplace ${other}` : "");
  $("key-usual").textContent = state.profile.guessed
    ? "prior: not known, the file does not hold it"
    : "prior: a larger circle is a likelier place";
}

let spoken = 0;
/** Say where reports fall. While the pin is dragged, wait until it rests. */
function tellWhere(seen) {
  clearTimeout(spoken);
  const { built, place } = state;
  if (!built) {
    spoken = setTimeout(tellUnbuilt); // A build may start in the meantime.
    return;
  }
  const { mechanism } = built;
  const here = inKm(mechanism, place);
  const order = Array.from(seen.shares.keys()).sort((a, b) => seen.shares[b] - seen.shares[a]);
  const outputs = order.map((_, z) => mechanism.output(z).latlon);
  const told = order.slice(0, 3).filter((z) => seen.shares[z] >= SELDOM).map((z) => {
    const { xyKm } = mechanism.output(z);
    const [dx, dy] = [xyKm[0] - here[0], xyKm[1] - here[1]];
    const away = Math.hypot(dx, dy);
    const often = percent(seen.shares[z]);
    if (away < 0.001) return `the same place ${often}`;
    const quarter = outputs[z] && quarterOf(z, outputs);
    return `${metres(away)} ${wind(dx, dy)}${quarter ? ` (near ${quarter})` : ""} ${often}`;
  });
  if (told.length === 0) told.push(`each place less than ${percent(SELDOM)}`);
  spoken = setTimeout(() => {
    $("where").textContent = `The pin is ${whereIs(place)}. Reports from here: ` +
      `${told.join(", ")}. On average they are ${metres(seen.mean)} from the pin.`;
  }, panes.best.dragging ? 250 : 0);
}

/** Before the first build: say which button to press, and why the others are disabled. */
function tellUnbuilt() {
  if (state.built) return;
  const asks = isByService() && state.about?.key_needed && !hasKey();
  const key = asks ? " (a key is needed)" : "";
  $("where").textContent = state.job || !state.profile ? ""
    : `Press Build to see where reports fall${key}. Before that, there is nothing to draw or to ` +
      "compare.";
}
hear("job", tellUnbuilt);

// --- the pin -------------------------------------------------------------------------------

/** How far an arrow key moves the pin: a fifth of the distance at which points look alike. */
function stepKm() {
  const { ratio, mechanism } = state.built;
  return Math.max(0.01, Number((alikeKm(ratio, mechanism.epsilon) / 5).toPrecision(1)));
}

/** Put the pin at a point in degrees, or at the nearest place if the mechanism is for places. */
export const putPin = (latlon) =>
  movePin(isAnywhere() ? latlon : nearest(latlon, state.profile.latlon), false);

function movePin(place, held) {
  const { built } = state;
  if (Array.isArray(place) && Math.hypot(...inKm(built.mechanism, place)) > FURTHEST_KM) return;
  const same = String(place) === String(state.place);
  state.place = place;
  if (!same) ring("moved");
  if (!same || !held) repaint(held);
}

export const pinEvents = {
  moved: (latlon) =>
    movePin(isAnywhere() ? latlon : nearest(latlon, state.profile.latlon), true),
  dropped: () => repaint(),
  stepped: (dx, dy) => movePin(isAnywhere()
    ? offset(state.place, dx * stepKm(), dy * stepKm())
    : neighbour(state.profile.flat, state.place, dx, dy), false),
  camera: (pane) => follow(pane),
};

let following = false;
/** Both maps share one camera. */
function follow(leader) {
  const other = leader === panes.best ? panes.laplace : panes.best;
  if (following || !state.comparing || !other) return;
  following = true;
  other.map.camera = leader.map.camera;
  following = false;
}
