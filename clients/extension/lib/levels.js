// The levels in words. The four in the middle are a distance and a ratio, as on the page; epsilon
// follows from these and is not chosen.
import { epsilonOf } from "../shared/words.js";

export const RATIO = 2;

export const LEVELS = {
  off: {
    name: "off", badge: "off", short: "The site gets your true position.",
    says: "No protection: the site gets your true position.",
  },
  street: { name: "street", metres: 200, badge: "200m" },
  neighbourhood: { name: "neighbourhood", metres: 500, badge: "500m" },
  district: { name: "district", metres: 1500, badge: "1.5k" },
  city: { name: "city", metres: 5000, badge: "5km" },
  fixed: {
    name: "fixed place", badge: "fix",
    short: "Always the middle of your region.",
    says: "Always the middle of your region, wherever you are.",
  },
  never: {
    name: "refuse", badge: "no", short: "The site is told that you refused.",
    says: "The site gets no position: it is told that you refused.",
  },
};
export const NOISY = ["street", "neighbourhood", "district", "city"];
export const CHOICES = ["street", "neighbourhood", "district", "city", "fixed", "off", "never"];
export const SUGGESTED = "neighbourhood";

/** What "look alike" and "hides 500 m" mean, said once beside the levels. */
const ALIKE = `every report is at most ${RATIO} times likelier from one than from the other.`;
export const LOOK_ALIKE = `Two points look alike if ${ALIKE}`;
export const HIDES = `"Hides 500 m": of two points up to 500 m apart, ${ALIKE}`;

for (const key of NOISY) {
  const level = LEVELS[key];
  level.epsilon = epsilonOf(RATIO, level.metres);
  level.says = `Points up to ${level.metres.toLocaleString("en-GB")} m apart look alike.`;
}
