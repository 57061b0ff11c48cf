// Numbers in words: lengths, shares, levels, directions. This module does not use the DOM.

const NB = "\u00a0"; // a number and its unit stay on one line
const WINDS = ["east", "north-east", "north", "north-west", "west", "south-west", "south",
  "south-east"];

/** A length: metres below a kilometre, kilometres above. */
export function metres(km) {
  if (!Number.isFinite(km)) return "…";
  if (km < 0.0005) return `0${NB}m`;
  if (km < 0.995) {
    const m = km * 1000;
    return `${m < 10 ? m.toFixed(1) : Math.round(m)}${NB}m`;
  }
  const text = km < 9.95 ? km.toFixed(2) : km < 99.5 ? km.toFixed(1) : count(Math.round(km));
  return `${text}${NB}km`;
}

/** A share as percent, with enough digits to show that it is not zero. */
export function percent(share) {
  const p = share * 100;
  if (p === 0) return `0${NB}%`;
  if (p < 0.01) return `under 0.01${NB}%`;
  if (p < 1) return `${Number(p.toPrecision(1))}${NB}%`;
  return `${p > 99 && p < 100 ? p.toFixed(1) : Math.round(p)}${NB}%`;
}

/**
 * A relative gap to a bound as percent. It is usually very small, so it may need many digits. A
 * larger one is rounded up: it stays a bound.
 */
export function tiny(share) {
  const p = Math.max(share, 0) * 100;
  if (p < 1e-9) return "less than a billionth of a percent";
  if (p >= 0.01) {
    const unit = 10 ** (1 - Math.floor(Math.log10(p)));
    return `${Number((Math.ceil(p * unit - 1e-9) / unit).toPrecision(2))}${NB}%`;
  }
  return `${p.toFixed(Math.min(12, 1 - Math.floor(Math.log10(p))))}${NB}%`;
}

/** The same for a figure, in few characters. */
export function shortGap(share) {
  if (!Number.isFinite(share)) return "not known";
  return share < 1e-6 ? `<${NB}0.0001${NB}%` : tiny(share);
}

/** A number with at most `most` significant digits, and a separator between thousands. */
export const digits = (number, most) =>
  number.toLocaleString("en-GB", { maximumSignificantDigits: most });

/** A ratio, with enough digits to show that it is above 1. */
export function times(ratio, least = 3) {
  if (ratio === 2) return "twice";
  const beyond = ratio > 1 ? Math.ceil(-Math.log10(ratio - 1)) + 1 : 0;
  return `${digits(ratio, Math.min(15, Math.max(least, beyond)))}${NB}times`;
}

export const count = (number) => number.toLocaleString("en-GB");

export const some = (number, one, many = `${one}s`) =>
  `${count(number)} ${number === 1 ? one : many}`;

/** The compass direction of an offset in km. */
export function wind(dx, dy) {
  return WINDS[Math.round((Math.atan2(dy, dx) / (2 * Math.PI)) * 8 + 8) % 8];
}

/** The epsilon per km of a level: this ratio at so many metres. */
export const epsilonOf = (ratio, metresApart) => (Math.log(ratio) / metresApart) * 1000;

/** The distance in km at which a report is at most `ratio` times likelier. */
export const alikeKm = (ratio, epsilon) => Math.log(ratio) / epsilon;

export function seconds(s) {
  if (s < 0.95) return `${Math.max(0.1, s).toFixed(1)}${NB}s`;
  if (s < 90) return `${Math.round(s)}${NB}s`;
  return `${Math.round(s / 60)} minutes`;
}
