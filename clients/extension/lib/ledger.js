// The one ledger of all tabs: what every site was told, and the epsilon that it has used up today.
// All of it is one value in storage.local, changed under one lock. It is written before a report
// leaves, so a browser that is killed has charged at least what was told.
//
// Within a day, a place has one report per mechanism, for all sites. So sites that put together what
// they were told learn no more than one of them. Each site pays for each new place that it is told.
import { fromUnits, units } from "../shared/vendor/whereish/ledger.js";
import { ascii, hex } from "../shared/vendor/whereish/primordials.js";
import { hmac } from "../shared/vendor/whereish/sha256.js";
import { store, stored } from "./api.js";

const DAY_MS = 86_400_000;
const LOCK = "whereish-ledger";

/** A site's budget for today does not allow a report of a new place. */
export class SpentError extends Error {}

const randomKey = () => hex(crypto.getRandomValues(new Uint8Array(32)));

/** The ledger of today. A clock that goes back does not begin a new day. */
async function open() {
  const today = Math.floor(Date.now() / DAY_MS);
  const found = (await stored("ledger")) ?? { version: 1, key: randomKey(), day: today, drawn: {}, sites: {} };
  if (found.version !== 1) throw new Error("the ledger must be of version 1: nothing was reported");
  if (today <= found.day) return found;
  const sites = {};
  for (const [name, { last }] of Object.entries(found.sites)) sites[name] = fresh(last);
  return { version: 1, key: randomKey(), day: today, drawn: {}, sites };
}

const fresh = (last = null) => ({ spent: "0", told: [], last });

/** The number of the place of a point: of a square of 100 m, if the guarantee is for every point. */
function placeOf(mechanism, lat, lon) {
  const found = mechanism.locate(lat, lon);
  return found.square ?? found.place;
}

/** Draw a report. A point outside the area is moved to the nearest place: an error would show it. */
const drawAt = (mechanism, lat, lon, place) =>
  mechanism.kind ? mechanism.draw(lat, lon) : mechanism.draw(place);

/**
 * The report of a site, for a fix of the device. Throws SpentError if the place is new and the
 * budget of the site, `newPlaces` times the epsilon of the mechanism, does not allow it.
 */
export const tell = ({ site, level, mechanism, accuracy, newPlaces, fix }) =>
  navigator.locks.request(LOCK, async () => {
    const ledger = await open();
    const { latitude, longitude } = fix;
    const place = placeOf(mechanism, latitude, longitude);
    const secret = ascii(ledger.key);
    const name = hex(hmac(secret, ascii(`${mechanism.digest}:${place}`))).slice(0, 32);
    const account = (ledger.sites[site] ??= fresh());
    if (!account.told.includes(name)) {
      const cost = units(mechanism.epsilon);
      const spent = BigInt(account.spent) + cost;
      if (spent > cost * BigInt(newPlaces)) throw new SpentError("the budget of today is spent");
      account.spent = `${spent}`;
      account.told.push(name);
    }
    const output = (ledger.drawn[name] ??= drawAt(mechanism, latitude, longitude, place));
    const [lat, lon] = mechanism.output(output).latlon;
    account.last = { latitude: lat, longitude: lon, accuracy, timestamp: Date.now(), level };
    await store("ledger", ledger); // before the report leaves
    return account.last;
  });

/** Note what a site was told without a mechanism: a fixed place, or (without numbers) the truth. */
export const note = (site, last) =>
  navigator.locks.request(LOCK, async () => {
    const ledger = await open();
    (ledger.sites[site] ??= fresh()).last = last;
    await store("ledger", ledger);
    return last;
  });

/** By site: what it was told last, the epsilon spent today, and how many new places that was. */
export async function accounts() {
  const found = await open();
  return Object.fromEntries(Object.entries(found.sites).map(([name, { spent, told, last }]) =>
    [name, { spent: fromUnits(BigInt(spent)), places: told.length, last }]));
}

/** When the next day of the ledger begins, on the clock of the device. */
export const newDay = () => new Intl.DateTimeFormat("en-GB", { timeStyle: "short" })
  .format(Math.ceil((Date.now() + 1) / DAY_MS) * DAY_MS);

/** How many new places of this epsilon are left for a site today. */
export const placesLeft = (spent, epsilon, newPlaces) =>
  Math.max(0, Math.floor((epsilon * newPlaces - spent) / epsilon + 1e-9));
