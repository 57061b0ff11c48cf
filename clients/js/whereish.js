// Whereish in the browser: reads a mechanism and audits it, finds the place that stands for where
// one is, and draws what to report, by the same integer comparisons as the Python library. The true
// location goes nowhere but into these functions. No dependency, no build step.

export { BudgetError, FormatError, GuaranteeError, InputError } from "./whereish/errors.js";
export { readMechanism } from "./whereish/file.js";
export { accuracyKm, Mechanism, randomBits } from "./whereish/mechanism.js";
export { project } from "./whereish/plane.js";
export { Reporter } from "./whereish/reporter.js";
export { wrapGeolocation } from "./whereish/geolocation.js";
