// Works for the service worker (Chromium): asks the device for its position, and builds mechanisms.
import { api } from "./lib/api.js";
import { fileForVisits } from "./lib/building.js";
import { askHere } from "./lib/device.js";
import { toText } from "./lib/mechanisms.js";

const WORK = {
  position: ({ timeout }) => askHere(timeout),
  build: async ({ visits, epsilon }) => {
    const { bytes, accuracyKm } = await fileForVisits(visits, epsilon);
    return { text: toText(bytes), accuracyKm };
  },
};

api.runtime.onMessage.addListener((message, sender, reply) => {
  if (sender.tab || !Object.hasOwn(WORK, message?.offscreen)) return false;
  WORK[message.offscreen](message).then(reply, () => reply({ error: 2 }));
  return true;
});
