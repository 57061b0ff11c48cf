// The question that replaces the browser's prompt: a small window asks which level a site gets. One
// window for a site; a window that is closed without an answer is a refusal for ten minutes.
import { api } from "./api.js";
import { settings } from "./settings.js";

const QUIET_MS = 600_000;
const MOST_WINDOWS = 3;
const LOCK = "whereish-asking";
const session = async (name) => (await api.storage.session.get(name))[name] ?? {};

const waiting = new Map(); // site -> [resolve]

function answer(site, level) {
  for (const done of waiting.get(site) ?? []) done(level);
  waiting.delete(site);
}

/** Open the window of a site, unless there is one. Call it with the lock. */
async function openWindow(site) {
  const windows = await session("asking");
  if (windows[site] !== undefined) return;
  if (Object.keys(windows).length >= MOST_WINDOWS) return answer(site, null);
  const url = api.runtime.getURL(`ask.html?site=${encodeURIComponent(site)}`);
  const { id } = await api.windows.create({ url, type: "popup", width: 480, height: 780 });
  windows[site] = id;
  await api.storage.session.set({ asking: windows });
}

/** The level of a site. If there is none, the person is asked; null is a refusal. */
export async function levelOf(site) {
  const known = (await settings()).sites[site];
  if (known) return known;
  const dismissed = await session("dismissed");
  if (Date.now() - (dismissed[site] ?? 0) < QUIET_MS) return null;
  const decided = new Promise((done) => {
    waiting.set(site, [...(waiting.get(site) ?? []), done]);
  });
  await navigator.locks.request(LOCK, () => openWindow(site));
  return decided;
}

export async function stateOf(site) {
  const known = (await settings()).sites[site];
  return known === undefined ? "prompt" : known === "never" ? "denied" : "granted";
}

/** Call at the start of the background, before the first event. */
export function wireConsent() {
  api.storage.onChanged.addListener((changes, area) => {
    if (area !== "local" || !changes.settings) return;
    const { sites = {} } = changes.settings.newValue ?? {};
    for (const site of [...waiting.keys()]) if (sites[site]) answer(site, sites[site]);
  });
  api.windows.onRemoved.addListener((id) => navigator.locks.request(LOCK, async () => {
    const windows = await session("asking");
    for (const [site, window] of Object.entries(windows)) {
      if (window !== id) continue;
      delete windows[site];
      await api.storage.session.set({ asking: windows });
      if ((await settings()).sites[site]) continue;
      const dismissed = await session("dismissed");
      dismissed[site] = Date.now();
      await api.storage.session.set({ dismissed });
      answer(site, null);
    }
  }));
}
