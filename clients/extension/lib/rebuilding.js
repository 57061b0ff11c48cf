// Builds the mechanisms again from the places that were learned, without being asked: the person has
// agreed to it together with the learning. A new mechanism draws new reports, so it comes at the first
// alarm of a day (UTC), when all reports are drawn anew. It never replaces what the person imported.
import { TraceError } from "../shared/vendor/profile.js";
import { store, stored } from "./api.js";
import { buildFiles } from "./device.js";
import { LEARNER_LOCK } from "./keeping.js";
import { NOISY } from "./levels.js";
import { keepAll, kept } from "./mechanisms.js";
import { settings } from "./settings.js";

const DAY_MS = 86_400_000;
const ENOUGH_HOURS = 24; // with positions, before the first build
const GROWTH = 1.5; // of the hours with positions, before the next one

/** How many hours with positions the next build waits for. */
export async function hoursNeeded() {
  const { hours = 0 } = await stored("rebuilt", {});
  return Math.max(ENOUGH_HOURS, Math.ceil(hours * GROWTH));
}

/** Whether the mechanisms in use may be replaced without a question. */
export async function isReplaceable() {
  const made = await Promise.all(NOISY.map(kept));
  return made.every((one) => one === null || one.source === "region" || one.source === "learned");
}

/** The visited points of a profile, { points, weights }, in arrays that a message can carry. */
export function visitsOf({ visits, places, prior }) {
  const { points, weights } = visits ?? { points: places, weights: prior };
  return { points: Array.from(points, (one) => [...one]), weights: [...weights] };
}

/** Keep files that were built from what was learned, unless it was forgotten meanwhile. */
export const keepLearned = (files, hours) => navigator.locks.request(LEARNER_LOCK, async () => {
  if (!(await stored("learner"))) return;
  await keepAll(files, { source: "learned", name: "learned" });
  await store("rebuilt", { day: Math.floor(Date.now() / DAY_MS), hours });
});

/** Build if enough was learned and this is the first alarm of the day. */
export async function rebuildIfDue(learned) {
  const today = Math.floor(Date.now() / DAY_MS);
  const { day, hours = 0 } = await stored("rebuilt", {});
  if (day === today) return;
  await store("rebuilt", { day: today, hours }); // before the build: one that fails waits for a day
  const learner = await learned();
  if (learner.hours < (await hoursNeeded()) || !(await isReplaceable())) return;
  try {
    const files = await buildFiles(visitsOf(learner.profile()));
    if ((await settings()).learn) await keepLearned(files, learner.hours);
  } catch (wrong) {
    if (!(wrong instanceof TraceError)) console.warn(wrong.constructor.name); // never the message
  }
}
