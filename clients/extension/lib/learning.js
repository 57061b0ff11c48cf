// Learns the person's places on this device, if the person agreed: from the fixes that sites ask for,
// and one fix every few minutes while the browser runs. Nothing of it leaves the device.
import { Learner } from "../shared/vendor/profile.js";
import { api, store, stored } from "./api.js";
import { truePosition } from "./device.js";
import { LEARNER_LOCK } from "./keeping.js";
import { rebuildIfDue } from "./rebuilding.js";
import { settings } from "./settings.js";

const EVERY_MINUTES = 5;
const WAIT_MS = 60_000;
const ALARM = "learn";

/** What was learned so far; a new Learner if nothing was. */
export async function learned() {
  const kept = await stored("learner");
  return kept ? Learner.from(kept) : new Learner();
}

/** Learn from a fix of the device, if the person wants it now: a fix may have taken a minute. */
export const learn = (fix) => navigator.locks.request(LEARNER_LOCK, async () => {
  if (!(await settings()).learn) return;
  const learner = await learned();
  learner.add(fix.latitude, fix.longitude, Date.now());
  await store("learner", learner.toJSON());
});

/** Browsers may drop alarms when they end (Firefox always does): see at every start that it is there. */
async function applyAlarm() {
  const { learn: wanted } = await settings();
  if (!wanted) await api.alarms.clear(ALARM);
  else if (!(await api.alarms.get(ALARM))) await api.alarms.create(ALARM, { periodInMinutes: EVERY_MINUTES });
}

export function wireLearning() {
  api.alarms.onAlarm.addListener(async ({ name }) => {
    const now = await settings();
    if (name !== ALARM || !now.learn || now.paused) return;
    const { fix } = await truePosition(WAIT_MS);
    if (fix) await learn(fix);
    await rebuildIfDue(learned);
  });
  api.storage.onChanged.addListener((changes, area) => {
    const { newValue, oldValue } = (area === "local" && changes.settings) || {};
    if (newValue?.learn !== oldValue?.learn) void applyAlarm();
  });
  void applyAlarm();
}
