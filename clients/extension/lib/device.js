// What the background cannot do by itself in Chromium: a service worker has no geolocation and starts
// no worker, so an offscreen document does both. In Firefox the background is a page and needs none.
// The true position is asked for with the permission of the extension, so no site needs one.
import { api } from "./api.js";
import { filesForVisits } from "./building.js";
import { LEVELS, NOISY } from "./levels.js";
import { toBytes } from "./mechanisms.js";

const LONGEST_MS = 0x7fffffff;

/** Ask the geolocation of this document: { fix } or { error: code }. */
export const askHere = (timeout) => new Promise((done) => {
  navigator.geolocation.getCurrentPosition(
    ({ coords }) => {
      const { latitude, longitude, accuracy, altitude, altitudeAccuracy, heading, speed } = coords;
      done({ fix: { latitude, longitude, accuracy, altitude, altitudeAccuracy, heading, speed } });
    },
    // A refusal here is one of the extension, not of the site.
    ({ code }) => done({ error: code === 1 ? 2 : code }),
    { timeout: Math.min(timeout, LONGEST_MS), maximumAge: 0 },
  );
});

let opening = null;

async function openOffscreen() {
  if (await api.offscreen.hasDocument()) return;
  opening ??= api.offscreen.createDocument({
    url: "offscreen.html", reasons: ["GEOLOCATION", "WORKERS"],
    justification: "asks the device where it is, so that no site has to; builds mechanisms",
  }).finally(() => (opening = null));
  await opening;
}

export async function truePosition(timeout) {
  if (navigator.geolocation) return askHere(timeout);
  await openOffscreen();
  return api.runtime.sendMessage({ offscreen: "position", timeout });
}

/** Build the files of all levels for the visited points of a person: { level: { bytes, accuracyKm } }. */
export async function buildFiles(visits) {
  if (navigator.geolocation) return filesForVisits(visits);
  await openOffscreen();
  const files = {};
  for (const level of NOISY) { // a message for each: the browser stops a background that waits too long
    const { epsilon } = LEVELS[level];
    const { text, accuracyKm, error } = await api.runtime.sendMessage({ offscreen: "build", visits, epsilon });
    if (error) throw new Error("a mechanism could not be built");
    files[level] = { bytes: toBytes(text), accuracyKm };
  }
  return files;
}
