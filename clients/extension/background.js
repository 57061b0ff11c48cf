// The background: a service worker in Chromium, an event page in Firefox. It may be stopped at any
// time between two events: everything that must last is in the storage.
import { permissionState, positionFor } from "./lib/answers.js";
import { api } from "./lib/api.js";
import { showBadge } from "./lib/badge.js";
import { wireConsent } from "./lib/consent.js";
import { wireLearning } from "./lib/learning.js";
import { applyProtection } from "./lib/protection.js";
import { siteOf } from "./lib/sites.js";

const ASKED = { position: positionFor, state: permissionState };

api.runtime.onMessage.addListener((message, sender, reply) => {
  if (!sender.tab || sender.id !== api.runtime.id || !Object.hasOwn(ASKED, message?.ask)) return false;
  const { ask, allowed = null } = message;
  const whole = (value, otherwise) => (Number.isFinite(value) && value >= 0 ? value : otherwise);
  const maximumAge = whole(message.maximumAge, 0);
  const timeout = whole(message.timeout, 0xffffffff);
  const site = siteOf(sender);
  ASKED[ask](site, { allowed, maximumAge, timeout }).then(
    (told) => {
      reply(told);
      if (site.top) void showBadge(sender.tab.id, site.top);
    },
    () => reply(ask === "state" ? { state: "denied" } : { error: 2 }),
  );
  return true; // the reply comes later
});

api.runtime.onInstalled.addListener(({ reason }) => {
  void applyProtection();
  if (reason === "install") void api.tabs.create({ url: api.runtime.getURL("options.html") });
});
api.runtime.onStartup.addListener(() => void applyProtection());
api.permissions.onAdded.addListener(() => void applyProtection());
api.permissions.onRemoved.addListener(() => void applyProtection());
api.storage.onChanged.addListener((changes, area) => {
  if (area === "local" && changes.settings) void applyProtection();
});
wireConsent();
wireLearning();
// Content scripts have no access to what is stored.
api.storage.local.setAccessLevel?.({ accessLevel: "TRUSTED_CONTEXTS" });
