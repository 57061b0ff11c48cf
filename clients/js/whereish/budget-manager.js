// Budget managers of the predictive mechanism: the cost of a test and of a draw, and a threshold. The
// constants are those of the authors' code (PETS 2014), as in src/whereish/device/budget_manager.py.
import {
  CHEAP_TEST, CHEAP_THRESHOLD, ETA_RATE, ETA_UTILITY, LARGEST, LARGEST_EPSILON, QUANTILE_DRAW,
  QUANTILE_TEST, RHO, SMALLEST_EPSILON,
} from "./constants.js";
import { InputError } from "./errors.js";
import { units } from "./ledger.js";
import { F64, freeze, own, U64 } from "./primordials.js";

const isPositive = (value) => typeof value === "number" && value > 0 && value <= LARGEST;
const isEpsilon = (value) =>
  typeof value === "number" && value >= SMALLEST_EPSILON && value <= LARGEST_EPSILON;

function checkPositive(name, value) {
  if (!isPositive(value)) throw new InputError(`${name} must be a number above 0`);
}

/** A manager whose numbers are checked: { epsilonDraw, epsilonTest, threshold }. */
export function checkedManager(given) {
  const epsilonDraw = own(given, "epsilonDraw", null);
  const epsilonTest = own(given, "epsilonTest", null);
  const threshold = own(given, "threshold", null);
  if (!isEpsilon(epsilonDraw) || !isEpsilon(epsilonTest)) {
    throw new InputError(
      `epsilonDraw and epsilonTest of a manager must be numbers from ${SMALLEST_EPSILON} to ${LARGEST_EPSILON}`,
    );
  }
  checkPositive("threshold of a manager", threshold);
  return freeze({ epsilonDraw, epsilonTest, threshold });
}

/** e_t / e_N. */
const testShare = (eta, rho) => (QUANTILE_TEST / QUANTILE_DRAW) * eta * (1 + 1 / rho);

/** For a mechanism of this epsilon: e_t = eta (c_t / c_N) (1 + 1 / rho) e_N and l = c_t / (rho e_t). */
function forDraw(epsilonDraw, eta = ETA_UTILITY, rho = RHO) {
  checkPositive("eta", eta);
  checkPositive("rho", rho);
  const epsilonTest = epsilonDraw * testShare(eta, rho);
  return checkedManager({ epsilonDraw, epsilonTest, threshold: QUANTILE_TEST / (rho * epsilonTest) });
}

/** With cheaper tests than the authors': e_t = e_N / 5 and l = 1.25 / e_t. */
function cheapTests(epsilonDraw) {
  const epsilonTest = CHEAP_TEST * epsilonDraw;
  return checkedManager({ epsilonDraw, epsilonTest, threshold: CHEAP_THRESHOLD / epsilonTest });
}

/** Draws are within a radius in 9 of 10 cases: e_N = c_N / radius. */
function fixedUtility(radius, eta = ETA_UTILITY, rho = RHO) {
  checkPositive("radius", radius);
  return forDraw(QUANTILE_DRAW / radius, eta, rho);
}

/** A budget lasts for so many reports, a share `easy` of which need no draw. */
function fixedRate(budget, reports, easy, eta = ETA_RATE, rho = RHO) {
  checkPositive("budget", budget);
  checkPositive("reports", reports);
  checkPositive("eta", eta);
  checkPositive("rho", rho);
  if (!(typeof easy === "number" && easy >= 0 && easy <= 1)) {
    throw new InputError("easy must be a share from 0 to 1");
  }
  return forDraw(budget / reports / (1 - easy + testShare(eta, rho)), eta, rho);
}

export const BudgetManager = freeze({ forDraw, cheapTests, fixedUtility, fixedRate });

const value = new F64(1);
const bits = new U64(value.buffer);

/** The next double after a positive one. */
function nextUp(number) {
  value[0] = number;
  bits[0] += 1n;
  return value[0];
}

/**
 * What a step may cost, as doubles that mean their decimal digits: a draw, a test, and their sum,
 * rounded up. Python's ledger counts the same amounts.
 */
export function pricesOf(draw, test) {
  let both = draw + test;
  while (units(both) < units(draw) + units(test)) both = nextUp(both);
  return freeze({ draw, test, both });
}
