// Having something built: asked first where it is personal, watched by a live bar, shown.

import * as api from "./api.js";
import { inFull, inShort } from "./certificate.js";
import { askedFor, isFaster, level } from "./level.js";
import { certificateIn, overPrior } from "./measures.js";
import { repaint, stageOf } from "./stage.js";
import { $, LOCAL, hear, hide, panes, ring, state } from "./state.js";
import { ask, calm, trouble } from "./trouble.js";
import { readMechanism } from "./vendor/whereish.js";
import { metres, seconds, some, tiny } from "./words.js";

const HELD = "The service did not answer when it was told to forget this: it may hold it for a " +
  "while. It is told again when this page is left.";
const FASTER = 1.1; // the spanner's dilation: the same privacy on fewer pairs

export function recipeOf(profile, epsilon, method, dilation = 1) {
  const places = profile.earth === false ? { xy_km: profile.xyKm } : { latlon: profile.latlon };
  if (profile.cellKm) places.cell_km = profile.cellKm;
  return {
    places, prior: profile.prior, epsilon_per_km: epsilon, dilation, method,
    solver: "structured", // it proves how good what it finds is
    tolerance: 1e-6, time_limit_s: null,
    // In the file that the page reads, which proves with it how good it is. The service is told to
    // forget both; the file to download is fetched without the prior.
    keep_prior: true,
  };
}

let lost = null; // the order that the service did not answer for: it may be taken up again

/**
 * Have an order built, with the live bar: `done(made)` gets what came of it. Nothing comes of it if
 * it is cancelled or goes wrong; `again` begins anew.
 */
export async function have(order, title, done, again) {
  if (!(await mayTell())) return;
  cancel();
  if (lost && lost !== order) void api.abandon(lost);
  lost = null;
  const stop = new AbortController();
  const job = (state.job = { stop });
  const begun = performance.now();
  tellBuilding(true, `${title}…`);
  let said = "It was cancelled.";
  const told = (now) => {
    if (now.state === "held") trouble(HELD);
    else if (state.job === job) tellProgress(now, title);
  };
  try {
    const { bytes, bare, forgotten } = await api.build(order, {
      signal: stop.signal, askKey, told,
    });
    // What is audited here, shown and downloaded is the file without the prior.
    const mechanism = await readMechanism(bare);
    const made = { mechanism, bytes: bare, certificate: certificateIn(bytes), forgotten };
    made.waited = (performance.now() - begun) / 1000;
    said = "It is built.";
    await done(made);
  } catch (wrong) {
    if (wrong instanceof api.Cancelled) return;
    said = "";
    let words = api.inWords(wrong, Boolean(state.built));
    if (wrong instanceof api.Unreachable) {
      lost = order;
      if (order.id) words += " It may still hold what it was given: try again, and it goes on.";
    }
    trouble(words, lost ? () => have(order, title, done, again) : again);
  } finally {
    if (state.job === job) {
      state.job = null;
      tellBuilding(false, said);
    }
  }
}

export const cancel = () => state.job?.stop.abort();

/** Build what is asked for, for whoever is on the map. */
export async function build() {
  const chosen = level();
  const { profile } = state;
  if (chosen.wrong || !profile) return;
  calm();
  const asked = askedFor(chosen);
  const recipe = isFaster() ? recipeOf(profile, chosen.epsilon, "auto", FASTER)
    : recipeOf(profile, chosen.epsilon, "exact");
  const { prior } = profile;
  await have(api.orderOf(recipe), "Building", (made) => {
    if (state.profile === profile) showBuilt({ ...made, prior, ratio: chosen.ratio, asked });
  }, build);
}

/** How long it took: what the person waited, and what of it was the search for the mechanism. */
function howLong(waited, searched) {
  if (waited === undefined) return searched ? [`The search took ${seconds(searched)}.`] : [];
  const [all, part] = [seconds(waited), seconds(searched ?? 0)];
  const whole = `Built in ${all}`;
  return [!searched || all === part ? `${whole}.` : `${whole}; the search took ${part} of it.`];
}

/** Show what was built or opened; without a `prior` nobody knows how good it is. */
export function showBuilt(built) {
  const { mechanism, prior } = built;
  // An opened file: its claims, and over them what the client has worked out. Nothing here checks a
  // proof, so what a file says of the best possible is left out: `whereish audit` works it out.
  const unchecked = { lower_bound_km: null, gap: null };
  const {
    certificate = { ...certificateIn(built.bytes), ...unchecked, ...mechanism.certificate },
  } = built;
  state.built = { ...built, certificate, ...overPrior(mechanism, prior) };
  state.laplace = null;
  panes.best.show(stageOf(mechanism), { fit: false });
  const known = (km) => (prior ? metres(km) : "not known");
  $("figure-loss").textContent = known(state.built.loss);
  $("figure-reach").textContent = known(state.built.reach);
  const told = [inShort(certificate)];
  if (!prior) {
    told.push("How far off reports are on average is not known: the file does not hold the prior.");
  } else if (state.profile.guessed) told.push("All places are taken as equally likely.");
  told.push(...howLong(built.waited, certificate.seconds));
  if (prior && state.profile.personal && !state.profile.guessed) {
    told.push(built.certificate
      ? "The file does not hold how likely you are where, but most of that can be worked out from " +
        "it: keep it to yourself."
      : "The file tells how likely you are where: keep it to yourself.");
  }
  if (built.forgotten) told.push("The service has forgotten it.");
  if (built.forgotten === false) told.push("The service may still hold it for a while.");
  $("proved").textContent = told.join(" ");
  $("result").hidden = false;
  ring("built");
  repaint();
}

/** The bar comes or goes: said once each, for those who do not see it. */
function tellBuilding(on, words) {
  $("progress").hidden = !on;
  if (on) $("cancel").hidden = false;
  else hide("cancel", "build");
  $("build").textContent = on ? "Build anew" : "Build";
  $("bar").removeAttribute("value");
  $("progress-words").textContent = on ? words : "";
  $("said").textContent = words;
  ring("job");
}

function tellProgress(now, title) {
  const { progress: step, estimate } = now;
  let words = `${title}…`;
  if (now.state === "waiting") words = `The service is busy: asking again in ${now.left} s.`;
  else if (now.state === "away") words = "Waiting for the service, which does not answer…";
  else if (now.state === "queued") words = "Waiting for its turn…";
  else if (step && Number.isFinite(step.gap)) {
    // From a gap of 1 down to the tolerance, a factor at a time.
    const way = -Math.log10(Math.max(step.gap, 1e-6)) / 6;
    $("bar").value = Math.min(0.98, Math.max(0.02, way));
    const near = step.gap <= 1 ? `within ${tiny(step.gap)} of the best possible, ` : "";
    words = `Step ${step.iteration}: ${metres(step.loss_km)} off, ${near}` +
      `${seconds(step.elapsed_s)}.`;
  } else if (step) words = `Step ${step.iteration}, ${seconds(step.elapsed_s)}.`;
  else if (estimate?.seconds > 2) words = `${title}: about ${seconds(estimate.seconds)}.`;
  if (now.note) words += ` ${api.sentence(now.note)}`;
  $("progress-words").textContent = words;
}

/** Ask before anything personal goes to another machine: once for a profile. */
function mayTell() {
  const { profile } = state;
  if (LOCAL || !profile.personal || profile.agreed) return true;
  $("consent-words").textContent = `${some(profile.latlon.length, "place")} and how likely you ` +
    `are at each would go to ${location.host}, which builds the mechanism and is then told to ` +
    "forget them. Your traces and where the pin is stay here.";
  return ask("consent", () => {
    profile.agreed = true;
  });
}

function askKey({ refused }) {
  $("key-text").value = "";
  $("key-wrong").hidden = !refused;
  // Said when the dialog is open: an alert that was there before is none.
  setTimeout(() => {
    $("key-wrong").textContent = refused
      ? "This key was refused: check it, or ask whoever runs the service." : "";
  });
  return ask("key", () => api.setKey($("key-text").value.trim(), $("key-keep").checked));
}

/** The name under which the file is saved, and audited. */
const fileName = () => {
  const { name, mechanism: { epsilon } } = state.built;
  return name ?? `whereish-${epsilon === null ? "none" : Number(epsilon.toPrecision(4))}.whereish`;
};

function download() {
  const link = document.createElement("a");
  // The bytes that came, untouched: their digest is part of them.
  const content = new Blob([state.built.bytes], { type: "application/octet-stream" });
  link.href = URL.createObjectURL(content);
  link.download = fileName();
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export function wireBuilding() {
  $("cancel").addEventListener("click", cancel);
  $("download").addEventListener("click", download);
  $("certificate-open").addEventListener("click", () => {
    $("certificate-words").replaceChildren(...inFull(
      state.built.mechanism, fileName(), state.built.certificate));
    $("certificate").showModal();
  });
  $("key-close").addEventListener("click", () => $("key").close());
  $("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if ($("key-text").value.trim()) $("key").close("yes");
  });
  hear("profile", () => {
    if (lost) void api.abandon(lost);
    lost = null;
    $("result").hidden = true;
  });
}
