// Building a mechanism: ask for consent if the data is personal, show progress, show the result.

import * as api from "./api.js";
import { inFull, inShort } from "./certificate.js";
import { askedFor, isEverywhere, isFaster, level, sentData } from "./level.js";
import { certificateIn, isLattice, overPrior } from "./measures.js";
import { repaint, resetPin, stageOf } from "./stage.js";
import { $, LOCAL, hear, hide, panes, ring, state } from "./state.js";
import { ask, calm, trouble } from "./trouble.js";
import { readMechanism } from "./vendor/whereish.js";
import { metres, seconds, tiny } from "./words.js";

const HELD = "The service did not answer the request to delete this job, so it may keep the job " +
  "for a while. This page sends the request again when you leave it.";
const FASTER = 1.1; // the spanner's dilation: the same privacy on fewer pairs

export function recipeOf(profile, epsilon, method, dilation = 1) {
  const places = profile.earth === false ? { xy_km: profile.xyKm } : { latlon: profile.latlon };
  if (profile.cellKm) places.cell_km = profile.cellKm;
  return {
    places, prior: profile.prior, epsilon_per_km: epsilon, dilation, method,
    solver: "structured", // this solver also proves a lower bound on the loss
    tolerance: 1e-6, time_limit_s: null,
    // The page reads the loss and the bound from the certificate of a file that holds the prior.
    // The service deletes the job afterwards; the file to download is fetched without the prior.
    keep_prior: true,
  };
}

/** The recipe of a guarantee between any two points, for the points that the person visits. */
function everywhereRecipe({ earth, visits }, epsilon) {
  return {
    places: earth === false ? { xy_km: visits.xyKm } : { latlon: visits.latlon },
    prior: visits.weights, epsilon_per_km: epsilon, guarantee: "everywhere", method: "exact",
    lattice_only: true, // this page cannot draw planar Laplace noise
    time_limit_s: null, keep_prior: true, // as above
  };
}

let lost = null; // the order for which the service did not answer: it may be continued

/**
 * Build an order and show its progress. `done(made)` gets the result; it is not called if the
 * person cancels or the build fails. `again` starts a new build after a failure.
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
  let said = "Building was cancelled.";
  const told = (now) => {
    if (now.state === "held") trouble(HELD);
    else if (state.job === job) tellProgress(now, title);
  };
  try {
    const { bytes, bare, forgotten } = await api.build(order, {
      signal: stop.signal, askKey, told,
    });
    // This page audits, shows and downloads the file without the prior.
    const mechanism = await readMechanism(bare);
    const made = { mechanism, bytes: bare, certificate: certificateIn(bytes), forgotten };
    made.waited = (performance.now() - begun) / 1000;
    said = "The mechanism is built.";
    await done(made);
  } catch (wrong) {
    if (wrong instanceof api.Cancelled) return;
    said = "";
    let words = api.inWords(wrong, Boolean(state.built));
    if (wrong instanceof api.Unreachable) {
      lost = order;
      if (order.id) words += " It may still hold this job: try again to continue it.";
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

/** Build a mechanism of the chosen level for the profile on the map. */
export async function build() {
  const chosen = level();
  const { profile } = state;
  if (chosen.wrong || !profile) return;
  calm();
  const asked = askedFor(chosen);
  const recipe = isEverywhere() ? everywhereRecipe(profile, chosen.epsilon)
    : isFaster() ? recipeOf(profile, chosen.epsilon, "auto", FASTER)
      : recipeOf(profile, chosen.epsilon, "exact");
  const prior = isEverywhere() ? profile.visits.weights : profile.prior;
  await have(api.orderOf(recipe), "Building", (made) => {
    if (state.profile === profile) showBuilt({ ...made, prior, ratio: chosen.ratio, asked });
  }, build);
}

/** The time that the person waited, and the part of it that the computation took. */
function howLong(waited, searched) {
  if (waited === undefined) return searched ? [`The computation took ${seconds(searched)}.`] : [];
  const [all, part] = [seconds(waited), seconds(searched ?? 0)];
  const whole = `Built in ${all}`;
  const split = searched && all !== part;
  return [split ? `${whole}; the computation took ${part} of it.` : `${whole}.`];
}

/** Show a mechanism that was built or opened. Its loss is not known without a `prior`. */
export function showBuilt(built) {
  const { mechanism, prior } = built;
  // For an opened file: its claims, replaced by what the client has computed where it can. The page
  // does not check the proof of a bound, so it leaves out the file's bound and gap.
  // `whereish audit` checks them.
  const unchecked = { lower_bound_km: null, gap: null };
  const {
    certificate = { ...certificateIn(built.bytes), ...unchecked, ...mechanism.certificate },
  } = built;
  const { visits } = state.profile;
  state.built = { ...built, certificate, ...overPrior(mechanism, prior, visits.latlon) };
  state.laplace = null;
  resetPin();
  panes.best.show(stageOf(mechanism), { fit: isLattice(mechanism) && !panes.best.touched });
  const known = (km) => (prior ? metres(km) : "not known");
  $("figure-loss").textContent = known(state.built.loss);
  $("figure-reach").textContent = known(state.built.reach);
  const told = [inShort(certificate)];
  if (!prior) {
    told.push("The average loss is not known: the file does not hold the prior.");
  } else if (state.profile.guessed) told.push("All places are assumed equally likely.");
  told.push(...howLong(built.waited, certificate.seconds));
  if (prior && state.profile.personal && !state.profile.guessed) {
    if (isLattice(mechanism)) {
      told.push(built.certificate
        ? "The file does not hold your visited points, but its lattice is fine where they are, " +
          "and its outputs are near them: do not share it."
        : "The file holds your visited points: do not share it.");
    } else told.push(built.certificate
      ? "The file does not hold your prior, but most of the prior can be computed from the file: " +
        "do not share it."
      : "The file holds your prior, how likely you are at each place: do not share it.");
  }
  if (built.forgotten) told.push("The service has deleted its copy.");
  if (built.forgotten === false) told.push("The service may keep its copy for a while.");
  $("proved").textContent = told.join(" ");
  $("result").hidden = false;
  ring("built");
  repaint();
}

/** Show or hide the progress bar. Each change is announced once to screen readers. */
function tellBuilding(on, words) {
  $("progress").hidden = !on;
  if (on) $("cancel").hidden = false;
  else hide("cancel", "build");
  $("build").textContent = on ? "Build again" : "Build";
  $("bar").removeAttribute("value");
  $("progress-words").textContent = on ? words : "";
  $("said").textContent = words;
  ring("job");
}

function tellProgress(now, title) {
  const { progress: step, estimate } = now;
  let words = `${title}…`;
  if (now.state === "waiting") words = `The service is busy: next attempt in ${now.left} s.`;
  else if (now.state === "away") words = "Waiting for the service, which does not answer…";
  else if (now.state === "queued") words = "Waiting in the queue…";
  else if (step && Number.isFinite(step.gap)) {
    // The bar is linear in the logarithm of the gap, from 1 down to the tolerance.
    const way = -Math.log10(Math.max(step.gap, 1e-6)) / 6;
    $("bar").value = Math.min(0.98, Math.max(0.02, way));
    const near = step.gap <= 1 ? `within ${tiny(step.gap)} of the least possible, ` : "";
    words = `Step ${step.iteration}: loss ${metres(step.loss_km)}, ${near}` +
      `after ${seconds(step.elapsed_s)}.`;
  } else if (step) words = `Step ${step.iteration}, after ${seconds(step.elapsed_s)}.`;
  else if (estimate?.seconds > 2) words = `${title}: about ${seconds(estimate.seconds)}.`;
  if (now.note) words += ` ${api.sentence(now.note)}`;
  $("progress-words").textContent = words;
}

/** Ask for consent before personal data goes to another machine, once for each profile and kind. */
function mayTell() {
  const { profile } = state;
  const kind = isEverywhere() ? "points" : "places"; // points are finer: each needs its consent
  if (LOCAL || !profile.personal || profile.agreed?.[kind]) return true;
  const what = sentData(profile.latlon.length, profile.guessed, profile.visits.weights.length);
  const fine = isEverywhere() ? " A visited point is exact to some metres: it can tell your house." : "";
  $("consent-words").textContent = `This page will send ${what}, to ${location.host}.${fine} That ` +
    "service builds the mechanism. Then this page asks it to delete them. Your traces and " +
    "the position of the pin stay on this device.";
  return ask("consent", () => {
    profile.agreed = { ...profile.agreed, [kind]: true };
  });
}

function askKey({ refused }) {
  $("key-text").value = "";
  $("key-wrong").hidden = !refused;
  // Set after the dialog is open: screen readers announce an alert only when its text changes.
  setTimeout(() => {
    $("key-wrong").textContent = refused
      ? "This key was refused: check it, or ask the operator of the service." : "";
  });
  return ask("key", () => api.setKey($("key-text").value.trim(), $("key-keep").checked));
}

/** The name for saving the file, also shown in the audit command. */
const fileName = () => {
  const { name, mechanism: { epsilon } } = state.built;
  return name ?? `whereish-${epsilon === null ? "none" : Number(epsilon.toPrecision(4))}.whereish`;
};

function download() {
  const link = document.createElement("a");
  // Exactly the bytes from the service: the file holds their digest.
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
