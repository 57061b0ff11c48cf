// The certificate in plain words. The guarantee comes from what the client has checked, the rest
// from the claims in the file.

import { METHODS_WITHOUT_PRIOR } from "./constants.js";
import { count, metres, seconds, times, tiny } from "./words.js";

const PROVED = 1e-4; // a gap this small is due to the solver's tolerance
const TELLS_PRIOR =
  "This mechanism tells most of the prior it was built for to anyone who has it, even if its " +
  "file does not hold the prior: epsilon limits what a report tells, not what the mechanism " +
  "itself tells.";
const tellsPoints = (grid) =>
  "This mechanism tells much about the points it was built for to anyone who has it, even if its " +
  `file does not hold them: its ${grid} is fine where they are, and its outputs are near them. ` +
  "Epsilon limits what a report tells, not what the mechanism itself tells.";
const NOISE = "Planar Laplace noise is drawn exactly, with integers only: the guarantee is that " +
  "of the noise.";
const SOLVERS = { structured: "Whereish's own solver" };

function element(kind, text, name = "") {
  const made = document.createElement(kind);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

function list(items) {
  const made = document.createElement("ul");
  made.append(...items.map((item) => element("li", item)));
  return made;
}

/** The most by which the loss can be above the least possible; NaN if no useful bound is known. */
export function above({ quality_loss_km: loss, lower_bound_km: bound }) {
  const share = Number.isFinite(loss) && bound > 0 ? loss / bound - 1 : NaN;
  return share <= 1 ? Math.max(share, 0) : NaN;
}

/** Whether it is proved that no mechanism with this privacy has less loss. */
export const isBest = (told) =>
  told.method === "optimal" && told.dilation <= 1 + 1e-9 && above(told) <= PROVED;

/** One line for the panel. */
export function inShort(told) {
  if (!told.certified) return "This mechanism promises no epsilon.";
  if (told.kind === "planar-laplace") {
    const { other_loss_km: other } = told;
    return other > 0 ? `${NOISE} The best lattice that was found would lose ${metres(other)}.`
      : NOISE;
  }
  const what = told.kind === "lattice" ? `${count(told.corners_checked)} corners of the lattice`
    : `${count(told.ratios_checked)} ratios`;
  const checked = `All ${what} were checked in exact arithmetic; none is above its limit.`;
  const share = above(told);
  if (Number.isNaN(share)) return checked;
  return `${checked} No mechanism this private has a loss below ${metres(told.lower_bound_km)}: ` +
    (share <= PROVED ? "that is proved." : `this loss is at most ${tiny(share)} above it.`);
}

function kind(told) {
  if (told.method === "planar-laplace") {
    return "It is the planar Laplace mechanism, which does not depend on the prior.";
  }
  const other = told.other_loss_km;
  if (told.kind === "planar-laplace") {
    return "It is planar Laplace noise with a remap: a table that was chosen for the least loss " +
      "maps the noisy point to a report." +
      (other > 0 ? ` The best lattice that was found would lose ${metres(other)}.` : "");
  }
  if (told.kind === "lattice") {
    return `It was built for the least loss on a lattice of ${count(told.vertices)} vertices. ` +
      "Between them, probabilities are interpolated." +
      (other > 0 ? ` Planar Laplace noise with a remap would lose ${metres(other)}.` : "");
  }
  if (told.method !== "optimal") return null;
  if (isBest(told)) return "It is the mechanism with the least loss for this prior.";
  if (!Number.isFinite(told.quality_loss_km)) {
    return "It was built for the least loss. Its loss is not known: the file does not hold the " +
      "prior.";
  }
  const share = above(told);
  const least = told.dilation > 1 + 1e-9
    ? "It has the least loss among mechanisms built on this spanner"
    : "It was built for the least loss";
  return Number.isNaN(share) ? `${least}; how close that is to the least possible is not proved.`
    : `${least}; at most ${tiny(share)} above the least possible.`;
}

const short = (number, digits) => String(Number(number.toPrecision(digits)));

/** The same for a guarantee between any two points: format/everywhere_certificate.py. */
function promisedEverywhere({ epsilon, kind: how }, plane) {
  const level = short(epsilon, 6);
  const isNoise = how === "planar-laplace";
  const words = [
    `For any two points d km apart, wherever they are, no report is more than exp(${level} d) ` +
    "times likelier from one than from the other, whatever is known already. That is twice at " +
    `${short(Math.LN2 / epsilon, 3)} km.`,
    isNoise
      ? "The report is planar Laplace noise around the point, in whole units of 2^-40 km, and " +
        "then a table that is fixed in advance. The guarantee is that of the noise."
      : "A point is not moved to a place first. A point outside the rectangle of the lattice is " +
        "reported as the nearest point of the rectangle. The guarantee holds there too.",
  ];
  if (plane) {
    words.push("Distances are those of the local plane: at most 1.05 times the distances on the " +
      "ground up to 3,400 km from its centre. Points further away are refused.");
  }
  words.push(`For one report. k reports cost k times as much: k epsilon, with epsilon ${level}.`);
  return [...words, tellsPoints(isNoise ? "table" : "lattice")];
}

/** The guarantee, from what the client has checked, in the sentences of format/certificate.py. */
function promised({ epsilon, epsilon_unit: per, places, largest_snap_km: snap }, method) {
  const tells = METHODS_WITHOUT_PRIOR.includes(method) ? [] : [TELLS_PRIOR];
  if (epsilon === null) {
    return ["This mechanism promises no epsilon: nothing limits what one report gives away.",
      ...tells];
  }
  const level = short(epsilon, 6);
  const unit = per === "per km" ? "km" : "units of its metric";
  const words = [
    `Between the ${places} places: from two of them d ${unit} apart no report is more than ` +
    `exp(${level} d) times likelier from one than from the other, whatever is known already. ` +
    `That is twice at ${short(Math.LN2 / epsilon, 3)} ${unit}.`,
  ];
  if (per === "per km") {
    const ratio = Math.exp(epsilon * (0.1 + 2 * snap));
    words.push(
      `A raw point is reported as its nearest place, up to ${short(snap, 3)} km away inside the ` +
      `area: between two raw points d km apart it is exp(${level} (d + ${short(2 * snap, 3)})).` +
      (ratio > 1e6 ? "" : ` For example, two points 100 m apart: at most ${times(ratio, 2)}.`));
  }
  words.push(`For one report. k reports cost k times as much: k epsilon, with epsilon ${level}.`);
  return [...words, ...tells];
}

/** The full text, as elements. `told` is the certificate; it may hold more than the file. */
export function inFull(mechanism, fileName, told) {
  const bare = Number.isFinite(told.quality_loss_km) && !mechanism.holdsPrior;
  const checks = [];
  const isNoise = mechanism.kind === "planar-laplace";
  const isForPoints = isNoise || mechanism.kind === "lattice";
  if (isNoise) {
    checks.push(`${NOISE} There are no probabilities in the file to check. The table has ` +
      `${count(told.cells)} cells and ${count(told.outputs)} reports.`);
  } else if (isForPoints) {
    checks.push(
      `All ${count(told.corners_checked)} corners of ${count(told.cells)} cells, for ` +
      `${count(told.outputs)} reports, in exact arithmetic, on the integers that reports are ` +
      "drawn from, by code that is separate from the solver. None is above its limit.");
  } else if (told.certified) {
    checks.push(
      `All ${count(told.ratios_checked)} ratios between ${count(told.places)} places and ` +
      `${count(told.outputs)} reports, in exact arithmetic, on the integers that reports are ` +
      "drawn from, by code that is separate from the solver. None is above its limit.");
  }
  const what = isForPoints ? "corner" : "ratio";
  checks.push(isNoise
    ? "This page has checked again: the digest of the file, its format, and that every cell of " +
      "the table names a report."
    : `This page has checked again: every ${what}, the digest of the file, its format, and ` +
      "that every row sums to 2^63.");
  const good = [kind(told)].filter(Boolean);
  if (Number.isFinite(told.quality_loss_km)) {
    const spot = isForPoints ? "point" : "place";
    good.push(`A report is ${metres(told.quality_loss_km)} from the true ${spot} on average, for ` +
      "the prior that the mechanism was built for. This distance is the loss.");
  }
  if (told.lower_bound_km > 0) {
    good.push(`No mechanism this private has a loss below ${metres(told.lower_bound_km)}: ` +
      "that is proved.");
  }
  if (told.dilation > 1 + 1e-9) {
    good.push(`Built on a spanner with dilation ${told.dilation.toPrecision(4)}: the privacy is ` +
      "the same, and the loss is a little larger.");
  }
  if (told.stopped) good.push(`The solver was stopped early (${told.stopped}).`);
  const by = SOLVERS[told.solver] ?? told.solver ?? told.method;
  const took = told.seconds ? `The computation took ${seconds(told.seconds)} (${by}).`
    : `Method: ${by}.`;
  good.push(`${took} Time of the build: ${told.created ?? "not known"}, by Whereish ` +
    `${told.versions?.whereish ?? "of an unknown version"}.`);
  const plain = /^[\w.-]+$/.test(fileName);
  const command = element("pre",
    `whereish audit ${plain ? fileName : `'${fileName.replaceAll("'", "'\\''")}'`}`);
  command.tabIndex = 0;
  return [
    element("h3", "Guarantee"), list(isForPoints
      ? promisedEverywhere(mechanism.certificate, mechanism.plane)
      : promised(mechanism.certificate, told.method)),
    element("h3", "Checks"), list(checks),
    element("h3", "Loss"), list(good),
    element("h3", "Check it yourself"),
    element("p", "The digest shows that the file was not changed by accident. This command " +
      "computes every guarantee again, from the file alone:"),
    command,
    ...(bare ? [element("p", "The file holds no prior. To compute the loss as well, add " +
      "--prior and your profile.")] : []),
    element("p", `SHA-256 ${mechanism.digest}`, "digest"),
  ];
}
