// "Use where I am now": ask the browser once for the position, and move the pin there. The position
// stays in this page.

import { inKm, isForPoints } from "./measures.js";
import { FURTHEST_KM, putPin } from "./stage.js";
import { $, state } from "./state.js";

const OPTIONS = { enableHighAccuracy: false, timeout: 30_000, maximumAge: 0 };
const REFUSED = {
  1: "Your browser was not allowed to tell the position. Drag the pin instead.",
  2: "The position is not known now. Drag the pin instead.",
  3: "Your browser took too long to find the position. Try again, or drag the pin.",
};

/** Whether a mechanism covers a point in degrees. */
function covers(mechanism, lat, lon) {
  if (isForPoints(mechanism)) return Math.hypot(...inKm(mechanism, [lat, lon])) <= FURTHEST_KM;
  return !mechanism.locate(lat, lon).outside;
}

function found({ coords: { latitude, longitude } }) {
  const mechanism = state.built?.mechanism;
  if (!mechanism) return "Build a mechanism first: the pin needs one.";
  if (!mechanism.plane) return "These places have no position on the earth: drag the pin instead.";
  if (!covers(mechanism, latitude, longitude)) {
    return "You are outside the area of these places, so the pin was not moved. Use your own " +
      "traces to get places where you are.";
  }
  putPin([latitude, longitude]);
  return isForPoints(mechanism) ? "The pin is where you are. The position stays on this device."
    : "The pin is at the place nearest to you. The position stays on this device.";
}

export function wireHere() {
  const tell = (words) => ($("here-note").textContent = words);
  $("here").addEventListener("click", () => {
    if (!navigator.geolocation) {
      tell("This browser does not tell pages a position. Drag the pin instead.");
      return;
    }
    tell("Waiting for your browser…");
    navigator.geolocation.getCurrentPosition(
      (position) => tell(found(position)),
      ({ code }) => tell(REFUSED[code] ?? REFUSED[2]), OPTIONS);
  });
}
