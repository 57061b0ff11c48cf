// The layers as GeoJSON. Every feature has its colours, so both kinds of map draw the same.

import { graticule, line, offset, ring, square } from "./geo.js";

// A likelier cell differs more from the background: darker in the light theme, brighter in the dark
// one. Both scales are monotone in lightness (ColorBrewer's YlGnBu, and viridis), so they can be
// read without seeing colours.
const RAMPS = {
  light: ["#fcfcf7", "#edf6bf", "#c7e9b4", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#253494",
    "#101f5c"],
  dark: ["#171c2b", "#2c2a55", "#3f4889", "#31688e", "#26838f", "#1f9d8a", "#35b779", "#90d743",
    "#fde725"],
};

export const THEMES = {
  light: {
    ground: "#f3f1ea", net: "#d5d1c4", river: "#b9d3e6", edge: "#8d8a7e", casing: "#ffffff",
    hidden: "#c2371c", reach: "#1a2330", dot: "#ffb02e", dotEdge: "#3a2600", usual: "#5f5b50",
  },
  dark: {
    ground: "#10141d", net: "#262d3b", river: "#223a54", edge: "#5d6576", casing: "#0b0e14",
    hidden: "#ff8a66", reach: "#f2f4f8", dot: "#ffb02e", dotEdge: "#1c1300", usual: "#aeb6c6",
  },
};

const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** The colour of a share between 0 and `most`. A square root makes small shares visible. */
export function heat(share, most, theme) {
  const ramp = RAMPS[theme];
  const at = Math.sqrt(Math.min(Math.max(share / most, 0), 1)) * (ramp.length - 1);
  const low = Math.min(Math.floor(at), ramp.length - 2);
  const [a, b] = [parts(ramp[low]), parts(ramp[low + 1])];
  return `rgb(${a.map((v, i) => Math.round(v + (b[i] - v) * (at - low))).join(",")})`;
}

/** The upper end of the scale: a round share not below the largest. */
export function roundUp(share) {
  const rounds = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1];
  return rounds.find((round) => share <= round * 1.0001) ?? 1;
}

const feature = (type, coordinates, properties) => ({
  type: "Feature", geometry: { type, coordinates }, properties,
});

/** Cells if their size is known, otherwise discs that do not touch. */
export function cells(
  points, cellKm, discKm, shares, most, theme, seeThrough, { edged = true } = {},
) {
  return points.map((point, z) => feature(
    "Polygon",
    [cellKm ? square(point, cellKm) : ring(point, discKm, 32)],
    {
      color: heat(shares[z], most, theme),
      edge: edged ? THEMES[theme].edge : heat(shares[z], most, theme),
      // On a background map, cells that are rarely reported are more transparent.
      opacity: seeThrough ? 0.25 + 0.5 * Math.sqrt(Math.min(shares[z] / most, 1)) : 0.92,
    },
  ));
}

export function ground(box, width, { lines, earth }, theme) {
  const { net, river } = THEMES[theme];
  const [[south, west], [north, east]] = box;
  const { parallels, meridians } = graticule(box, width, earth !== false);
  const across = (points, properties) => feature("LineString", line(points), properties);
  return {
    features: [
      ...parallels.map(({ lat }) => across([[lat, west], [lat, east]], { color: net, width: 1 })),
      ...meridians.map(({ lon }) => across([[south, lon], [north, lon]], { color: net, width: 1 })),
    ],
    water: lines.map((points) => across(points, { color: river, width: 7, opacity: 0.6 })),
    labels: { parallels, meridians },
  };
}

/** The two circles, each with an outline so that it is visible on every cell. */
export function circles(place, hiddenKm, reachKm, theme) {
  const { hidden, reach, casing } = THEMES[theme];
  const both = [[hiddenKm, hidden, false], [reachKm, reach, true]];
  return both.filter(([km]) => km > 0).flatMap(([km, color, dashed]) => [
    feature("LineString", ring(place, km), { color: casing, width: 5, opacity: 0.75 }),
    feature("LineString", ring(place, km), { color, width: 2.5, opacity: 1, dashed }),
  ]);
}

/** The prior: a larger circle is a likelier place. */
export function usual(points, prior, theme) {
  const { usual: color } = THEMES[theme];
  return points.flatMap((point, x) => prior && prior[x] > 0.002
    ? [feature("Point", [point[1], point[0]], {
        color: "rgba(0,0,0,0)", edge: color, width: 1.25, opacity: 0.75,
        radius: 1.5 + 11 * Math.sqrt(prior[x]),
      })]
    : []);
}

/** The report that somebody sees: larger than a drawn one. */
export function seenReport([lat, lon], theme) {
  const { dot, dotEdge } = THEMES[theme];
  return feature("Point", [lon, lat], { color: dot, edge: dotEdge, width: 3, radius: 9, opacity: 1 });
}

/** Drawn reports. Reports of one place form a spiral around it, so that each is visible. */
export function dots(drawn, points, spreadKm, theme, last) {
  const { dot, dotEdge, casing } = THEMES[theme];
  const seen = new Map();
  const found = drawn.map((z, number) => {
    const k = seen.get(z) ?? 0;
    seen.set(z, k + 1);
    const away = spreadKm * Math.min(1, Math.sqrt(k / 40));
    const turn = k * 2.39996;
    const [lat, lon] = offset(points[z], away * Math.cos(turn), away * Math.sin(turn));
    const latest = last && number === drawn.length - 1;
    return feature("Point", [lon, lat], {
      color: dot, edge: latest ? casing : dotEdge, width: latest ? 2.5 : 1,
      radius: latest ? 8 : 4, opacity: 1,
    });
  });
  return found;
}
