// Written by tools/page_constants.py from the constants of the library: do not edit.

export const VERSION = "1.0.0rc1";
export const LARGEST = 1000000000000.0;
export const MOST_PLACES = 10000;
export const SMALLEST_EPSILON = 1e-09;
export const LARGEST_EPSILON = 1000000000.0;
export const SAME_PLACE_KM = 1e-06;
export const FURTHEST_KM = 3400.0;
export const POLAR_RADIUS_KM = 6356.752314245;
export const WORTH_SAYING = 1.001;
export const TELLS_PRIOR = "This mechanism tells most of the prior it was built for to anyone who has it, even if its file does not hold the prior: epsilon limits what a report tells, not what the mechanism itself tells. Measured on ten made-up people, the counts gave it to a total variation of 0.04 to 0.26, a uniform guess being 0.58 to 0.81 off (docs/limitations.md).";
export const LARGEST_MIX = 0.01;
export const ROUNDING_ERROR = 4e-15;
export const SPARE_COUNTS = 1048576;
export const MIX_GROWTH = 8.0;
export const ROUNDED_EXPONENT = 40.0;
export const QUANTILE_DRAW = 3.88972;
export const QUANTILE_TEST = 1.60944;
export const RHO = 0.8;
export const ETA_UTILITY = 0.5;
export const ETA_RATE = 0.6;
export const CHEAP_TEST = 0.2;
export const CHEAP_THRESHOLD = 1.25;
export const TEST_EXPONENT = 36.0;
export const TEST_BELOW = 0.999999999999;
export const TEST_SPACING = 0.1;
export const TEST_BLUNT = 0.2;
export const TEST_REACH = 16.0;
export const TEST_TOLERANCE = 1e-09;
export const TEST_STEPS = 40;
export const LEAST_GAIN = 0.02;
export const SHARED_WEIGHT = 0.02;
export const METRIC_KINDS = {
  roads: ["per km along the roads", "distance along the roads, in km, given in the file for every pair of places"],
  elastic: ["per unit of the elastic metric", "elastic distance, which has no unit of length, given in the file for every pair of places"],
};
