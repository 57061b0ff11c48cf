// Export and deletion of what the extension keeps.
import { api, stored } from "./api.js";

/** Held by every change of what was learned. */
export const LEARNER_LOCK = "whereish-learner";

/** Let the person save bytes as a file. */
export function exported(name, bytes) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/**
 * Delete places, mechanisms, settings and what sites were told. What they have used up of today's
 * budget stays: forgetting must not refund it. Protected sites stay protected until the page is
 * loaded again without the scripts. Both locks are held: what was read before is not written after.
 */
export const forgetEverything = () => navigator.locks.request(LEARNER_LOCK, () =>
  navigator.locks.request("whereish-ledger", forgetNow));

async function forgetNow() {
  const ledger = await stored("ledger");
  const { blocked } = await api.storage.local.get("blocked"); // the browser's settings to take back
  await api.storage.local.clear();
  const left = {};
  for (const [site, { spent }] of Object.entries(ledger?.sites ?? {})) {
    if (spent !== "0") left[site] = { spent, told: [], last: null };
  }
  await api.storage.local.set({
    ...(blocked ? { blocked } : {}), settings: {},
    ...(ledger ? { ledger: { ...ledger, drawn: {}, sites: left } } : {}),
  });
}
