// The map of the options page: the region, the places and the last reports, on the page's canvas map.
import { circles, dots, ground, usual } from "../shared/scene.js";
import { box } from "../shared/geo.js";
import { Overlay } from "../shared/overlay.js";
import { PlainMap } from "../shared/plainmap.js";
import { readMap } from "../shared/vendor/map/background.js";

// Coasts, lakes and large rivers of Natural Earth and towns of GeoNames, a file of the extension.
const WORLD = new URL("../shared/vendor/world.geojson", import.meta.url);

const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => (dark.matches ? "dark" : "light");

/** A map in a container. `clicked(latlon)` is called for a click that is no drag. */
export function drawMap(container, clicked) {
  const map = new PlainMap(container, theme());
  const overlay = new Overlay(map, container, { moved() {}, dropped() {}, stepped() {} });
  const repaint = () => {
    const found = ground(map.bounds(), map.width, { lines: [] }, theme());
    map.set("net", found.features);
    overlay.setDegrees(found.labels);
  };
  map.onMove(repaint);
  const drawWorld = async () => {
    const world = [readMap(await (await fetch(WORLD)).text())];
    overlay.setMaps(world);
    await map.setGround(world);
  };
  drawWorld().catch(() => {}); // an extension that was built without it has a map of lines only
  dark.addEventListener("change", () => map.setTheme(theme()));
  addEventListener("resize", () => map.resize());
  let from = null;
  container.addEventListener("pointerdown", (event) => (from = [event.clientX, event.clientY]));
  container.addEventListener("click", (event) => {
    if (!from || Math.hypot(event.clientX - from[0], event.clientY - from[1]) > 4) return;
    const { left, top } = container.getBoundingClientRect();
    clicked(map.unproject(event.clientX - left, event.clientY - top));
  });
  const show = ({ region, places, prior, reports }) => {
    map.set("rings", region ? circles([region.lat, region.lon], 0, region.km, theme()) : []);
    map.set("usual", places ? usual(places, prior, theme()) : []);
    map.set("dots", dots(reports.map((_, i) => i), reports, 0, theme(), false));
  };
  const fit = ({ lat, lon, km }) => {
    map.fit(box([[lat, lon]], km * 1.15), 10);
    repaint();
  };
  const fitWorld = () => {
    map.fit([[-56, -170], [72, 180]], 0);
    repaint();
  };
  return { show, fit, fitWorld };
}
