// The files that can be built, by kind.

import { everywhereFile } from "./everywhere.js";
import { placesFile } from "./places.js";

const KINDS = { places: placesFile, everywhere: everywhereFile };

/** Return { bytes, build } of a file of this kind. */
export const fileOf = (kind, ...rest) => KINDS[kind](...rest);
