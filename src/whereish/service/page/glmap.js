// The map drawn by MapLibre GL: camera, layers, background. Its worker is a file of this service,
// so the content security policy needs neither blob: nor eval.

import { THEMES } from "./scene.js";
import { mapLibreLayers } from "./vendor/map/layers.js";

const EMPTY = { type: "FeatureCollection", features: [] };
const SOURCES = ["net", "water", "cells", "usual", "rings", "dots"];
const get = (name, otherwise) => ["coalesce", ["get", name], otherwise];

function style(theme) {
  const lines = (id, dashed) => ({
    id: dashed ? `${id}-dashed` : id, type: "line", source: id,
    filter: dashed ? ["==", get("dashed", false), true] : ["!=", get("dashed", false), true],
    layout: { "line-cap": dashed ? "butt" : "round", "line-join": "round" },
    paint: {
      "line-color": get("color", "#888"), "line-width": get("width", 1),
      "line-opacity": get("opacity", 1), ...(dashed ? { "line-dasharray": [2.5, 1.5] } : {}),
    },
  });
  const points = (id) => ({
    id, type: "circle", source: id,
    paint: {
      "circle-color": get("color", "#888"), "circle-radius": get("radius", 3),
      "circle-stroke-color": get("edge", "#000"), "circle-stroke-width": get("width", 1),
      "circle-stroke-opacity": get("opacity", 1),
    },
  });
  return {
    version: 8,
    sources: Object.fromEntries(SOURCES.map((id) => [id, {
      type: "geojson", data: EMPTY, tolerance: 0,
    }])),
    layers: [
      { id: "ground", type: "background", paint: { "background-color": THEMES[theme].ground } },
      lines("net"),
      {
        id: "cells", type: "fill", source: "cells",
        paint: {
          "fill-color": get("color", "#888"), "fill-opacity": get("opacity", 0.9),
          "fill-antialias": false,
        },
      },
      {
        id: "cells-edge", type: "line", source: "cells",
        paint: { "line-color": get("edge", "#888"), "line-width": 0.6, "line-opacity": 0.45 },
      },
      lines("water"), points("usual"), lines("rings"), lines("rings", true), points("dots"),
    ],
  };
}

export class GlMap {
  drawsTiles = true;
  onTileError = null;
  #map;
  #ready = false;
  #waiting = {};
  #backdrop = [];
  #maps = [];
  #data = {}; // of the sources of #maps: one that stays is not read again
  #ground = { sources: [], layers: [] };
  #behind; // the colour where nothing of #maps is drawn: the sea
  #isDrawn = true; // what was added last
  #theme;

  constructor(maplibre, container, theme, { cooperative = false } = {}) {
    this.#theme = theme;
    this.#map = new maplibre.Map({
      container, style: style(theme), attributionControl: false, cooperativeGestures: cooperative,
      dragRotate: false, pitchWithRotate: false, touchPitch: false, maxPitch: 0,
      renderWorldCopies: false, fadeDuration: 0, minZoom: 1, maxZoom: 18,
      center: [2.34, 48.865], zoom: 11,
    });
    this.#map.touchZoomRotate.disableRotation();
    this.#map.addControl(new maplibre.NavigationControl({ showCompass: false }), "top-right");
    this.#map.getCanvas()
      .setAttribute("aria-label", "Map: arrow keys move it, plus and minus zoom");
    this.#map.on("load", () => {
      this.#ready = true;
      for (const [id, features] of Object.entries(this.#waiting)) this.set(id, features);
      container.dataset.ready = "true";
    });
    // A tile that cannot be loaded does not stop the page: a note beside the switch says so.
    this.#map.on("error", (event) => {
      if (event.sourceId === "backdrop") this.onTileError?.();
      else console.info(`the map: ${event.error?.message}`);
    });
  }

  set(id, features) {
    if (!this.#ready) this.#waiting[id] = features;
    else this.#map.getSource(id)?.setData({ type: "FeatureCollection", features });
  }

  setTheme(theme) {
    this.#theme = theme;
    void this.setGround(this.#maps);
  }

  /** Draw map files under everything else. */
  async setGround(maps) {
    this.#maps = maps;
    if (!this.#ready) await this.#map.once("load");
    if (this.#maps !== maps) return; // another call has come meanwhile
    for (const id of this.#ground.layers) this.#map.removeLayer(id);
    const { sources, layers, behind } = mapLibreLayers(maps, this.#theme);
    for (const id of this.#ground.sources) {
      if (this.#map.getSource(id) && sources[id]?.data !== this.#data[id]) {
        this.#map.removeSource(id);
      }
    }
    const isNew = Object.entries(sources).some(([id, { data }]) => this.#data[id] !== data);
    this.#data = {};
    for (const [id, source] of Object.entries(sources)) {
      if (!this.#map.getSource(id)) this.#map.addSource(id, source);
      this.#data[id] = source.data;
    }
    const above = this.#backdrop[0] ?? "net";
    for (const layer of layers) this.#map.addLayer(layer, above);
    this.#ground = { sources: Object.keys(sources), layers: layers.map(({ id }) => id) };
    this.#behind = maps.length ? behind : THEMES[this.#theme].ground;
    if (isNew) {
      this.#isDrawn = false;
      this.#map.once("idle", () => {
        this.#isDrawn = true;
        this.#paintBehind();
      });
    }
    this.#paintBehind();
  }

  /** Land is drawn later than its layers are added: until then, a town would lie in the sea. */
  #paintBehind() {
    const colour = this.#isDrawn ? this.#behind : THEMES[this.#theme].ground;
    this.#map.setPaintProperty("ground", "background-color", colour);
  }

  /** Put a background `{ source, layers }` under all other layers; null removes it. */
  async setBackdrop(backdrop) {
    if (!this.#ready) await this.#map.once("load");
    for (const id of this.#backdrop) this.#map.removeLayer(id);
    this.#backdrop = [];
    if (this.#map.getSource("backdrop")) this.#map.removeSource("backdrop");
    if (!backdrop) return;
    this.#map.addSource("backdrop", backdrop.source);
    for (const layer of backdrop.layers) {
      this.#map.addLayer({ ...layer, source: "backdrop" }, "net");
      this.#backdrop.push(layer.id);
    }
  }

  project([lat, lon]) {
    return this.#map.project([lon, lat]);
  }

  unproject(x, y) {
    const { lat, lng } = this.#map.unproject([x, y]);
    return [lat, lng];
  }

  bounds() {
    const b = this.#map.getBounds();
    return [[b.getSouth(), b.getWest()], [b.getNorth(), b.getEast()]];
  }

  fit([[south, west], [north, east]], margin) {
    const { clientWidth: w, clientHeight: h } = this.#map.getContainer();
    if (!w || !h) return; // the map is hidden: it is fitted when it is shown
    const padding = Math.min(margin, w / 8, h / 8);
    this.#map.fitBounds([[west, south], [east, north]], { padding, animate: false });
  }

  get camera() {
    return { center: this.#map.getCenter(), zoom: this.#map.getZoom() };
  }

  set camera(camera) {
    this.#map.jumpTo(camera);
  }

  get width() {
    return this.#map.getContainer().clientWidth;
  }

  onTouch(act) {
    this.#map.on("movestart", (event) => event.originalEvent && act());
  }

  /** Call `act` with the point in degrees and in pixels when the map is clicked. */
  onClick(act) {
    this.#map.on("click", ({ lngLat, point }) => act([lngLat.lat, lngLat.lng], [point.x, point.y]));
  }

  onMove(act) {
    this.#map.on("move", act);
    this.#map.on("resize", act);
  }

  resize() {
    this.#map.resize();
  }
}
