// What went wrong, in a sentence with a way on; and questions that are asked in a dialog.

import { $, hide } from "./state.js";

/** Tell what went wrong; `again` is offered as a button. Nothing else on the screen changes. */
export function trouble(words, again = null) {
  $("trouble-words").textContent = words;
  $("trouble").hidden = false;
  $("trouble-retry").hidden = !again;
  $("trouble-retry").onclick = again && (() => {
    calm();
    void again();
  });
  $("trouble").scrollIntoView({ block: "nearest" });
}

export function calm() {
  hide("trouble", "build");
}

/** Ask in a dialog whose way out "yes" agrees. */
export function ask(id, agreed) {
  const dialog = $(id);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const yes = dialog.returnValue === "yes";
      if (yes) agreed();
      resolve(yes);
    }, { once: true });
  });
}
