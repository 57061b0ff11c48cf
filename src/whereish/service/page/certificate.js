// The certificate in plain words, from what the file says of itself.

import { count, metres, seconds, times, tiny } from "./words.js";

const PROVED = 1e-4; // a gap that is nothing but the solver's tolerance
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

/** How far above the best possible the loss is at most; NaN where nothing useful is proved. */
function above({ quality_loss_km: loss, lower_bound_km: bound }) {
  const share = Number.isFinite(loss) && bound > 0 ? loss / bound - 1 : NaN;
  return share <= 1 ? Math.max(share, 0) : NaN;
}

/** Whether it is proved that nothing this private has less loss. */
export const isBest = (told) =>
  told.method === "optimal" && told.dilation <= 1 + 1e-9 && above(told) <= PROVED;

/** One line for the panel. */
export function inShort(told) {
  if (!told.certified) return "This mechanism promises no epsilon.";
  const checked = `All ${count(told.ratios_checked)} ratios were checked in whole numbers; none ` +
    "is above its limit.";
  const share = above(told);
  if (Number.isNaN(share)) return checked;
  return `${checked} Nothing this private can be better than ${metres(told.lower_bound_km)}: ` +
    (share <= PROVED ? "that is proved." : `this is at most ${tiny(share)} above it.`);
}

function kind(told) {
  if (told.method === "planar-laplace") {
    return "It is planar Laplace noise, which knows nothing of the prior.";
  }
  if (told.method !== "optimal") return null;
  if (isBest(told)) return "It is the mechanism with the least loss for this prior.";
  if (!Number.isFinite(told.quality_loss_km)) {
    return "It was built for the least loss. How much that is is not known: the file does not " +
      "hold the prior.";
  }
  const share = above(told);
  const least = told.dilation > 1 + 1e-9 ? "It has the least loss among those built on a spanner"
    : "It was built for the least loss";
  return Number.isNaN(share) ? `${least}; how near it is to the best possible is not proved.`
    : `${least}; at most ${tiny(share)} above the best possible.`;
}

/** What is promised, with the sentence on raw points worked out for two of them. */
function promised({ guarantee = [], epsilon, largest_snap_km: snap }) {
  return guarantee.map((words) => {
    if (!/two raw points/.test(words) || !(snap >= 0)) return words;
    const ratio = Math.exp(epsilon * (0.1 + 2 * snap));
    return ratio > 1e6 ? words
      : `${words} For example, two points 100 m apart: at most ${times(ratio, 2)}.`;
  });
}

/** The whole of it, as elements; `told`: what is known of it, which its file may not hold. */
export function inFull(mechanism, fileName, told) {
  const bare = Number.isFinite(told.quality_loss_km) &&
    !Number.isFinite(mechanism.certificate.quality_loss_km);
  const checks = [];
  if (told.certified) {
    checks.push(
      `All ${count(told.ratios_checked)} ratios between ${count(told.places)} places and ` +
      `${count(told.outputs)} reports, in exact arithmetic on the integers that are drawn from, ` +
      "by code that did not build them. None is above its limit.");
  }
  checks.push("In this page: the digest of the file, its form, and that every row sums to 2^63.");
  const good = [kind(told)].filter(Boolean);
  if (Number.isFinite(told.quality_loss_km)) {
    good.push(`A report is ${metres(told.quality_loss_km)} off on average, under the prior it ` +
      "was built for.");
  }
  if (told.lower_bound_km > 0) {
    good.push(`No mechanism this private can be less than ${metres(told.lower_bound_km)} off: ` +
      "that is proved.");
  }
  if (told.dilation > 1 + 1e-9) {
    good.push("Built on a spanner, which stretches distances by up to " +
      `${told.dilation.toPrecision(4)}: the privacy is the same, for a little more loss.`);
  }
  if (told.stopped) good.push(`The search was stopped early (${told.stopped}).`);
  const by = SOLVERS[told.solver] ?? told.solver ?? told.method;
  const took = told.seconds ? `The search took ${seconds(told.seconds)}, by ${by}, `
    : `Built by ${by}, `;
  good.push(took +
    `${told.created ?? "at an unknown time"}, whereish ${told.versions?.whereish ?? "?"}.`);
  const plain = /^[\w.-]+$/.test(fileName);
  const command = element("pre",
    `whereish audit ${plain ? fileName : `'${fileName.replaceAll("'", "'\\''")}'`}`);
  command.tabIndex = 0;
  return [
    element("h3", "What is promised"), list(promised(told)),
    element("h3", "What was checked"), list(checks),
    element("h3", "How good it is"), list(good),
    element("h3", "Check it yourself"),
    element("p", "The file's digest says that nothing was changed by accident; everything it " +
      "promises is worked out again, from the file alone, by"),
    command,
    ...(bare ? [element("p", "The file holds no prior: how far off reports are is worked out " +
      "with --prior and your profile.")] : []),
    element("p", `SHA-256 ${mechanism.digest}`, "digest"),
  ];
}
