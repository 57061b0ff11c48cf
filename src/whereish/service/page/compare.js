// Trying it: drawn reports, and the same beside planar Laplace.

import { orderOf } from "./api.js";
import { have, recipeOf } from "./building.js";
import { isBest } from "./certificate.js";
import { guessError, overPrior } from "./measures.js";
import { Pane } from "./pane.js";
import { pinEvents, repaint, stageOf } from "./stage.js";
import { $, hear, hide, panes, shown, state, theme } from "./state.js";
import { calm } from "./trouble.js";
import { count, digits, metres } from "./words.js";

// --- drawing reports -----------------------------------------------------------------------

/** Draw reports of the pin's place with the system's randomness; they stay in the page. */
function draw(number) {
  const { place, built } = state;
  const told = shown().map((pane, k) => {
    const [first] = pane.draw(place, number);
    const { away } = pane.seen;
    const all = pane.drawn.length;
    const mean = pane.drawn.reduce((sum, z) => sum + away[z], 0) / all;
    const who = k === 0 ? "" : "Planar Laplace: ";
    return all === 1 ? `${who}one report, ${metres(away[first])} off.`
      : `${who}${count(all)} reports, ${metres(mean)} off on average.`;
  });
  told[0] = told[0].charAt(0).toUpperCase() + told[0].slice(1);
  const all = panes.best.drawn.length;
  const { epsilon } = built.mechanism;
  if (all > 1 && epsilon !== null) {
    const spent = digits(all * epsilon, 3);
    told.push(`Sent, ${count(all)} reports of one place would cost ${count(all)} ε = ${spent} ` +
      "per km, and together they would give it away: who reports more than once needs a " +
      "Reporter, which repeats itself.");
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
  for (const id of ["draw-one", "draw-many"]) $(id).disabled = !built;
  // What promises no epsilon has nothing at the same level beside it.
  $("compare").disabled = !built || built.mechanism.epsilon === null;
}

let making = null; // the second map: made once, when it is first asked for

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
    const recipe = recipeOf(profile, built.mechanism.epsilon, "planar-laplace");
    await have(orderOf(recipe), "Building planar Laplace", (made) => {
      if (state.built !== built) return undefined;
      state.laplace = { ...made, ...overPrior(made.mechanism, built.prior) };
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
  await panes.laplace.setBackdrop(state.backdrop);
  panes.laplace.show(stageOf(state.laplace.mechanism), { fit: false });
  panes.best.fit();
  panes.laplace.map.camera = panes.best.map.camera;
  repaint();
}

function tellComparison() {
  if (!state.comparing || !state.laplace || !panes.laplace?.seen) return;
  const { built, laplace, profile } = state;
  const { prior } = built;
  const guesses = [built, laplace].map((one) => (one.guess ??= guessError(one.mechanism, prior)));
  const rows = [
    ["Off on average", built.loss, laplace.loss],
    ["… from the pin", panes.best.seen.mean, panes.laplace.seen.mean],
    ["95 % from the pin within", panes.best.seen.reach, panes.laplace.seen.reach],
    ["An attacker's best guess is off by", ...guesses],
  ].filter(([, a, b]) => !prior || (Number.isFinite(a) && Number.isFinite(b)));
  const table = document.createElement("table");
  const caption = table.createCaption();
  caption.textContent = "Both at the same privacy.";
  if (!prior) {
    caption.textContent += " What is not known: the file does not hold the prior. Planar Laplace " +
      "is built as if all places were equally likely.";
  } else if (profile.guessed) {
    caption.textContent += " All places are taken as equally likely.";
  }
  const title = (row, text, scope) => {
    const cell = document.createElement("th");
    cell.scope = scope;
    cell.textContent = text;
    row.append(cell);
  };
  const head = table.createTHead().insertRow();
  for (const text of ["How far", $("title-best").textContent, "Planar Laplace"]) {
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
    // What was side by side stays so, at the new level.
    if (again && state.built.mechanism.epsilon !== null) void compare();
  });
}
