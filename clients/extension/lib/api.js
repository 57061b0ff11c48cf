// The interface of the browser to extensions: `browser` in Firefox, `chrome` in Chromium.
export const api = globalThis.browser ?? globalThis.chrome;

/** What is stored under a name in this profile of the browser, or `otherwise`. */
export async function stored(name, otherwise) {
  return (await api.storage.local.get(name))[name] ?? otherwise;
}

export const store = (name, value) => api.storage.local.set({ [name]: value });
