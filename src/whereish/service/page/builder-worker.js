// Builds mechanisms one after the other, in a thread of its own. The worker stays: a build neither
// loads nor compiles anything again, so it works without a network, too.

import { buildEverywhere, buildPlaces } from "./vendor/build.js";

const BUILDS = { places: buildPlaces, everywhere: buildEverywhere };

let last = Promise.resolve();

async function run({ id, kind, options }) {
  try {
    const onProgress = (progress) => postMessage({ id, progress });
    const { bytes, build } = await BUILDS[kind]({ ...options, here: true, onProgress });
    postMessage({ id, bytes, build }, [bytes.buffer]);
  } catch (wrong) {
    postMessage({ id, wrong: wrong?.message || String(wrong) });
  }
}

addEventListener("message", ({ data }) => {
  last = last.then(() => run(data));
});
