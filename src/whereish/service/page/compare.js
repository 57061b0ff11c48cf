// Try the mechanism: draw reports, and compare it with planar Laplace.

import { have } from "./building.js";
import { isBest } from "./certificate.js";
import { guessError, isForPoints, overPrior } from "./measures.js";
import { Pane } from "./pane.js";
import { besideStage, pinEvents, repaint } from "./stage.js";
import { $, hear, hide, panes, shown, state, theme } from "./state.js";
import { calm } from "./trouble.js";
import { count, digits, metres } from "./words.js";

// --- drawing reports -----------------------------------------------------------------------

/** Draw reports from the place of the pin with the system's randomness. They stay in the page. */
function draw(number) {
  const { place, built } = state;
  const told = shown().map((pane, k) => {
    const [first] = pane.draw(place, number);
    const { away } = pane.seen;
    const all = pane.drawn.length;
    const mean = pane.drawn.reduce((sum, z) => sum + away[z], 0) / all;
    const who = k === 0 ? "" : "Planar Laplace: ";
    return all === 1 ? `${who}one report, ${metres(away[first])} from the pin.`
      : `${who}${count(all)} reports, on average ${metres(mean)} from the pin.`;
  });
  told[0] = told[0].charAt(0).toUpperCase() + told[0].slice(1);
  const all = panes.best.drawn.length;
  const { epsilon } = built.mechanism;
  if (all > 1 && epsilon !== null) {
    const spent = digits(all * epsilon, 3);
    told.push(`If you sent these ${count(all)} reports of one place, they would cost ` +
      `${count(all)} ε = ${spent} per km, and together they would reveal the place. To report ` +
      "more than once, use a Reporter: it gives the same report for the same place.");
  }
  $("drawn").textContent = told.join(" ");
  $("drawn").hidden = false;
  $("draw-clear").hidden = false;
}

function clearDraws() {
  for (const pane of shown()) pane.clear();
  $("drawn").hidden = true;
  $("drawn").textContent = "";
  hide("draw-clear", "draw-one");
}

// --- side by side --------------------------------------------------------------------------

function setComparing(on) {
  state.comparing = on;
  $("maps").classList.toggle("two", on);
  $("pane-laplace").hidden = !on;
  $("compare").setAttribute("aria-pressed", String(on));
  $("compare-table").hidden = !on;
  const best = on && isBest(state.built.certificate);
  $("title-best").textContent = best ? "Least loss" : on ? "This mechanism" : "";
  panes.best.map.resize();
}

function allow() {
  const { built } = state;
  for (const id of ["draw-one", "draw-many", "conclude", "here"]) $(id).disabled = !built;
  // Without an epsilon there is no planar Laplace mechanism of the same level to compare with.
  $("compare").disabled = !built || built.mechanism.epsilon === null;
  // Between any two points, the service has compared the two, and built the better one.
  $("compare").hidden = isForPoints(built?.mechanism);
}

let making = null; // the second map: made once, at the first comparison

async function compare() {
  const { built, profile } = state;
  clearDraws();
  if (state.comparing) {
    setComparing(false);
    panes.best.fit();
    repaint();
    return;
  }
  calm();
  if (!state.laplace) {
    const request = {
      profile, everywhere: false, noise: true, epsilon: built.mechanism.epsilon, dilation: 1,
    };
    await have(request, "Building planar Laplace", (made) => {
      if (state.built !== built) return undefined;
      state.laplace = { ...made, ...overPrior(made.mechanism, built.prior, profile.latlon) };
      return sideBySide();
    }, compare);
  } else await sideBySide();
}

async function sideBySide() {
  const { built } = state;
  $("pane-laplace").hidden = false;
  making ??= Pane.make($("pane-laplace"), theme(), pinEvents);
  panes.laplace = await making;
  if (state.built !== built) return;
  setComparing(true);
  panes.laplace.map.resize();
  panes.laplace.setTheme(theme());
  await panes.laplace.setWorld(state.world);
  await panes.laplace.setBackdrop(state.backdrop);
  panes.laplace.show(besideStage(state.laplace.mechanism), { fit: false });
  panes.best.fit();
  panes.laplace.map.camera = panes.best.map.camera;
  repaint();
}

function tellComparison() {
  if (!state.comparing || !state.laplace || !panes.laplace?.seen) return;
  const { built, laplace, profile } = state;
  const { prior } = built;
  const guesses = [built, laplace].map((one) => (one.guess ??=
    guessError(one.mechanism, prior, profile.latlon)));
  const rows = [
    ["Average loss", built.loss, laplace.loss],
    ["Average loss from the pin", panes.best.seen.mean, panes.laplace.seen.mean],
    ["95 % of reports within", built.reach, laplace.reach],
    ["Error of an adversary's best guess", ...guesses],
  ].filter(([, a, b]) => !prior || (Number.isFinite(a) && Number.isFinite(b)));
  const table = document.createElement("table");
  const caption = table.createCaption();
  caption.textContent = "Both mechanisms have the same epsilon.";
  if (isForPoints(laplace.mechanism)) {
    caption.textContent += " Planar Laplace has the best remap for this prior.";
  }
  if (!prior) {
    caption.textContent += " The file does not hold the prior, so some values are not known. " +
      "Planar Laplace is built as if all places were equally likely.";
  } else if (profile.guessed) {
    caption.textContent += " All places are assumed equally likely.";
  }
  const title = (row, text, scope) => {
    const cell = document.createElement("th");
    cell.scope = scope;
    cell.textContent = text;
    row.append(cell);
  };
  const head = table.createTHead().insertRow();
  for (const text of ["Distance", $("title-best").textContent, "Planar Laplace"]) {
    title(head, text, "col");
  }
  const body = table.createTBody();
  for (const [name, ...values] of rows) {
    const row = body.insertRow();
    title(row, name, "row");
    for (const value of values) {
      row.insertCell().textContent = Number.isFinite(value) ? metres(value) : "not known";
    }
  }
  $("compare-table").replaceChildren(table);
}

export function wireTrying() {
  $("draw-one").addEventListener("click", () => draw(1));
  $("draw-many").addEventListener("click", () => draw(100));
  $("draw-clear").addEventListener("click", clearDraws);
  $("compare").addEventListener("click", () => void compare());
  hear("moved", clearDraws);
  hear("painted", tellComparison);
  hear("profile", () => {
    setComparing(false);
    clearDraws();
    allow();
  });
  hear("built", () => {
    const again = state.comparing;
    setComparing(false);
    clearDraws();
    allow();
    // An open comparison stays open, at the new level.
    const { mechanism } = state.built;
    if (again && mechanism.epsilon !== null && !isForPoints(mechanism)) void compare();
  });
}
