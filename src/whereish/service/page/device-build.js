// Builds on this device: the worker, and what the page knows about the result. Nothing is sent.

import { Cancelled } from "./api.js";
import { PLACES_HERE, POINTS_HERE } from "./limits.js";
import { certificateIn, otherLossIn } from "./measures.js";
import { SERVICE } from "./state.js";
import { readMechanism } from "./vendor/whereish.js";
import { count, some } from "./words.js";

/** What to do about a request that is not built on this device. */
export const ELSEWHERE = SERVICE
  ? "Choose “By the service” to build it there, or fewer places."
  : "Choose fewer places, or build it with whereish build on your computer.";

const GRACE_MS = 1000; // a cancelled build that takes longer is ended with its worker

let worker = null;
let lastId = 0;
const waiting = new Map(); // by number: { job, resolve, reject, told }

/** Start the worker, so that its files are loaded while there is a network. */
export function prepare() {
  if (worker) return;
  worker = new Worker(new URL("builder-worker.js", import.meta.url),
    { type: "module", name: "whereish-builder" });
  worker.addEventListener("message", ({ data: { id, ...answer } }) => {
    const one = waiting.get(id);
    if (!one) return; // it was cancelled
    if (answer.progress) {
      one.told(answer.progress);
      return;
    }
    waiting.delete(id);
    if (answer.wrong) one.reject(new Error(answer.wrong));
    else one.resolve(answer);
  });
  worker.addEventListener("error", (event) => {
    event.preventDefault();
    worker = null;
    for (const { reject } of waiting.values()) {
      reject(new Error("The solver could not be loaded. Reload this page while there is a network"));
    }
    waiting.clear();
  });
}

/** End the worker and give the other builds to a new one. */
function restart() {
  worker?.terminate();
  worker = null;
  prepare();
  for (const { job } of waiting.values()) worker.postMessage(job);
}

function inWorker(kind, options, { signal, told }) {
  prepare();
  const id = ++lastId;
  const job = { id, kind, options };
  return new Promise((resolve, reject) => {
    let done = false;
    const end = (act) => (value) => {
      done = true;
      act(value);
    };
    waiting.set(id, { job, told, resolve: end(resolve), reject: end(reject) });
    worker.postMessage(job);
    signal.addEventListener("abort", () => {
      if (done) return;
      reject(new Cancelled("cancelled"));
      // The worker cannot hear while it computes. A short build is left to end, unheard.
      waiting.get(id).told = () => {};
      setTimeout(() => {
        if (done) return;
        waiting.delete(id);
        restart();
      }, GRACE_MS);
    }, { once: true });
  });
}

/** Why a request cannot be built on this device: a sentence, or null if it can. */
export function whyNotHere({ profile, everywhere }) {
  const number = everywhere ? profile.visits.weights.length : profile.latlon.length;
  const most = everywhere ? POINTS_HERE : PLACES_HERE;
  if (profile.earth === false) {
    return SERVICE ? "Places without coordinates on the earth are built by the service only."
      : "Places without coordinates on the earth are not built by this page.";
  }
  if (number <= most) return null;
  const what = everywhere ? "visited point" : "place";
  return `${some(number, what)} are more than the ${count(most)} that this page builds on a ` +
    "device: a browser would take too long.";
}

/** Build a request `{ profile, everywhere, noise, epsilon, dilation }` and audit the file. */
export async function buildHere(request, { signal, told }) {
  const { profile, everywhere, noise = false, epsilon, dilation } = request;
  const { latlon, prior, cellKm, visits } = profile;
  const points = everywhere ? visits : { latlon, weights: prior };
  const [kind, options] = everywhere || noise
    ? ["everywhere", {
        points: points.latlon, weights: Array.from(points.weights), epsilon,
        method: noise ? "planar-laplace" : "auto",
      }]
    : ["places", { places: latlon, prior: Array.from(prior), epsilon, cellKm, dilation }];
  const begun = performance.now();
  const step = ({ iteration, gap = NaN, loss }) => told(iteration === undefined ? {} : {
    progress: { iteration, gap, loss_km: loss, elapsed_s: (performance.now() - begun) / 1000 },
  });
  const { bytes, build } = await inWorker(kind, options, { signal, told: step });
  const mechanism = await readMechanism(bytes, { warn: false });
  if (signal.aborted) throw new Cancelled("cancelled");
  const certificate = {
    ...certificateIn(bytes), other_loss_km: build.otherLossKm ?? otherLossIn(bytes),
    quality_loss_km: build.lossKm, lower_bound_km: build.lowerBoundKm, gap: build.gap,
    stopped: build.stopped, seconds: build.seconds,
  };
  return { mechanism, bytes, certificate, where: "device" };
}
