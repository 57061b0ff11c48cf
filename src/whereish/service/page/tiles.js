// The background map: off until somebody sets it. From the service's own settings, or from a
// PMTiles file of this device, which is read in place and sent nowhere.

let protocol = null; // of pmtiles, once it has come: a promise

/** pmtiles is an ordinary script: it is fetched when it is first needed. */
function archives() {
  protocol ??= load().catch((wrong) => {
    protocol = null; // the next one tries again
    throw wrong;
  });
  return protocol;
}

async function load() {
  await new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/assets/vendor/pmtiles.js";
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error("pmtiles.js could not be loaded")));
    document.head.append(script);
  });
  const maplibre = await import("./vendor/maplibre-gl.mjs");
  const made = new globalThis.pmtiles.Protocol();
  maplibre.addProtocol("pmtiles", made.tile);
  return made;
}

/** What a tile server learns, in a sentence. */
export function whoLearns(tiles) {
  if (!tiles) {
    return "None is set on this service (whereish serve --tiles). A tile server learns which " +
      "part of the world is looked at, from which address, and when: that alone can tell where " +
      "somebody lives. So it is off until somebody sets it.";
  }
  const where = new URL(tiles.url.replaceAll(/[{}]/g, "_"), location.href);
  if (where.origin === location.origin) {
    return "It comes from this service, which learns which part of the map is looked at, and " +
      "nobody else does. The pin is not sent.";
  }
  return `It comes from ${where.host}, which learns which part of the world you look at, from ` +
    "which address, and when. The pin is not sent, but where one looks often tells where " +
    "one lives.";
}

/** A source and its layers for what the service has set. */
export async function fromService(tiles) {
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

/** The same from a file of this device. */
export async function fromFile(file) {
  const known = await archives();
  const { PMTiles, FileSource } = globalThis.pmtiles;
  const archive = new PMTiles(new FileSource(file));
  known.add(archive);
  return backdrop(archive, file.name);
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

/** Quiet shapes for whatever layers a vector map has: no text, so no fonts. */
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
