// Who asks. A site is the origin of the page. A frame of another origin is a site of its own below
// that of the page: maps.example in a page of news.example has its own level, reports and budget.

const originOf = (address) => {
  try {
    const { origin } = new URL(address);
    return origin === "null" ? null : origin;
  } catch {
    return null;
  }
};

/** The site that sent a message. The browser fills in `sender`; the page has no part in it. */
export function siteOf(sender) {
  const frame = sender.origin === undefined ? originOf(sender.url) : originOf(sender.origin);
  const top = sender.frameId === 0 ? frame : originOf(sender.tab?.url);
  return { top, frame, name: nameOf(top, frame), isTop: frame !== null && frame === top };
}

export function nameOf(top, frame) {
  if (top === null) return frame ?? "a page without an origin";
  if (frame === top) return top;
  return `${frame ?? "a sandboxed frame"} in ${top}`;
}

/** Whether a site is the page of this origin, or a frame in it. */
export const belongsTo = (name, top) => name === top || name.endsWith(` in ${top}`);

/** The pattern of all addresses of an origin. Ports are left out: Firefox has none in patterns. */
export function patternOf(origin) {
  const { protocol, hostname } = new URL(origin);
  return `${protocol}//${hostname}/*`;
}

export const EVERYWHERE = ["http://*/*", "https://*/*"];

/** The patterns of the protected sites. */
export function patternsOf({ scope, chosen }) {
  if (scope === "all") return EVERYWHERE;
  return scope === "chosen" ? [...new Set(chosen.map(patternOf))] : [];
}

export function isProtected({ scope, chosen }, origin) {
  if (!origin || !/^https?:/.test(origin)) return false;
  return scope === "all" ||
    (scope === "chosen" && chosen.some((one) => patternOf(one) === patternOf(origin)));
}
