// The background map: tiles (off by default) or a map file of whereish map. It comes from the
// settings of the service, or from a file of this device, which is read here and not sent anywhere.

import { SERVICE } from "./state.js";
import { looksLikeMap, readMap } from "./vendor/map/background.js";

let protocol = null; // a promise of the pmtiles protocol, once it is requested

/** Load pmtiles, a classic script, when it is first needed. */
function archives() {
  protocol ??= load().catch((wrong) => {
    protocol = null; // the next call tries again
    throw wrong;
  });
  return protocol;
}

async function load() {
  await new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL("vendor/pmtiles.js", import.meta.url);
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error("pmtiles.js could not be loaded")));
    document.head.append(script);
  });
  const maplibre = await import("./vendor/maplibre-gl.mjs");
  const made = new globalThis.pmtiles.Protocol();
  maplibre.addProtocol("pmtiles", made.tile);
  return made;
}

/** A text that says what a tile server learns. */
export function whoLearns(tiles) {
  if (tiles?.kind === "geojson") {
    return "The background map is a file of this service, which the page loads as a whole: no " +
      "server learns which part of it you look at.";
  }
  if (!tiles) {
    const none = SERVICE
      ? "This service has no background map (see whereish map, and whereish serve --map). "
      : "This page has no background map; a map of whereish map can be opened. ";
    return none + "Coasts and large rivers are from Natural Earth, towns from GeoNames (CC BY 4.0); they come with " +
      "this page. A tile server learns which part of the world you look at, from which network address, and when. That " +
      "can be enough to find out where you live, so the background map is off by default.";
  }
  const where = new URL(tiles.url.replaceAll(/[{}]/g, "_"), location.href);
  if (where.origin === location.origin) {
    return "The background map comes from this service. The service learns which part of the map " +
      "you look at; no other server does. The position of the pin is not sent.";
  }
  return `The background map comes from ${where.host}. That server learns which part of the ` +
    "world you look at, from which network address, and when. The position of the pin is not " +
    "sent, but people often look at the area where they live.";
}

/** The source and layers of the background map that the service has set. */
export async function fromService(tiles) {
  if (tiles.kind === "geojson") {
    const answer = await fetch(tiles.url);
    if (!answer.ok) throw new Error(`the service answered with ${answer.status}`);
    return fromText(await answer.text());
  }
  if (tiles.kind === "pmtiles") {
    const url = new URL(tiles.url, location.href).href;
    const known = await archives();
    const archive = new globalThis.pmtiles.PMTiles(url);
    known.add(archive);
    const made = await backdrop(archive, url);
    return { ...made, credit: tiles.attribution || made.credit };
  }
  return {
    credit: tiles.attribution,
    source: {
      type: "raster", tiles: [new URL(tiles.url, location.href).href.replaceAll("%7B", "{")
        .replaceAll("%7D", "}")], tileSize: 256, maxzoom: 19,
    },
    layers: [{ id: "backdrop-raster", type: "raster", paint: { "raster-saturation": -0.4 } }],
  };
}

/** The source and layers of a file of this device. */
export async function fromFile(file) {
  if (isMapName(file.name)) return fromText(await file.text());
  const known = await archives();
  const { PMTiles, FileSource } = globalThis.pmtiles;
  const archive = new PMTiles(new FileSource(file));
  known.add(archive);
  return backdrop(archive, file.name);
}

function fromText(text) {
  const map = readMap(text);
  return { credit: map.attribution, map };
}

/** Whether the name of a background map is that of a map file, and not of tiles. */
export const isMapName = (name) => /\.(geo)?json$/i.test(name);

/** Whether a file is a map file, and not traces in GeoJSON. */
export async function isMapFile(file) {
  return isMapName(file.name) && looksLikeMap(await file.slice(0, 400).text());
}

/** The map of the world: coasts, large rivers, towns. Null if it cannot be loaded. */
export async function world() {
  try {
    const answer = await fetch(new URL("vendor/world.geojson", import.meta.url));
    return answer.ok ? readMap(await answer.text()) : null;
  } catch {
    return null;
  }
}

async function backdrop(archive, name) {
  const header = await archive.getHeader();
  const common = { url: `pmtiles://${name}` };
  const { vector_layers: known = [], attribution } =
    (await archive.getMetadata().catch(() => null)) ?? {};
  const credit = new DOMParser().parseFromString(attribution ?? "", "text/html").body.textContent;
  if (header.tileType !== 1) {
    return {
      credit,
      source: { type: "raster", ...common, tileSize: 256 },
      layers: [{ id: "backdrop-raster", type: "raster", paint: { "raster-saturation": -0.4 } }],
    };
  }
  const layers = known.flatMap(({ id }) => plain(id));
  return { credit, source: { type: "vector", ...common }, layers };
}

/** A pale style for a layer of a vector map: no text, because text needs fonts. */
function plain(id) {
  const layer = (type, paint) => [
    { id: `backdrop-${type}-${id}`, type, "source-layer": id, paint },
  ];
  if (/water|ocean|lake|river/i.test(id)) {
    return [
      ...layer("fill", { "fill-color": "#7fa8c9", "fill-opacity": 0.45 }),
      ...layer("line", { "line-color": "#7fa8c9", "line-opacity": 0.45 }),
    ];
  }
  if (/road|transport|street|highway|path/i.test(id)) {
    return layer("line", { "line-color": "#8a8678", "line-width": 0.8, "line-opacity": 0.7 });
  }
  if (/building/i.test(id)) return layer("fill", { "fill-color": "#8a8678", "fill-opacity": 0.2 });
  if (/land|park|wood|grass|natural/i.test(id)) {
    return layer("fill", { "fill-color": "#7c9a6a", "fill-opacity": 0.14 });
  }
  return [];
}
