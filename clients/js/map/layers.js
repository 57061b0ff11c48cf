// The same map as layers of MapLibre, which draws large maps faster than a 2D canvas.

import { COLOURS, TOWN, WORLD } from "./style.js";

const named = (rule) =>
  ["all", ["==", ["get", "kind"], rule.kind], ["==", ["get", "class"], rule.name]];

function layer(rule, source, colours) {
  const [minzoom, maxzoom] = rule.zooms;
  const common = {
    id: `${source}-${rule.kind}-${rule.name}`, source, filter: named(rule), minzoom, maxzoom,
  };
  const colour = colours[rule.colour];
  if (rule.type === "fill") {
    return { ...common, type: "fill", paint: { "fill-color": colour } };
  }
  return {
    ...common, type: "line",
    layout: { "line-cap": rule.dash ? "butt" : "round", "line-join": "round" },
    paint: {
      "line-color": colour,
      "line-width": ["interpolate", ["linear"], ["zoom"], ...rule.widths.flat()],
      ...(rule.dash ? { "line-dasharray": rule.dash } : {}),
    },
  };
}

const corner = ([west, south, east, north]) => ({
  type: "Feature", properties: {},
  geometry: {
    type: "Polygon",
    coordinates: [[[west, south], [east, south], [east, north], [west, north], [west, south]]],
  },
});

/**
 * The sources and layers of maps, from the bottom to the top, and the colour behind them:
 * { sources: { id: source }, layers: [...], behind }.
 */
export function mapLibreLayers(maps, theme) {
  const colours = COLOURS[theme];
  const sources = {};
  const layers = [];
  const ordered = [...maps].sort((a, b) => b.isWorld - a.isWorld);
  ordered.forEach((map, k) => {
    const id = `ground-${k}`;
    sources[id] = { type: "geojson", data: map.document, maxzoom: 16 };
    if (!map.isWorld) {
      sources[`${id}-cover`] = { type: "geojson", data: corner(map.bbox) };
      layers.push({
        id: `${id}-cover`, type: "fill", source: `${id}-cover`,
        paint: { "fill-color": colours.ground, "fill-antialias": false },
      });
    }
    for (const rule of map.isWorld ? WORLD : TOWN) layers.push(layer(rule, id, colours));
  });
  const behind = maps.some(({ isWorld }) => isWorld) ? colours.water : colours.ground;
  return { sources, layers, behind };
}
