// One map with one mechanism: pin, coloured cells, circles, drawn reports. A comparison shows two
// panes.

import { box, kmPerDegree } from "./geo.js";
import { GlMap } from "./glmap.js";
import { drawFrom, isForPoints, seenFrom } from "./measures.js";
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
  #world = null; // the map of the world, if it is there
  #touched = false;
  #concluding = false;
  #backdrop = null;

  static async make(element, theme, events) {
    const pane = new Pane();
    const container = element.querySelector(".map");
    pane.element = element;
    pane.#theme = theme;
    pane.#map = await makeMap(container, theme);
    pane.#overlay = new Overlay(pane.#map, container, events);
    pane.#map.onClick((latlon, [x, y]) => events.picked?.(latlon, (point) => {
      const at = pane.#map.project(point);
      return Math.hypot(at.x - x, at.y - y);
    }));
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
    // Places without degrees are drawn somewhere at sea: no map is shown under them.
    const moved = (this.#scene?.earth === false) !== (stage.earth === false);
    this.#scene = stage;
    this.#drawn = [];
    if (moved) void this.#setMaps(this.#backdrop?.map);
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
    this.#seen = mechanism ? seenFrom(mechanism, this.#spot(place)) : { shares: prior, mean: NaN };
    return this.#seen;
  }

  /** A place as the mechanism takes it: noise beside a mechanism for places takes points. */
  #spot(place) {
    const { inputs, mechanism } = this.#scene;
    return isForPoints(mechanism) && !Array.isArray(place) ? inputs[place] : place;
  }

  /** Draw the result of `look`, on a colour scale from 0 to `most`. */
  paint(place, { most, hiddenKm, reachKm, label, held }) {
    const { inputs, outputs, cellKm, discKm, mechanism } = this.#scene;
    const at = Array.isArray(place) ? place : inputs[place];
    this.#map.set("cells", scene.cells(outputs, cellKm, discKm, this.#seen.shares, most,
      this.#theme, this.#seeThrough));
    this.#map.set("rings", mechanism
      ? scene.circles(at, hiddenKm, reachKm, this.#theme)
      : []);
    if (this.#concluding) this.#drawDots();
    this.#concluding = false;
    if (!held || !this.#overlay.dragging) this.#overlay.setPin(at, label);
    this.element.dataset.place = String(place);
  }

  /**
   * Draw what can be concluded from the report at `report`: the probability of every spot, in
   * squares of `sideKm`, or as the places are drawn. It replaces what `paint` has drawn.
   */
  conclude(spots, shares, most, report, sideKm) {
    const { cellKm, discKm } = this.#scene;
    const size = sideKm ? [sideKm, sideKm] : cellKm;
    this.#map.set("cells", scene.cells(spots, size, discKm, shares, most, this.#theme,
      this.#seeThrough, { edged: !sideKm }));
    this.#map.set("rings", []);
    this.#map.set("dots", [scene.seenReport(report, this.#theme)]);
    this.#concluding = true;
    this.element.dataset.report = report.join(",");
  }

  /** Whether a point in degrees is in the cell or on the disc of an output. */
  inCell(latlon, output) {
    const { cellKm, discKm } = this.#scene;
    const [lat, lon] = kmPerDegree(output[0]);
    const [dx, dy] = [Math.abs(latlon[1] - output[1]) * lon, Math.abs(latlon[0] - output[0]) * lat];
    return cellKm ? dx <= cellKm[0] / 2 && dy <= cellKm[1] / 2 : Math.hypot(dx, dy) <= discKm;
  }

  /** Draw reports of a place with the sampler of the client. */
  draw(place, number) {
    const { mechanism } = this.#scene;
    const spot = this.#spot(place);
    const fresh = Array.from({ length: number }, () => drawFrom(mechanism, spot));
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

  /** Put the map of the world under everything: a map file that was read. */
  async setWorld(world) {
    this.#world = world;
    await this.#setMaps(this.#backdrop?.map);
  }

  /** Put a background under the cells: tiles ({ source, layers }), or a map file ({ map }). */
  async setBackdrop(backdrop) {
    this.#backdrop = backdrop;
    this.#seeThrough = Boolean(backdrop) && (this.#map.drawsTiles || Boolean(backdrop.map));
    await this.#setMaps(backdrop?.map);
    await this.#map.setBackdrop(backdrop?.layers ? backdrop : null);
    this.#drawGround();
  }

  async #setMaps(map) {
    const maps = this.#scene?.earth === false ? [] : [this.#world, map].filter(Boolean);
    this.#overlay.setMaps(maps);
    await this.#map.setGround(maps);
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
