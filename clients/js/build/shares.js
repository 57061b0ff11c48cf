// Priors and weights: numbers of at least 0 whose sum is 1.

import { InputError } from "../whereish/errors.js";

/** Numbers whose sum is 1 up to 1e-6, divided by their sum. A message never holds one of them. */
export function sharesOf(name, given, count) {
  const shares = Float64Array.from(given ?? []);
  const sum = shares.reduce((total, share) => total + share, 0);
  const sane = shares.length === count && count > 0 && shares.every((share) => share >= 0);
  if (!sane || !(Math.abs(sum - 1) <= 1e-6)) {
    throw new InputError(`${name} must have a number of at least 0 for each point or place, with sum 1`);
  }
  return shares.map((share) => share / sum);
}
