// The complementary error function for numbers of at least 0, to about 14 digits: a power series near
// 0, a continued fraction beyond. (Abramowitz, Stegun: Handbook of Mathematical Functions, 7.1.5 and
// 7.1.14.)

const SERIES_UP_TO = 2;
const NOTHING = 27; // erfc is below 1e-300 from here on

/** 2 / sqrt(pi) times the integral of exp(-t^2) from x to infinity. */
export function erfc(x) {
  if (x >= NOTHING) return 0;
  if (x < SERIES_UP_TO) {
    let term = x;
    let sum = x;
    for (let n = 1; Math.abs(term) > 1e-17 * sum; n++) {
      term *= (-x * x) / n;
      sum += term / (2 * n + 1);
    }
    return 1 - (2 / Math.sqrt(Math.PI)) * sum;
  }
  let level = x;
  for (let n = Math.ceil(12 + 200 / (x * x)); n > 0; n--) level = x + n / 2 / level;
  return Math.exp(-x * x) / (level * Math.sqrt(Math.PI));
}
