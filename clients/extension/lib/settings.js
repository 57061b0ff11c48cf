// What the person has chosen. The background, the popup and the options page read and write it, one
// at a time.
import { store, stored } from "./api.js";

const EMPTY = {
  scope: "none", // the protected sites: "none", "chosen" or "all"
  chosen: [], // origins, for the scope "chosen"
  sites: {}, // by site: its level
  region: null, // { name, lat, lon, km }: chosen by the person, never from a position
  newPlaces: 5, // new places that a site may be told in a day
  learn: false, // learn the places on this device
  paused: false,
};

export const settings = async () => ({ ...EMPTY, ...(await stored("settings", {})) });

/** Change the settings: `change(settings)` edits them in place. */
export const changeSettings = (change) =>
  navigator.locks.request("whereish-settings", async () => {
    const now = await settings();
    change(now);
    await store("settings", now);
    return now;
  });
