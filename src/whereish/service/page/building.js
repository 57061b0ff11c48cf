// Building a mechanism: on this device, or by the service if the person asks for it. It shows the
// progress, and builds again when the level moves.

import * as api from "./api.js";
import { ELSEWHERE, buildHere, prepare, whyNotHere } from "./device-build.js";
import { askedFor, isByService, isEverywhere, isFaster, level, tellStale } from "./level.js";
import { LIVE_S, REST_MS } from "./limits.js";
import { showBuilt } from "./result.js";
import { buildThere, mayTell, orderFor } from "./service-build.js";
import { $, hear, hide, ring, state } from "./state.js";
import { calm, trouble } from "./trouble.js";
import { metres, seconds, tiny } from "./words.js";

const HELD = "The service did not answer the request to delete this job, so it may keep the job " +
  "for a while. This page sends the request again when you leave it.";
const LONG_MS = 1000; // a live build that takes longer shows its progress
const FASTER = 1.1; // the spanner's dilation: the same privacy on fewer pairs

let lost = null; // the order for which the service did not answer: it may be continued

/**
 * Build a request `{ profile, everywhere, noise, epsilon, dilation, faster }` and show its progress.
 * `done(made)` gets the result; it is not called if the person cancels or the build fails. `again`
 * starts a new build after a failure. A `live` build shows no progress unless it takes long.
 */
export async function have(request, title, done, again, { live = false } = {}) {
  if (!isByService()) {
    const why = whyNotHere(request);
    if (why) {
      trouble(`${why} ${ELSEWHERE}`);
      return;
    }
    await run((tools) => buildHere(request, tools), title, done, again, live);
    return;
  }
  if (await mayTell(request)) await haveThere(orderFor(request), title, done, again);
}

function haveThere(order, title, done, again) {
  if (lost && lost !== order) void api.abandon(lost);
  lost = null;
  const missed = (wrong) => {
    if (!(wrong instanceof api.Unreachable)) return null;
    lost = order;
    return order.id ? " It may still hold this job: try again to continue it." : "";
  };
  return run((tools) => buildThere(order, tools), title, done, again, false, (wrong) => {
    const more = missed(wrong);
    return more === null ? null
      : { more, retry: () => haveThere(order, title, done, again) };
  });
}

/** Run one build. `missed(wrong)` says how a failure can be continued, or null. */
async function run(work, title, done, again, live, missed = () => null) {
  cancel();
  const stop = new AbortController();
  const job = (state.job = { stop, live });
  const begun = performance.now();
  tellBuilding(true, `${title}…`, live);
  let said = "Building was cancelled.";
  const told = (now) => {
    if (now.state === "held") trouble(HELD);
    if (state.job !== job || now.state === "held") return;
    if (job.live && performance.now() - begun > LONG_MS) {
      job.live = false; // it takes long: show the bar and the way out
      tellBuilding(true, `${title}…`);
    }
    tellProgress(now, title);
  };
  try {
    const made = await work({ signal: stop.signal, told });
    if (state.job !== job) return;
    made.waited = (performance.now() - begun) / 1000;
    said = "The mechanism is built.";
    await done(made);
  } catch (wrong) {
    if (wrong instanceof api.Cancelled) return;
    said = "";
    const on = missed(wrong);
    trouble(api.inWords(wrong, Boolean(state.built)) + (on?.more ?? ""), on?.retry ?? again);
  } finally {
    if (state.job === job) {
      state.job = null;
      tellBuilding(false, said);
    }
  }
}

export const cancel = () => state.job?.stop.abort();

/** Build a mechanism of the chosen level for the profile on the map. */
export async function build({ live = false } = {}) {
  const chosen = level();
  const { profile } = state;
  if (chosen.wrong || !profile) return;
  clearTimeout(rest);
  calm();
  const asked = askedFor(chosen);
  const [everywhere, faster] = [isEverywhere(), isFaster()];
  const request = {
    profile, everywhere, faster, epsilon: chosen.epsilon, dilation: faster ? FASTER : 1,
  };
  const prior = everywhere ? profile.visits.weights : profile.prior;
  await have(request, "Building", (made) => {
    if (state.profile === profile) showBuilt({ ...made, prior, ratio: chosen.ratio, asked });
  }, () => build(), { live });
}

// --- again when the level moves ------------------------------------------------------------

let rest = 0;

/** Whether a move of the level builds at once: on this device, if the last build was short. */
function isLive() {
  const { profile, built } = state;
  if (!profile || profile.opened || isByService()) return false;
  if (whyNotHere({ profile, everywhere: isEverywhere() })) return false;
  const same = built && Boolean(built.mechanism.kind) === isEverywhere();
  return !same || built.waited < LIVE_S;
}

function levelMoved() {
  clearTimeout(rest);
  const chosen = level();
  const live = !chosen.wrong && isLive();
  tellStale(live);
  if (!live || state.built?.asked === askedFor(chosen)) {
    if (state.job?.live) cancel();
    return;
  }
  rest = setTimeout(() => void build({ live: true }), REST_MS);
}

/** Show or hide the progress bar. Each change is announced once to screen readers. */
function tellBuilding(on, words, live = false) {
  $("progress").hidden = !on || live;
  $("result").classList.toggle("updating", on && live);
  if (on && !live) $("cancel").hidden = false;
  else hide("cancel", "build");
  $("build").textContent = on && !live ? "Build again" : "Build";
  $("bar").removeAttribute("value");
  $("progress-words").textContent = on ? words : "";
  if (!live) $("said").textContent = words;
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

export function wireBuilding() {
  prepare();
  $("cancel").addEventListener("click", cancel);
  hear("level", levelMoved);
  hear("built", () => tellStale(false));
  hear("profile", () => {
    clearTimeout(rest);
    if (lost) void api.abandon(lost);
    lost = null;
    tellStale(false);
  });
}
