// What a site is told when it asks: a report, or the number of an error as in the Geolocation API
// (1 refused, 2 unavailable, 3 timeout). Errors never depend on the position.
import { levelOf, stateOf } from "./consent.js";
import { truePosition } from "./device.js";
import { accounts, note, SpentError, tell } from "./ledger.js";
import { learn } from "./learning.js";
import { mechanismOf } from "./mechanisms.js";
import { settings } from "./settings.js";

const FORMS = { altitude: null, altitudeAccuracy: null, heading: null, speed: null };

/** The form that leaves the extension: no level, no place, no epsilon. */
const reportOf = ({ latitude, longitude, accuracy, timestamp }) =>
  ({ report: { latitude, longitude, accuracy, ...FORMS, timestamp } });

/** A frame of another origin needs the permission of the page around it: the Permissions Policy. */
const isAllowed = (site, allowed) => (allowed === null ? site.isTop : allowed === true);

export async function permissionState(site, { allowed }) {
  return { state: isAllowed(site, allowed) ? await stateOf(site.name) : "denied" };
}

export async function positionFor(site, { allowed, maximumAge, timeout }) {
  if (!isAllowed(site, allowed)) return { error: 1 };
  const level = await levelOf(site.name);
  if (level === null || level === "never") return { error: 1 };
  const now = await settings();
  if (now.paused || !now.region) return { error: 2 };
  if (level === "fixed") return fixedPlace(site.name, now.region);
  const { last } = (await accounts())[site.name] ?? {};
  if (last?.level === level && level !== "off" && Date.now() - last.timestamp <= maximumAge) {
    return reportOf(last);
  }
  const { fix, error } = await truePosition(timeout);
  if (error) return { error };
  await learn(fix);
  if (level === "off") return trueAnswer(site.name, fix);
  const found = await mechanismOf(level);
  if (!found) return { error: 2 };
  try {
    const { newPlaces } = now;
    return reportOf(await tell({ site: site.name, level, fix, newPlaces, ...found }));
  } catch (wrong) {
    if (!(wrong instanceof SpentError)) console.warn(wrong.constructor.name); // never the message
    return { error: 2 };
  }
}

async function fixedPlace(site, { lat, lon, km }) {
  const timestamp = Date.now();
  const last = { latitude: lat, longitude: lon, accuracy: km * 1000, timestamp, level: "fixed" };
  return reportOf(await note(site, last));
}

/** The level "off". The ledger notes that the site was told the truth, but not the numbers. */
async function trueAnswer(site, fix) {
  const timestamp = Date.now();
  await note(site, { timestamp, level: "off" });
  return { report: { ...FORMS, ...fix, timestamp } };
}
