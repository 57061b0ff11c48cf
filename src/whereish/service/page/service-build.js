// Builds by the service: the recipe that is sent, and the consent before anything personal is.

import * as api from "./api.js";
import { sentData } from "./level.js";
import { certificateIn, otherLossIn } from "./measures.js";
import { $, LOCAL } from "./state.js";
import { ask } from "./trouble.js";
import { readMechanism } from "./vendor/whereish.js";

/** The recipe of a mechanism between places. */
function placesRecipe({ profile, epsilon, dilation, faster, noise }) {
  const places = profile.earth === false ? { xy_km: profile.xyKm } : { latlon: profile.latlon };
  if (profile.cellKm) places.cell_km = profile.cellKm;
  return {
    places, prior: profile.prior, epsilon_per_km: epsilon, dilation: noise ? 1 : dilation,
    method: noise ? "planar-laplace" : faster ? "auto" : "exact",
    solver: "structured", // this solver also proves a lower bound on the loss
    tolerance: 1e-6, time_limit_s: null,
    // The page reads the loss and the bound from the certificate of a file that holds the prior.
    // The service deletes the job afterwards; the file to download is fetched without the prior.
    keep_prior: true,
  };
}

/**
 * The recipe of a guarantee between any two points, for the points that the person visits: the
 * better one of a lattice and planar Laplace noise with a remap.
 */
function everywhereRecipe({ profile: { earth, visits }, epsilon }) {
  return {
    places: earth === false ? { xy_km: visits.xyKm } : { latlon: visits.latlon },
    prior: visits.weights, epsilon_per_km: epsilon, guarantee: "everywhere", method: "exact",
    time_limit_s: null, keep_prior: true, // as above
  };
}

export const orderFor = (request) =>
  api.orderOf(request.everywhere ? everywhereRecipe(request) : placesRecipe(request));

/** Build an order, and audit the file without the prior: it is shown and downloaded. */
export async function buildThere(order, { signal, told }) {
  const { bytes, bare, forgotten } = await api.build(order, { signal, askKey, told });
  const mechanism = await readMechanism(bare);
  const certificate = { ...certificateIn(bytes), other_loss_km: otherLossIn(bytes) };
  return { mechanism, bytes: bare, certificate, forgotten, where: "service" };
}

/** Ask for consent before personal data goes to another machine, once for each profile and kind. */
export function mayTell({ profile, everywhere }) {
  const kind = everywhere ? "points" : "places"; // points are finer: each needs its consent
  if (LOCAL || !profile.personal || profile.agreed?.[kind]) return true;
  const what = sentData(profile.latlon.length, profile.guessed, profile.visits.weights.length);
  const fine = everywhere ? " A visited point is exact to some metres: it can tell your house." : "";
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

export function wireKey() {
  $("key-close").addEventListener("click", () => $("key").close());
  $("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if ($("key-text").value.trim()) $("key").close("yes");
  });
}
