// Click a report: the map and the words show what somebody who sees it can conclude about the place,
// with the prior and without it. Everything is computed in this page.

import { nowhere, unproject } from "./geo.js";
import { inKm, isForPoints, isNoise, spotsOf } from "./measures.js";
import {
  averageChance, bestGuess, columnOf, posterior, ratioNear, rectangle, rowsOf, squaresOf, uniform,
} from "./posterior.js";
import { roundUp } from "./scene.js";
import { nearest, pinEvents, repaint, tellScale } from "./stage.js";
import { $, hear, hide, panes, shown, state } from "./state.js";
import { alikeKm, metres, percent, some, times, wind } from "./words.js";

// Squares of the picture for a prior that knows the area only. Noise is integrated for each.
const SQUARES = 1600;
const SQUARES_OF_NOISE = 300;
const MARGIN = 0.1; // of the area, around the points and outputs of a mechanism for every point

/** The spots of the adversary's prior with their rows, computed once for a mechanism. */
function knowledge(built, knowsPrior) {
  const whole = isForPoints(state.built.mechanism);
  if (knowsPrior || !whole) {
    const { visits, latlon } = state.profile;
    const { mechanism } = built;
    built.spots ??= spotsOf(mechanism, whole ? visits.latlon : latlon);
    built.rows ??= rowsOf(mechanism, built.spots);
    const prior = knowsPrior ? priorOf() : uniform(built.spots.length);
    return { spots: built.spots, rows: built.rows, prior, sideKm: null };
  }
  built.squares ??= squares(built);
  return built.squares;
}

/** A uniform prior over the area of a mechanism for every point, in squares. */
function squares({ mechanism }) {
  const { visits } = state.profile;
  const flat = [
    ...visits.latlon.map((point) => inKm(mechanism, point)),
    ...Array.from({ length: mechanism.reports }, (_, z) => mechanism.output(z).xyKm),
  ];
  const [[west, south], [east, north]] = rectangle(flat, 0);
  const margin = MARGIN * Math.max(east - west, north - south) + alikeKm(2, mechanism.epsilon);
  const most = isNoise(mechanism) ? SQUARES_OF_NOISE : SQUARES;
  const { centres, sideKm } = squaresOf(rectangle(flat, margin), most);
  const spots = centres.map((xy) =>
    (mechanism.plane ? unproject(mechanism.plane, ...xy) : nowhere(xy)));
  return { spots, rows: rowsOf(mechanism, spots), prior: uniform(spots.length), sideKm };
}

const priorOf = () => (isForPoints(state.built.mechanism) ? state.profile.visits.weights
  : state.profile.prior);
const knowsPrior = () => document.querySelector("[name=knows]:checked").value === "prior";
const outputAt = (mechanism, z) => {
  const { latlon, xyKm } = mechanism.output(z);
  return latlon ?? nowhere(xyKm);
};
const latlonOf = (spot) => (Array.isArray(spot) ? spot : state.profile.latlon[spot]);

/** What somebody concludes from the report at `state.report`, with the mechanism of a pane. */
function conclusion(built) {
  const { mechanism } = built;
  const outputs = Array.from({ length: mechanism.reports }, (_, z) => outputAt(mechanism, z));
  const z = nearest(state.report, outputs);
  const known = knowledge(built, knowsPrior());
  const column = columnOf(known.rows, z);
  const after = posterior(known.prior, column);
  return { ...known, mechanism, z, at: outputs[z], column, after };
}

/** Choose a report by a click on the map, if the click is on a cell or a disc. */
function pick(latlon, apartPx) {
  if (!state.built) return;
  const { mechanism } = state.built;
  const outputs = Array.from({ length: mechanism.reports }, (_, z) => outputAt(mechanism, z));
  const found = outputs[nearest(latlon, outputs)];
  if (panes.best.inCell(latlon, found) || apartPx(found) < 24) choose(found);
}

function choose(latlon) {
  state.report = latlon;
  $("why").open = false;
  repaint();
  if (matchMedia("(max-width: 860px)").matches) {
    $("maps").scrollIntoView({ block: "start" });
  }
}

function close() {
  if (state.report === null) return;
  state.report = null;
  show(false);
  repaint();
}

/** The button: the last drawn report, or else the one that is likeliest from the pin. */
function toggle() {
  if (state.report !== null) {
    close();
    return;
  }
  const { drawn, seen } = panes.best;
  const z = drawn.at(-1) ?? bestGuess(seen.shares).spot;
  choose(outputAt(state.built.mechanism, z));
}

function show(on) {
  $("under").classList.toggle("concluding", on);
  $("conclude").setAttribute("aria-pressed", String(on));
  $("where").hidden = on;
  if (on) $("conclusion").hidden = false;
  else hide("conclusion", "conclude");
}

/** Draw and describe the conclusion over what `repaint` has drawn. */
function paint() {
  if (state.report === null || !state.built) return;
  const { guessed } = state.profile;
  document.querySelector("[name=knows][value=prior]").disabled = Boolean(guessed);
  if (guessed) document.querySelector("[name=knows][value=nothing]").checked = true;
  show(true);
  const found = shown().map((pane) =>
    conclusion(pane === panes.best ? state.built : state.laplace));
  const most = roundUp(Math.max(...found.map(({ after }) => (after ? bestGuess(after).chance : 0))));
  shown().forEach((pane, k) => {
    const { spots, after, at, sideKm } = found[k];
    pane.conclude(spots.map(latlonOf), after ?? spots.map(() => 0), most, at, sideKm);
  });
  tellScale(most, "How likely you are at each place, for somebody who sees the report");
  tell(found);
}

/** A position relative to the pin, in words. */
function fromPin(mechanism, point) {
  const [x, y] = inKm(mechanism, state.place);
  const [dx, dy] = [point[0] - x, point[1] - y];
  const away = Math.hypot(dx, dy);
  return away < 0.001 ? null : `${metres(away)} ${wind(dx, dy)} of the pin`;
}

function tell([best, other]) {
  const { mechanism, z, sideKm, prior, after, rows, spots } = best;
  const from = fromPin(mechanism, mechanism.output(z).xyKm);
  const report = from ? `this report (${from})` : "this report (at the pin)";
  const whole = isForPoints(mechanism);
  const what = sideKm ? `square (${metres(sideKm)} wide)` : whole ? "visited point" : "place";
  if (!after) {
    $("conclusion-words").textContent = `At this level, ${report} is never sent from any of the ` +
      `${some(spots.length, what)}. Click another place.`;
    $("conclusion-more").textContent = "";
    $("why").hidden = true;
    return;
  }
  $("why").hidden = false;
  const guess = bestGuess(after);
  const before = bestGuess(prior).chance;
  const who = knowsPrior() ? "Who knows your habits and sees" : "Who knows nothing and sees";
  const beside = other?.after
    ? ` With planar Laplace it is ${percent(bestGuess(other.after).chance)}.` : "";
  $("conclusion-words").textContent = `${who} ${report} guesses the right ${what} ` +
    `${percent(guess.chance)} of the time; without the report ${percent(before)}.${beside}`;
  const spot = fromPin(mechanism, inKm(mechanism, spots[guess.spot]));
  const hit = sideKm ? `The likeliest square is ${spot ?? "at the pin"}.`
    : spot ? `Their best guess is the ${what} ${spot}: it is wrong.`
      : `Their best guess is the pin's ${what}: it is right this time.`;
  $("conclusion-more").textContent = `${hit} Over all reports, the best guess is right ` +
    `${percent(averageChance(prior, rows))} of the time.`;
  tellWhy(best);
}

/** Why a report that often names the true place is still private, with the numbers of this one. */
function tellWhy({ mechanism, z, spots, column, prior, after, sideKm }) {
  const { ratio, profile } = { ratio: state.built.ratio, profile: state.profile };
  const share = panes.best.seen.shares[z];
  $("why-title").textContent = fromPin(mechanism, mechanism.output(z).xyKm)
    ? "Why is this still private?"
    : `Why is “the same place ${percent(share)}” still private?`;
  if (mechanism.epsilon === null) {
    $("why-words").textContent = "It is not: this mechanism promises no epsilon.";
    return;
  }
  const words = [];
  const spot = nearest(latlonOf(state.place), spots.map(latlonOf));
  const next = ratioNear(mechanism, spots, column, spot);
  const what = sideKm ? "square" : isForPoints(mechanism) ? "point" : "place";
  words.push(`This report is sent from the pin ${percent(share)} of the time, and it is sent from ` +
    `the ${what}s around it, too.`);
  if (next && Number.isFinite(next.ratio)) {
    words.push(`It is ${times(Math.max(next.ratio, 1))} as likely from the pin as from the ` +
      `${what} ${metres(next.km)} ${wind(next.dx, next.dy)}. The guarantee allows at most ` +
      `${times(next.limit)} there.`);
  }
  const apart = metres(alikeKm(ratio, mechanism.epsilon));
  words.push(`So for two ${what}s ${apart} apart, a report changes the odds by a factor of at most ` +
    `${Number(ratio.toPrecision(3))}, for everybody, whatever they knew before.`);
  const { spot: likeliest, chance } = bestGuess(after);
  words.push(`How sure somebody is afterwards depends on that knowledge: the likeliest ${what} had ` +
    `${percent(prior[likeliest])} before the report, and has ${percent(chance)} after it.`);
  if (knowsPrior() && !profile.guessed) {
    words.push("Who knows your habits guesses well without any report. The mechanism does not take " +
      "that knowledge away. It limits what a report adds to it.");
  }
  $("why-words").textContent = words.join(" ");
}

export function wireConcluding() {
  pinEvents.picked = pick;
  $("conclude").addEventListener("click", toggle);
  $("conclusion-close").addEventListener("click", close);
  $("conclusion").addEventListener("change", () => repaint());
  $("why").addEventListener("toggle", () => {
    if ($("why").open) $("why").scrollIntoView({ block: "nearest" });
  });
  hear("painted", paint);
  hear("profile", close);
}
