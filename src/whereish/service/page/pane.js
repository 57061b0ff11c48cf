// One map with one mechanism: pin, coloured cells, circles, drawn reports. A comparison shows two
// panes.

import { box } from "./geo.js";
import { GlMap } from "./glmap.js";
import { drawFrom, seenFrom } from "./measures.js";
import { Overlay } from "./overlay.js";
import { PlainMap } from "./plainmap.js";
import * as scene from "./scene.js";

/** Whether the browser has WebGL 2. MapLibre needs it. */
function hasWebgl() {
  try {
    const context = document.createElement("canvas").getContext("webgl2");
    context?.getExtension("WEBGL_lose_context")?.loseContext();
    return Boolean(context);
  } catch {
    return false;
  }
}

async function makeMap(container, theme) {
  if (hasWebgl()) {
    try {
      const maplibre = await import("./vendor/maplibre-gl.mjs");
      // On a phone, one finger scrolls the page and two fingers move the map.
      const cooperative = matchMedia("(max-width: 860px) and (pointer: coarse)").matches;
      return new GlMap(maplibre, container, theme, { cooperative });
    } catch (wrong) {
      console.info(`the map is drawn without WebGL: ${wrong.message}`);
      container.replaceChildren();
    }
  }
  return new PlainMap(container, theme);
}

export class Pane {
  #map;
  #overlay;
  #theme;
  #scene = null; // the data on the map: see `show`
  #seen = null;
  #drawn = [];
  #single = false;
  #seeThrough = false;
  #touched = false;

  static async make(element, theme, events) {
    const pane = new Pane();
    const container = element.querySelector(".map");
    pane.element = element;
    pane.#theme = theme;
    pane.#map = await makeMap(container, theme);
    pane.#overlay = new Overlay(pane.#map, container, events);
    let waiting = 0;
    // Until the person moves the map, it always shows all places.
    pane.#map.onTouch(() => (pane.#touched = true));
    new ResizeObserver(() => {
      pane.#map.resize();
      if (pane.#scene && !pane.#touched) pane.fit();
    }).observe(container);
    pane.#map.onMove(() => {
      events.camera?.(pane);
      waiting ||= requestAnimationFrame(() => {
        waiting = 0;
        pane.#drawGround();
      });
    });
    return pane;
  }

  get map() {
    return this.#map;
  }

  get seen() {
    return this.#seen;
  }

  /** Whether the person has moved the map since it showed everything. */
  get touched() {
    return this.#touched;
  }

  get dragging() {
    return this.#overlay.dragging;
  }

  /**
   * Put a profile on the map, with a mechanism or without.
   * `stage` has inputs and outputs in degrees, cellKm, discKm, prior, usual (the prior to draw as
   * circles, or null), earth, lines, names, mechanism.
   */
  show(stage, { fit = true } = {}) {
    this.#scene = stage;
    this.#drawn = [];
    this.#overlay.setNames(stage.names);
    if (fit) this.fit();
    this.#redraw();
  }

  fit() {
    this.#touched = false;
    const { inputs, outputs, cellKm, discKm } = this.#scene;
    this.#map.fit(box([...inputs, ...outputs], cellKm ? Math.max(...cellKm) / 2 : discKm), 28);
  }

  /**
   * Compute the reports from a spot, and keep them: both panes share one colour scale. A spot is the
   * number of a place, or a point in degrees if the guarantee is between any two points.
   */
  look(place) {
    const { mechanism, prior } = this.#scene;
    this.#seen = mechanism ? seenFrom(mechanism, place) : { shares: prior, mean: NaN, reach: 0 };
    return this.#seen;
  }

  /** Draw the result of `look`, on a colour scale from 0 to `most`. */
  paint(place, { most, hiddenKm, label, held }) {
    const { inputs, outputs, cellKm, discKm, mechanism } = this.#scene;
    const at = Array.isArray(place) ? place : inputs[place];
    this.#map.set("cells", scene.cells(outputs, cellKm, discKm, this.#seen.shares, most,
      this.#theme, this.#seeThrough));
    this.#map.set("rings", mechanism
      ? scene.circles(at, hiddenKm, this.#seen.reach, this.#theme)
      : []);
    if (!held || !this.#overlay.dragging) this.#overlay.setPin(at, label);
    this.element.dataset.place = String(place);
  }

  /** Draw reports of a place with the sampler of the client. */
  draw(place, number) {
    const { mechanism } = this.#scene;
    const fresh = Array.from({ length: number }, () => drawFrom(mechanism, place));
    this.#drawn.push(...fresh);
    if (this.#drawn.length > 5000) this.#drawn.splice(0, this.#drawn.length - 5000);
    this.#single = number === 1;
    this.#drawDots();
    return fresh;
  }

  get drawn() {
    return this.#drawn;
  }

  clear() {
    this.#drawn = [];
    this.#drawDots();
  }

  setTheme(theme) {
    this.#theme = theme;
    this.#map.setTheme(theme);
    this.#redraw();
  }

  async setBackdrop(backdrop) {
    this.#seeThrough = Boolean(backdrop) && this.#map.drawsTiles;
    await this.#map.setBackdrop(backdrop);
    this.#drawGround();
  }

  /** Draw everything that `paint` does not draw, in the current theme. */
  #redraw() {
    if (!this.#scene) return;
    const { inputs, usual } = this.#scene;
    this.#drawGround();
    this.#map.set("usual", scene.usual(inputs, usual, this.#theme));
    this.#drawDots();
  }

  #drawGround() {
    if (!this.#scene) return;
    const { features, water, labels } =
      scene.ground(this.#map.bounds(), this.#map.width, this.#scene, this.#theme);
    this.#map.set("net", features);
    this.#map.set("water", this.#seeThrough ? [] : water);
    this.#overlay.setDegrees(labels);
  }

  #drawDots() {
    if (!this.#scene) return;
    const { outputs, cellKm, discKm } = this.#scene;
    const spread = (cellKm ? Math.min(...cellKm) / 2 : discKm) * 0.8;
    this.#map.set("dots", scene.dots(this.#drawn, outputs, spread, this.#theme, this.#single));
    this.element.dataset.drawn = String(this.#drawn.length);
  }
}
