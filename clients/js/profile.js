// Profiles on the device: places with a prior, from files of traces or from the device's own
// positions. The steps and constants are those of `whereish profile`. Nothing is sent anywhere.

export { Learner } from "./profile/learner.js";
export { profileOf } from "./profile/person.js";
export { readTraces } from "./profile/reading.js";
export { TraceError } from "./profile/values.js";
