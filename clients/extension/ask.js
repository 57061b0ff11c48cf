// The question of the first request of a site: which level does it get?
import { $, levelButtons, shortly, wired } from "./lib/dom.js";
import { LOOK_ALIKE, SUGGESTED } from "./lib/levels.js";
import { changeSettings } from "./lib/settings.js";

const site = new URLSearchParams(location.search).get("site");
const [frame, top] = site.split(" in ");
let chosen = SUGGESTED;
$("site").textContent = shortly(frame);
$("inside").hidden = !top;
$("inside").textContent = top ? `It is a frame in a page of ${shortly(top)}.` : "";
$("alike").textContent = LOOK_ALIKE;
$("tell").addEventListener("click", async () => {
  await changeSettings((now) => { now.sites[site] = chosen; });
  close();
});
$("refuse").addEventListener("click", () => close());
await levelButtons($("levels"), chosen, (level) => (chosen = level));
wired(); // not before: nobody consents to a level that is not shown
