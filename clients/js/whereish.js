// Whereish in the browser: reads and audits a mechanism, finds the place nearest to a position, and
// draws reports by the same integer comparisons as the Python library. The true location is used in
// these functions only and is never sent. No dependency, no build step.

export { BudgetManager } from "./whereish/budget-manager.js";
export { MechanismByTime } from "./whereish/by-time.js";
export { BudgetError, FormatError, GuaranteeError, InputError } from "./whereish/errors.js";
export { EverywhereMechanism } from "./whereish/everywhere.js";
export { FetchError, fetchMechanism } from "./whereish/fetch.js";
export { readMechanism } from "./whereish/file.js";
export { accuracyKm, Mechanism, randomBits } from "./whereish/mechanism.js";
export { MovementModel, readMovement } from "./whereish/movement.js";
export { project } from "./whereish/plane.js";
export { PlanarLaplaceEverywhere } from "./whereish/planar-laplace.js";
export { Reporter } from "./whereish/reporter.js";
export { Tracker } from "./whereish/tracker.js";
export { wrapGeolocation } from "./whereish/geolocation.js";
