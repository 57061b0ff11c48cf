// The same map on a 2D canvas, for browsers without WebGL. It draws all layers but no tiles.

import { THEMES } from "./scene.js";
import { drawBackground } from "./vendor/map/background.js";

const ORDER = ["net", "cells", "water", "usual", "rings", "dots"];
const RAD = Math.PI / 180;
const STEPS = {
  ArrowLeft: [-80, 0], ArrowRight: [80, 0], ArrowUp: [0, -80], ArrowDown: [0, 80],
};

/** Web Mercator on a world of 512 pixels, as in MapLibre: both maps share one camera. */
const toWorld = ([lat, lon]) => [
  ((lon + 180) / 360) * 512,
  ((1 - Math.log(Math.tan(Math.PI / 4 + (lat * RAD) / 2)) / Math.PI) / 2) * 512,
];
const fromWorld = ([x, y]) => [
  (Math.atan(Math.sinh(Math.PI * (1 - (2 * y) / 512))) / RAD), (x / 512) * 360 - 180,
];

export class PlainMap {
  drawsTiles = false;
  #canvas = document.createElement("canvas");
  #layers = {};
  #maps = [];
  #middle = toWorld([48.865, 2.34]);
  #zoom = 11;
  #theme;
  #hear = [];
  #frame = 0;
  #touched = () => {};

  constructor(container, theme) {
    this.#theme = theme;
    this.#canvas.className = "plain-map";
    this.#canvas.tabIndex = 0;
    this.#canvas.setAttribute("role", "region");
    this.#canvas.setAttribute("aria-label", "Map: arrow keys move it, plus and minus zoom");
    container.append(this.#canvas);
    container.dataset.ready = "true";
    this.#listen();
  }

  #listen() {
    let grip = null;
    this.#canvas.addEventListener("pointerdown", (event) => {
      grip = [event.clientX, event.clientY];
      this.#touched();
      this.#canvas.setPointerCapture(event.pointerId);
    });
    this.#canvas.addEventListener("pointermove", (event) => {
      if (!grip) return;
      this.#pan(grip[0] - event.clientX, grip[1] - event.clientY);
      grip = [event.clientX, event.clientY];
    });
    const drop = () => (grip = null);
    this.#canvas.addEventListener("pointerup", drop);
    this.#canvas.addEventListener("pointercancel", drop); // the browser scrolls the page instead
    this.#canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.#touched();
      this.#zoomBy(-event.deltaY / 300);
    }, { passive: false });
    this.#canvas.addEventListener("keydown", (event) => {
      if (STEPS[event.key]) this.#pan(...STEPS[event.key]);
      else if (event.key === "+" || event.key === "=") this.#zoomBy(0.5);
      else if (event.key === "-") this.#zoomBy(-0.5);
      else return;
      this.#touched();
      event.preventDefault();
    });
  }

  #pan(dx, dy) {
    const scale = 2 ** this.#zoom;
    this.#middle = [this.#middle[0] + dx / scale, this.#middle[1] + dy / scale];
    this.#moved();
  }

  #zoomBy(step) {
    this.#zoom = Math.min(18, Math.max(1, this.#zoom + step));
    this.#moved();
  }

  #moved() {
    for (const act of this.#hear) act();
    this.#redraw();
  }

  #size() {
    return [this.#canvas.clientWidth || 1, this.#canvas.clientHeight || 1];
  }

  set(id, features) {
    this.#layers[id] = features;
    this.#redraw();
  }

  setTheme(theme) {
    this.#theme = theme;
    this.#redraw();
  }

  async setBackdrop() {}

  /** Draw map files under everything else. */
  async setGround(maps) {
    this.#maps = maps;
    this.#redraw();
  }

  project(point) {
    const [x, y] = toWorld(point);
    const [w, h] = this.#size();
    const scale = 2 ** this.#zoom;
    return { x: (x - this.#middle[0]) * scale + w / 2, y: (y - this.#middle[1]) * scale + h / 2 };
  }

  unproject(x, y) {
    const [w, h] = this.#size();
    const scale = 2 ** this.#zoom;
    const [x0, y0] = this.#middle;
    return fromWorld([(x - w / 2) / scale + x0, (y - h / 2) / scale + y0]);
  }

  bounds() {
    const [w, h] = this.#size();
    const [north, west] = this.unproject(0, 0);
    const [south, east] = this.unproject(w, h);
    return [[south, west], [north, east]];
  }

  fit([southWest, northEast], padding) {
    const [a, b] = [toWorld(southWest), toWorld(northEast)];
    const [w, h] = this.#size();
    const room = Math.min(
      Math.max(w - 2 * padding, 40) / (b[0] - a[0]), Math.max(h - 2 * padding, 40) / (a[1] - b[1]));
    this.#zoom = Math.min(18, Math.max(1, Math.log2(room)));
    this.#middle = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
    this.#moved();
  }

  get camera() {
    const [lat, lng] = fromWorld(this.#middle);
    return { center: { lat, lng }, zoom: this.#zoom };
  }

  set camera({ center, zoom }) {
    this.#middle = toWorld([center.lat, center.lng]);
    this.#zoom = zoom;
    this.#moved();
  }

  get width() {
    return this.#size()[0];
  }

  onTouch(act) {
    this.#touched = act;
  }

  /** Call `act` with the point in degrees and in pixels when the map is clicked. */
  onClick(act) {
    let begun = [NaN, NaN];
    this.#canvas.addEventListener("pointerdown", ({ offsetX: x, offsetY: y }) => (begun = [x, y]));
    this.#canvas.addEventListener("click", ({ offsetX: x, offsetY: y }) => {
      if (Math.hypot(x - begun[0], y - begun[1]) < 4) act(this.unproject(x, y), [x, y]);
    });
  }

  onMove(act) {
    this.#hear.push(act);
  }

  resize() {
    this.#moved();
  }

  #redraw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  #draw() {
    const [w, h] = this.#size();
    const dense = devicePixelRatio || 1;
    this.#canvas.width = w * dense;
    this.#canvas.height = h * dense;
    const pen = this.#canvas.getContext("2d");
    pen.scale(dense, dense);
    if (this.#maps.length) {
      drawBackground(pen, this.#maps, { ...this.camera, width: w, height: h }, this.#theme);
    } else {
      pen.fillStyle = THEMES[this.#theme].ground;
      pen.fillRect(0, 0, w, h);
    }
    pen.lineJoin = "round";
    for (const id of ORDER) for (const one of this.#layers[id] ?? []) this.#trace(pen, one);
  }

  #trace(pen, { geometry: { type, coordinates }, properties: told }) {
    const at = ([lon, lat]) => this.project([lat, lon]);
    pen.beginPath();
    pen.globalAlpha = told.opacity ?? 1;
    if (type === "Point") {
      const { x, y } = at(coordinates);
      pen.arc(x, y, told.radius, 0, 2 * Math.PI);
    } else {
      for (const point of type === "Polygon" ? coordinates[0] : coordinates) {
        const { x, y } = at(point);
        pen.lineTo(x, y);
      }
    }
    if (type !== "LineString") {
      pen.fillStyle = told.color;
      pen.fill();
    }
    pen.strokeStyle = type === "LineString" ? told.color : told.edge;
    pen.lineWidth = type === "Polygon" ? 0.5 : told.width ?? 1;
    pen.setLineDash(told.dashed ? [6, 4] : []);
    pen.stroke();
    pen.globalAlpha = 1;
  }
}
