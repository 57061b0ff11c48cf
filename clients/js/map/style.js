// How each class of a map file is drawn: one table for the canvas and for MapLibre.

/** Colours of both themes. `ground` is the land of the page's own themes. */
export const COLOURS = {
  light: {
    ground: "#f3f1ea", water: "#bcd5e4", park: "#dbe6cd", wood: "#d0dfc1", grass: "#e1e8d3",
    rail: "#b5b1aa", street: "#dcd7c9", tertiary: "#d3cdbd", secondary: "#cbc3ae",
    primary: "#c6b994", motorway: "#c2a86c", name: "#4a5058", park_name: "#4c6a3c",
    water_name: "#3f6b88", halo: "rgba(250, 249, 245, 0.9)",
  },
  dark: {
    ground: "#10141d", water: "#1e3a54", park: "#1a3024", wood: "#182b1e", grass: "#1b2b25",
    rail: "#454d5b", street: "#2b3443", tertiary: "#364051", secondary: "#414b5d",
    primary: "#555b66", motorway: "#7a6f4f", name: "#b9c0cc", park_name: "#86a878",
    water_name: "#7fa6c4", halo: "rgba(11, 14, 20, 0.9)",
  },
};

const ALWAYS = [0, 24];
const fill = (kind, name, colour, zooms = ALWAYS) => ({ type: "fill", kind, name, colour, zooms });
/** `widths` are pairs of a zoom and a width in pixels. */
const line = (kind, name, colour, zooms, widths, dash = null) =>
  ({ type: "line", kind, name, colour, zooms, widths, dash });

/** The classes of a map of a town, in the order of drawing. `zooms` says from and up to where. */
export const TOWN = [
  fill("land", "land", "ground"),
  fill("park", "grass", "grass"), fill("park", "wood", "wood"), fill("park", "park", "park"),
  fill("water", "sea", "water"), fill("water", "lake", "water"),
  line("water", "stream", "water", [12, 24], [[12, 0.6], [16, 2.5]]),
  line("water", "canal", "water", [10, 24], [[10, 0.8], [16, 5]]),
  line("water", "river", "water", [7, 24], [[7, 0.8], [11, 2], [16, 7]]),
  line("rail", "rail", "rail", [10, 24], [[10, 0.5], [16, 1.6]], [4, 3]),
  line("road", "street", "street", [11.5, 24], [[11.5, 0.4], [14, 1.6], [18, 9]]),
  line("road", "tertiary", "tertiary", [10.5, 24], [[10.5, 0.5], [14, 2.2], [18, 11]]),
  line("road", "secondary", "secondary", [9, 24], [[9, 0.5], [14, 2.8], [18, 13]]),
  line("road", "primary", "primary", [8, 24], [[8, 0.6], [14, 3.4], [18, 15]]),
  line("road", "trunk", "motorway", [6, 24], [[6, 0.6], [14, 3.6], [18, 16]]),
  line("road", "motorway", "motorway", [5, 24], [[5, 0.7], [14, 4], [18, 17]]),
];

/** The same for the map of the world: coarse, so rivers end where their error would be seen. */
export const WORLD = [
  fill("land", "land", "ground"), fill("water", "lake", "water", [0, 12]),
  line("water", "river", "water", [3, 8.5], [[3, 0.5], [8, 1.6]]),
];

/** Names: from and up to which zoom, the size of letters in pixels, and the colour. */
export const NAMES = {
  metropolis: { zooms: [2.2, 11], px: 13, colour: "name" },
  city: { zooms: [5, 15], px: 13, colour: "name" },
  town: { zooms: [7, 15], px: 12, colour: "name" },
  borough: { zooms: [10, 16], px: 12, colour: "name" },
  suburb: { zooms: [11, 17], px: 12, colour: "name" },
  village: { zooms: [10, 16], px: 11, colour: "name" },
  quarter: { zooms: [12.5, 24], px: 11, colour: "name" },
  neighbourhood: { zooms: [13, 24], px: 11, colour: "name" },
  hamlet: { zooms: [13, 24], px: 10, colour: "name" },
  park: { zooms: [12, 24], px: 11, colour: "park_name" },
  water: { zooms: [11, 24], px: 11, colour: "water_name" },
};

/** The width of a line at a zoom: linear between the pairs, constant outside of them. */
export function widthAt(widths, zoom) {
  const after = widths.findIndex(([from]) => zoom < from);
  if (after === 0) return widths[0][1];
  if (after < 0) return widths[widths.length - 1][1];
  const [[z0, w0], [z1, w1]] = [widths[after - 1], widths[after]];
  return w0 + ((zoom - z0) / (z1 - z0)) * (w1 - w0);
}
