// Written by tools/page_constants.py from the constants of the library: do not edit.

export const TOLERANCE = 1e-06;
export const EVERYWHERE_TOLERANCE = 1e-05;
export const BOUND_TOLERANCE = 0.0001;
export const VERTICES = 600;
export const LEAST_VERTICES = 4;
export const MOST_VERTICES = 10000;
export const UNUSED = 1e-10;
export const UNUSED_ON_LATTICE = 1e-07;
export const LARGEST_MIX = 0.01;
export const LARGEST_EXPONENT = 700.0;
export const ROUNDING_ERROR = 4e-15;
export const MIX_GROWTH = 8.0;
export const LOST = 9.094947017729282e-13;
export const PRUNING_ROOM = 5.684341886080802e-14;
export const FAINTEST = 1e-200;
