// Error messages that say what to do next, and questions in a dialog.

import { $, hide } from "./state.js";

/** Show an error message, with a button that calls `again`. Nothing else on the page changes. */
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

/** Open a dialog. If it is closed with "yes", call `agreed`. Resolves to whether it was. */
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
