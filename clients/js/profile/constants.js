// Written by tools/page_constants.py from the constants of the library: do not edit.

export const PLACES = 50;
export const RADIUS_KM = 25.0;
export const CELL_SIZES_M = [100, 200, 400, 800, 1600];
export const COVERAGE = 0.9;
export const FEW_POINTS = 30;
export const HEAVIEST_TILES = 2000;
export const EARTH_RADIUS_KM = 6371.0;
export const TILE_DEGREES = 0.01;
export const FAR_KM = 500.0;
export const STEP_MS = 300000;
export const POINT_CELL_KM = 0.025;
export const MERGED_CELLS = 2;
export const HEAVIEST_CLUSTERS = 200;
export const OTHER_CLUSTERS = 100;
export const EARLIEST_MS = 978307200000;
export const QUARTER_MS = 900000;
export const LONGEST_STAY_MS = 34560000000;
export const COLUMN_NAMES = {
  user: ["user", "user_id", "userid", "uid", "taxi_id", "device", "device_id"],
  time: ["time", "timestamp", "datetime", "date_time", "date", "when", "timestampms"],
  lat: ["lat", "latitude", "lat_deg", "location-lat"],
  lon: ["lon", "lng", "long", "longitude", "lon_deg", "location-long"],
};
export const TIMES_NAMES = ["coordtimes", "times", "timestamps"];
