// Plain HTML on top of a map: the pin, names of quarters, degrees, a scale bar. It needs no map
// fonts, and the pin can be focused with the keyboard.

import { kmPerDegree } from "./geo.js";
import { NAMES } from "./vendor/map/style.js";
import { placeNames } from "./vendor/map/background.js";
import { metres } from "./words.js";

const ARROWS = {
  ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1],
};

function make(kind, name, text = "") {
  const made = document.createElement(kind);
  made.className = name;
  made.textContent = text;
  return made;
}

export class Overlay {
  #map;
  #layer = make("div", "overlay");
  #names = [];
  #maps = [];
  #labels = []; // elements for the names of the maps, which are used again
  #degrees = [];
  #scale = make("div", "scale-rule");
  #pin = make("button", "pin");
  #at = null;
  #dragging = false;

  /** Calls `moved(latlon)` during a drag, `dropped()` at its end, `stepped(dx, dy)` for a key. */
  constructor(map, container, { moved, dropped, stepped }) {
    this.#map = map;
    this.#pin.type = "button";
    this.#pin.hidden = true;
    this.#pin.append(make("span", "pin-head"));
    this.#scale.setAttribute("role", "img");
    this.#layer.append(this.#scale, this.#pin);
    container.append(this.#layer);
    this.#pin.addEventListener("keydown", (event) => {
      if (!ARROWS[event.key]) return;
      event.preventDefault();
      stepped(...ARROWS[event.key]);
    });
    this.#drag(moved, dropped);
    map.onMove(() => this.place());
  }

  #drag(moved, dropped) {
    const pin = this.#pin;
    let grip = [0, 0];
    pin.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !this.#at) return;
      event.preventDefault();
      pin.focus({ preventScroll: true });
      pin.setPointerCapture(event.pointerId);
      const { x, y } = this.#map.project(this.#at);
      grip = [event.clientX - x, event.clientY - y];
      this.#dragging = true;
      pin.classList.add("held");
    });
    pin.addEventListener("pointermove", (event) => {
      if (!this.#dragging) return;
      const { clientWidth: w, clientHeight: h } = this.#layer;
      const x = Math.min(Math.max(event.clientX - grip[0], 0), w);
      const y = Math.min(Math.max(event.clientY - grip[1], 0), h);
      this.#at = this.#map.unproject(x, y);
      this.place();
      moved(this.#at);
    });
    const drop = () => {
      if (!this.#dragging) return;
      this.#dragging = false;
      pin.classList.remove("held");
      dropped();
    };
    pin.addEventListener("pointerup", drop);
    pin.addEventListener("pointercancel", drop);
    pin.addEventListener("lostpointercapture", drop);
  }

  get dragging() {
    return this.#dragging;
  }

  /** Move the pin, and set its label for screen readers. */
  setPin(latlon, label) {
    this.#at = latlon;
    this.#pin.hidden = !latlon;
    this.#pin.setAttribute("aria-label", label);
    this.place();
  }

  setNames(names) {
    for (const { element } of this.#names) element.remove();
    this.#names = names.map(({ name, latlon }) => ({
      element: make("span", "name", name), latlon,
    }));
    this.#layer.prepend(...this.#names.map(({ element }) => element));
    this.place();
  }

  /** Show the names of map files. */
  setMaps(maps) {
    this.#maps = maps;
    this.place();
  }

  setDegrees({ parallels, meridians }) {
    for (const { element } of this.#degrees) element.remove();
    this.#degrees = [
      ...parallels.map(({ lat, text }) => ({ element: make("span", "degree west", text), lat })),
      ...meridians.map(({ lon, text }) => ({ element: make("span", "degree north", text), lon })),
    ];
    this.#layer.prepend(...this.#degrees.map(({ element }) => element));
    this.place();
  }

  /** Update the screen position of every element. */
  place() {
    const put = (element, x, y) => {
      element.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;
    };
    const [[south, west], [north]] = this.#map.bounds();
    const middle = (south + north) / 2;
    const { clientWidth: width, clientHeight: height } = this.#layer;
    const taken = [[width - 56, 0, width, 90]]; // the zoom buttons
    /** Show a label at (x, y) if it overlaps no other; `letter` is the width of one in pixels. */
    const room = (element, x, y, letter) => {
      const box = [x, y, x + element.textContent.length * letter, y + 15];
      element.hidden = taken.some(([left, top, right, bottom]) =>
        box[0] < right && box[2] > left && box[1] < bottom && box[3] > top);
      if (!element.hidden) taken.push(box);
    };
    if (this.#at) {
      const { x, y } = this.#map.project(this.#at);
      put(this.#pin, x, y);
      taken.push([x - 15, y - 38, x + 15, y + 2]);
    }
    for (const { element, latlon } of this.#names) {
      const { x, y } = this.#map.project(latlon);
      put(element, x, y);
      room(element, x - element.textContent.length * 3.6, y - 4, 7.2);
    }
    this.#label(taken, put, width, height);
    for (const { element, lat, lon } of this.#degrees) {
      const { x, y } = this.#map.project([lat ?? middle, lon ?? west]);
      const [left, top] = lat === undefined ? [x, 0] : [0, y];
      put(element, left, top);
      room(element, left + 5, lat === undefined ? top + 5 : top - 17, 6.6);
      // The labels of meridians are at the top, the title of the map is at the bottom.
      element.hidden ||= lat !== undefined && (y < 40 || y > height - 30);
    }
    this.#rule(middle);
  }

  /** Show the names of the maps that have room. */
  #label(taken, put, width, height) {
    const view = { ...this.#map.camera, width, height };
    const most = Math.max(12, Math.round((width * height) / 12000));
    const placed = this.#maps.length ? placeNames(this.#maps, view, taken, most) : [];
    while (this.#labels.length < placed.length) {
      const made = make("span", "map-name");
      this.#labels.push(made);
      this.#layer.prepend(made);
    }
    this.#labels.forEach((element, k) => {
      element.hidden = k >= placed.length;
      if (element.hidden) return;
      const { name, class: kind, x, y, px } = placed[k];
      if (element.textContent !== name) element.textContent = name;
      element.dataset.colour = NAMES[kind].colour;
      element.style.fontSize = `${px}px`;
      put(element, x, y);
    });
  }

  #rule(lat) {
    const a = this.#map.unproject(0, 0);
    const b = this.#map.unproject(100, 0);
    const km = Math.abs(b[1] - a[1]) * kmPerDegree(Math.min(Math.abs(lat), 85))[1];
    if (!(km > 0)) return;
    const power = 10 ** Math.floor(Math.log10(km));
    const round = [5, 2, 1].find((step) => step * power <= km) * power;
    this.#scale.style.width = `${((100 * round) / km).toFixed(1)}px`;
    this.#scale.textContent = round < 1 ? `${Math.round(round * 1000)} m` : `${round} km`;
    this.#scale.setAttribute("aria-label", `Scale: this bar is ${metres(round)}`);
  }
}
