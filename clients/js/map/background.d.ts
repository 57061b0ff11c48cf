// Types of background.js: the map under one's own data.

export type Theme = "light" | "dark";

/** Web Mercator: a world of 512 * 2 ** zoom pixels, as MapLibre has it. */
export interface View {
  center: { lat: number; lng: number };
  zoom: number;
  width: number;
  height: number;
}

export interface MapName {
  name: string;
  class: string;
  x: number;
  y: number;
}

/** A map file that was read. Show `attribution` wherever it is drawn. */
export interface Background {
  attribution: string;
  bbox: [west: number, south: number, east: number, north: number];
  isWorld: boolean;
  names: MapName[];
  layers: {
    kind: string;
    name: string;
    lines: { xy: Float64Array; bounds: [number, number, number, number] }[];
  }[];
  document: object;
}

export interface PlacedName {
  name: string;
  class: string;
  x: number;
  y: number;
  px: number;
}

export function toWorld(lon: number, lat: number): [number, number];
export function looksLikeMap(head: string): boolean;
export function readMap(given: string | object): Background;
export function drawBackground(
  context: CanvasRenderingContext2D, maps: Background[], view: View, theme: Theme,
): void;
export function placeNames(
  maps: Background[], view: View, taken?: [number, number, number, number][], most?: number,
): PlacedName[];
export function drawNames(
  context: CanvasRenderingContext2D, placed: PlacedName[], theme: Theme,
): void;
export function creditOf(maps: Background[]): string;
