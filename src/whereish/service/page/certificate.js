// The certificate in plain words, from what the file says of itself.

import { count, metres, seconds, tiny } from "./words.js";

function paragraph(text, name = "") {
  const made = document.createElement("p");
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

function list(items) {
  const made = document.createElement("ul");
  for (const item of items) {
    const entry = document.createElement("li");
    entry.textContent = item;
    made.append(entry);
  }
  return made;
}

const SOLVERS = { structured: "Whereish's own solver" };

const METHODS = {
  optimal: "It is the mechanism with the least loss for this prior",
  "planar-laplace": "It is planar Laplace noise, which knows nothing of the prior",
};

/** One line for the panel. */
export function inShort(certificate) {
  const { certified, ratios_checked: ratios, gap, lower_bound_km: bound } = certificate;
  if (!certified) return "This mechanism promises no epsilon.";
  const checked = `All ${count(ratios)} ratios were checked in whole numbers; none is above its ` +
    "limit.";
  if (bound === null || bound === undefined) return checked;
  return `${checked} Nothing this private can be better than ${metres(bound)}: ` +
    (gap < 1e-4 ? "that is proved." : `this is within ${tiny(gap)} of it.`);
}

/** The whole of it, as elements. */
export function inFull(mechanism, fileName) {
  const told = mechanism.certificate;
  const parts = [heading("What is promised"), list(told.guarantee ?? [])];
  parts.push(heading("What was checked"));
  const checks = [];
  if (told.certified) {
    checks.push(
      `All ${count(told.ratios_checked)} ratios between ${count(told.places)} places and ` +
      `${count(told.outputs)} reports, in exact arithmetic on the integers that are drawn from, ` +
      "by code that did not build them. None is above its limit.");
  }
  checks.push("In this page: the digest of the file, its form, and that every row sums to 2^63.");
  parts.push(list(checks), heading("How good it is"));
  const good = [];
  const kind = METHODS[told.method];
  if (kind) good.push(`${kind}.`);
  if (Number.isFinite(told.quality_loss_km)) {
    good.push(`A report is ${metres(told.quality_loss_km)} off on average, under the prior it ` +
      "was built for.");
  }
  if (Number.isFinite(told.lower_bound_km)) {
    good.push(`No mechanism this private can be less than ${metres(told.lower_bound_km)} off: ` +
      `that is proved, and leaves a gap of ${tiny(told.gap)}.`);
  }
  if (told.dilation > 1) {
    good.push("Built on a spanner, which stretches distances by up to " +
      `${told.dilation.toPrecision(4)}: the privacy is the same, for a little more loss.`);
  }
  if (told.stopped) good.push(`The search was stopped early (${told.stopped}).`);
  const by = SOLVERS[told.solver] ?? told.solver ?? told.method;
  good.push(`Built in ${seconds(told.seconds ?? 0)} by ${by}, ` +
    `${told.created ?? "at an unknown time"}, whereish ${told.versions?.whereish ?? "?"}.`);
  parts.push(list(good), heading("Check it yourself"));
  parts.push(paragraph("The file's digest says that nothing was changed by accident; everything " +
    "it promises is worked out again, from the file alone, by"));
  const command = document.createElement("pre");
  command.tabIndex = 0;
  command.textContent = `whereish audit ${fileName}`;
  parts.push(command, paragraph(`SHA-256 ${mechanism.digest}`, "digest"));
  return parts;
}

function heading(text) {
  const made = document.createElement("h3");
  made.textContent = text;
  return made;
}
