// The result of a build: figures, the guarantee and the proof in words, the file.

import { above, inFull, inShort } from "./certificate.js";
import { certificateIn, isForPoints, isNoise, overPrior } from "./measures.js";
import { whatNext } from "./next.js";
import { repaint, resetPin, stageOf } from "./stage.js";
import { $, hear, hide, panes, ring, state } from "./state.js";
import { alikeKm, metres, seconds, shortGap, times } from "./words.js";

/** Where it was built, the time that the person waited, and how much of it was computation. */
function howLong({ waited, where }, searched) {
  if (waited === undefined) return searched ? [`The computation took ${seconds(searched)}.`] : [];
  const [all, part] = [seconds(waited), seconds(searched ?? 0)];
  if (where === "device") return [`Built on this device in ${all}. Nothing was sent.`];
  const whole = `Built by the service in ${all}`;
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
  const averages = overPrior(mechanism, prior, visits.latlon);
  if (isNoise(mechanism)) { // the client checks no loss of noise
    if (!built.certificate) certificate.quality_loss_km = averages.loss;
    else if (Number.isNaN(averages.loss)) averages.loss = certificate.quality_loss_km ?? NaN;
  }
  state.built = { ...built, certificate, ...averages };
  state.laplace = null;
  resetPin();
  panes.best.show(stageOf(mechanism), { fit: isForPoints(mechanism) && !panes.best.touched });
  const known = (km) => (prior ? metres(km) : "not known");
  $("figure-loss").textContent = known(state.built.loss);
  $("figure-reach").textContent = known(state.built.reach);
  $("figure-gap").textContent = shortGap(above(certificate));
  tellGuarantee(mechanism, built.ratio);
  const told = [inShort(certificate)];
  if (!prior) {
    told.push("The average loss is not known: the file does not hold the prior.");
  } else if (state.profile.guessed) told.push("All places are assumed equally likely.");
  told.push(...howLong(built, certificate.seconds));
  if (prior && state.profile.personal && !state.profile.guessed) {
    if (isForPoints(mechanism)) {
      const grid = isNoise(mechanism) ? "table" : "lattice";
      told.push(built.certificate
        ? `The file does not hold your visited points, but its ${grid} is fine where they are, ` +
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
  for (const id of ["result", "proof"]) $(id).hidden = false;
  hide("next", "download");
  ring("built");
  repaint();
}

/** The guarantee of the mechanism on the map, in one sentence. */
function tellGuarantee(mechanism, ratio) {
  const { epsilon } = mechanism;
  $("figure-what").textContent = epsilon === null ? "No epsilon is promised:"
    : `${isForPoints(mechanism) ? "Points" : "Places"} look alike within`;
  $("figure-hidden").textContent = epsilon === null ? "none" : metres(alikeKm(ratio, epsilon));
  $("figure-rest").textContent = epsilon === null ? " of the ratios has a limit."
    : `: every report is at most ${times(ratio)} as likely from one as from another.`;
}

/** The name for saving the file, also shown in the audit command. */
const fileName = () => {
  const { name, mechanism: { epsilon } } = state.built;
  return name ?? `whereish-${epsilon === null ? "none" : Number(epsilon.toPrecision(4))}.whereish`;
};

function download() {
  const link = document.createElement("a");
  // Exactly the bytes that were built: the file holds their digest.
  const content = new Blob([state.built.bytes], { type: "application/octet-stream" });
  link.href = URL.createObjectURL(content);
  link.download = fileName();
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  $("next").replaceChildren(...whatNext(fileName(), state.built.mechanism));
  $("next").hidden = false;
  $("next").scrollIntoView({ block: "nearest" });
}

export function wireResult() {
  $("download").addEventListener("click", download);
  $("certificate-open").addEventListener("click", () => {
    $("certificate-words").replaceChildren(...inFull(
      state.built.mechanism, fileName(), state.built.certificate));
    $("certificate").showModal();
  });
  hear("profile", () => {
    for (const id of ["result", "proof"]) $(id).hidden = true;
  });
}
