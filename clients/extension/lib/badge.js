// The badge of the button: the level of the page in this tab, in at most four letters.
import { api } from "./api.js";
import { LEVELS } from "./levels.js";
import { settings } from "./settings.js";

const COLOURS = { off: "#b3261e", never: "#5f5b50", fixed: "#253494" };

export async function showBadge(tabId, site) {
  const { sites, paused } = await settings();
  const level = sites[site];
  const text = paused ? "||" : LEVELS[level]?.badge ?? "";
  try {
    await api.action.setBadgeBackgroundColor({ tabId, color: COLOURS[level] ?? "#1d6fa5" });
    await api.action.setBadgeText({ tabId, text });
  } catch {
    // The tab is closed.
  }
}
