// Having something built: asked first where it is personal, watched by a live bar, shown.

import * as api from "./api.js";
import { inFull, inShort } from "./certificate.js";
import { askedFor, isFaster, level } from "./level.js";
import { expectedLoss } from "./measures.js";
import { repaint, stageOf } from "./stage.js";
import { $, LOCAL, hear, panes, ring, state } from "./state.js";
import { ask, calm, trouble } from "./trouble.js";
import { readMechanism } from "./vendor/whereish.js";
import { metres, seconds, some, tiny } from "./words.js";

const FASTER = 1.1; // the spanner's dilation: the same privacy on fewer pairs

export function recipeOf(profile, epsilon, method, dilation = 1) {
  const places = profile.earth === false ? { xy_km: profile.xyKm } : { latlon: profile.latlon };
  if (profile.cellKm) places.cell_km = profile.cellKm;
  return {
    places, prior: profile.prior, epsilon_per_km: epsilon, dilation, method, solver: "auto",
    tolerance: 1e-6, time_limit_s: null,
    keep_prior: true, // in the file, which proves with it how good it is; the service forgets both
  };
}

/** Have a recipe built, with the live bar; undefined if it was cancelled or went wrong. */
export async function have(recipe, title, again) {
  if (!(await mayTell())) return undefined;
  cancel();
  const stop = new AbortController();
  const job = (state.job = { stop });
  tellBuilding(true, `${title}…`);
  const began = performance.now();
  try {
    const { bytes, forgotten } = await api.build(recipe, {
      signal: stop.signal, askKey, told: (now) => state.job === job && tellProgress(now, title),
    });
    const mechanism = await readMechanism(bytes);
    return { mechanism, bytes, forgotten, seconds: (performance.now() - began) / 1000 };
  } catch (wrong) {
    if (!(wrong instanceof api.Cancelled)) trouble(api.inWords(wrong), again);
    return undefined;
  } finally {
    if (state.job === job) {
      state.job = null;
      tellBuilding(false);
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
  const made = await have(recipe, "Building", build);
  if (made && state.profile === profile) showBuilt({ ...made, ratio: chosen.ratio, asked });
}

export function showBuilt(built) {
  const { mechanism } = built;
  state.built = { ...built, loss: expectedLoss(mechanism, state.profile.prior) };
  state.laplace = null;
  panes.best.show(stageOf(mechanism), { fit: false });
  $("figure-loss").textContent = metres(state.built.loss);
  const told = [inShort(mechanism.certificate)];
  if (built.seconds) told.push(`Built in ${seconds(built.seconds)}.`);
  if (state.profile.personal) {
    told.push("The file tells how likely you are where: keep it to yourself.");
  }
  if (built.forgotten) told.push("The service has forgotten it.");
  if (built.forgotten === false) told.push("The service may still hold it for a while.");
  $("proved").textContent = told.join(" ");
  $("result").hidden = false;
  ring("built");
  repaint();
}

function tellBuilding(on, words = "") {
  $("progress").hidden = !on;
  $("cancel").hidden = !on;
  $("build").textContent = on ? "Build anew" : "Build";
  $("bar").removeAttribute("value");
  $("progress-words").textContent = words;
}

function tellProgress(now, title) {
  const { progress: step, estimate } = now;
  let words = `${title}…`;
  if (now.state === "waiting") words = `The service is busy: asking again in ${now.left} s.`;
  else if (now.state === "queued") words = "Waiting for its turn…";
  else if (step && Number.isFinite(step.gap)) {
    // From a gap of 1 down to the tolerance, a factor at a time.
    const way = -Math.log10(Math.max(step.gap, 1e-6)) / 6;
    $("bar").value = Math.min(0.98, Math.max(0.02, way));
    words = `Step ${step.iteration}: ${metres(step.loss_km)} off, within ${tiny(step.gap)} of ` +
      `the best possible, ${seconds(step.elapsed_s)}.`;
  } else if (step) words = `Step ${step.iteration}, ${seconds(step.elapsed_s)}.`;
  else if (estimate?.seconds > 2) words = `${title}: about ${seconds(estimate.seconds)}.`;
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

function askKey() {
  $("key-text").value = "";
  return ask("key", () => api.setKey($("key-text").value.trim(), $("key-keep").checked));
}

/** The name under which the file is saved, and audited. */
const fileName = () => {
  const { epsilon } = state.built.mechanism;
  return `whereish-${epsilon === null ? "none" : Number(epsilon.toPrecision(4))}.whereish`;
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
    $("certificate-words").replaceChildren(...inFull(state.built.mechanism, fileName()));
    $("certificate").showModal();
  });
  $("key-close").addEventListener("click", () => $("key").close());
  $("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if ($("key-text").value.trim()) $("key").close("yes");
  });
  hear("profile", () => {
    $("result").hidden = true;
  });
}
