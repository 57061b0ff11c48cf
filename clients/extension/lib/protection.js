// Puts the scripts into the protected sites. In Chromium it also sets the browser's own setting
// "location" of these sites to "block": a script that finds a way round page.js is refused by the
// browser, because the site has no permission. Reports do not need it. Firefox has no such setting
// for extensions.
import { api, store, stored } from "./api.js";
import { isProtected, patternsOf } from "./sites.js";
import { settings } from "./settings.js";

const LOCK = "whereish-protection";

export const blocksNatively = () => Boolean(api.contentSettings?.location);

function scriptsFor(matches) {
  const common = { matches, allFrames: true, matchOriginAsFallback: true, runAt: "document_start" };
  return [
    { id: "page", js: ["page.js"], world: "MAIN", ...common },
    { id: "bridge", js: ["bridge.js"], world: "ISOLATED", ...common },
  ];
}

async function applyScripts(patterns) {
  const there = await api.scripting.getRegisteredContentScripts();
  if (there.length && patterns.length) return api.scripting.updateContentScripts(scriptsFor(patterns));
  if (there.length) return api.scripting.unregisterContentScripts();
  if (patterns.length) return api.scripting.registerContentScripts(scriptsFor(patterns));
}

async function applyBlock(patterns) {
  if (!blocksNatively()) return;
  const before = await stored("blocked", []);
  const { location } = api.contentSettings;
  // A single pattern cannot be taken back. Without need, nothing is taken back: no gap.
  if (before.some((pattern) => !patterns.includes(pattern))) await location.clear({});
  for (const primaryPattern of patterns) await location.set({ primaryPattern, setting: "block" });
  await store("blocked", patterns);
}

/** Make the browser do what the settings say. Sites without a grant of the person are left out. */
export const applyProtection = () => navigator.locks.request(LOCK, async () => {
  const wanted = patternsOf(await settings());
  const granted = [];
  for (const origin of wanted) {
    if (await api.permissions.contains({ origins: [origin] })) granted.push(origin);
  }
  await applyBlock(granted);
  await applyScripts(granted);
});

/** Whether the page of this origin is protected once it is loaded. */
export async function protects(origin) {
  const now = await settings();
  if (!isProtected(now, origin)) return false;
  return api.permissions.contains({ origins: [`${origin.replace(/:\d+$/, "")}/*`] });
}
