// The options that every user of a ledger has: its name, budget, period, clock, and what it keeps.
import { InputError } from "./errors.js";
import { isPeriod, units } from "./ledger.js";
import { ascii, bytesOf, isFinite, isSafeInteger, lengthOf, now, own, put, toBigInt } from "./primordials.js";

/**
 * Check the options of a Reporter or a Tracker of a mechanism. Returns { name, terms, secret, clock,
 * cost, outside }: the arguments of a Ledger, the units of a draw, and what happens outside the area. A
 * number of new places is a number of draws, of which some may be those of `later` mechanisms.
 */
export function checkedTerms(mechanism, options, isEverywhere, later = []) {
  const period = own(options, "period", "day");
  if (!isPeriod(period)) throw new InputError("period must be hour, day or week");
  const outside = own(options, "outside", "error");
  if (outside !== "error" && outside !== "nearest") {
    throw new InputError('outside must be "error" or "nearest"');
  }
  const name = own(options, "key", "whereish");
  if (typeof name !== "string") throw new InputError("key must be a string, the name of the ledger");
  const clock = own(options, "clock", now);
  if (typeof clock !== "function") throw new InputError("clock must be a function");
  const remember = own(options, "remember", "storage");
  if (remember !== "storage" && remember !== "page") {
    throw new InputError('remember must be "storage" or "page"');
  }
  if (isEverywhere && outside !== "error") {
    throw new InputError(
      "outside must not be given for a mechanism with a guarantee for every point: a point outside " +
        "the rectangle of its lattice is moved onto it, and the guarantee still holds",
    );
  }
  const cost = units(mechanism.epsilon);
  const costs = [cost];
  for (let i = 0; i < later.length; i++) put(costs, i + 1, units(later[i].epsilon));
  const metric = mechanism.metricDigest ? ` ${mechanism.metricDigest}` : "";
  const terms = {
    period, unit: mechanism.epsilonUnit + metric, budget: budgetOf(options, costs), remember,
  };
  return { name, terms, secret: secretOf(options), clock, cost, outside };
}

/** The budget in units: an epsilon, or a number of draws, of which the last cost is repeated. */
function budgetOf(options, costs) {
  const budget = own(options, "budget", null);
  const places = own(options, "newPlaces", null);
  if ((budget === null) === (places === null)) {
    throw new InputError("give newPlaces (new places per period) or budget (epsilon per period): exactly one of them");
  }
  if (places !== null) {
    if (!isSafeInteger(places) || places < 1 || places > 1e9) {
      throw new InputError("newPlaces must be a whole number, at least 1");
    }
    let sum = 0n;
    let i = 0;
    for (; i < places && i < costs.length; i++) sum += costs[i];
    return sum + costs[costs.length - 1] * toBigInt(places - i);
  }
  if (typeof budget !== "number" || !(budget > 0) || !isFinite(budget) || budget > 1e20) {
    throw new InputError("budget must be a positive epsilon per period");
  }
  return units(budget);
}

function secretOf(options) {
  const secret = own(options, "secret", null);
  if (secret === null) return null;
  const bytes = typeof secret === "string" ? ascii(secret) : bytesOf(secret);
  if (bytes === null || lengthOf(bytes) < 16) {
    throw new InputError("secret must be at least 16 random bytes, or at least 16 ASCII characters");
  }
  return bytes;
}
