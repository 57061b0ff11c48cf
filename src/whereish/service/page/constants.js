// Written by tools/page_constants.py from the constants of the library: do not edit.

export const METHODS_WITHOUT_PRIOR = ["tight-constraints", "planar-laplace", "exponential"];
