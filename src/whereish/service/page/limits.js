// The limits of this page, each with its reason. Those of the service are in /v1/about, those of
// traces in the profile package.

// A build on the device is limited by the person's patience, not by memory: a solve of WebAssembly
// runs on one core (docs/architecture/measurements.md). The service has several cores and no browser.
export const PLACES_HERE = 200;
export const POINTS_HERE = 400; // visited points; traces give at most 300

// A build that takes longer is not started again at every move of the level.
export const LIVE_S = 3;
export const REST_MS = 150; // how long the level must rest before a new build

export const LARGEST_FILE = 500e6; // bytes of a mechanism file that is opened here
