// The region of the first mechanism. The person chooses it; it is never taken from a position: a
// region that depends on where the device is would tell on which side of a border it is.
// The suggestion comes from the time zone, which every site can read anyway.

export const RADII_KM = [15, 25, 50, 100];
export const RADIUS_KM = 25;

/** Large towns: name, latitude, longitude. Others are chosen on the map. */
const TOWNS = `Abidjan 5.35 -4.03|Accra 5.56 -0.2|Addis Ababa 9.02 38.75|Algiers 36.75 3.06|Amman 31.95 35.93
Amsterdam 52.37 4.9|Ankara 39.93 32.86|Athens 37.98 23.73|Auckland -36.85 174.76|Baghdad 33.31 44.37
Baku 40.41 49.87|Bangkok 13.75 100.5|Barcelona 41.39 2.17|Beijing 39.9 116.4|Beirut 33.89 35.5
Belgrade 44.79 20.45|Berlin 52.52 13.4|Bogota 4.65 -74.08|Boston 42.36 -71.06|Brasilia -15.79 -47.88
Bratislava 48.15 17.11|Brisbane -27.47 153.03|Brussels 50.85 4.35|Bucharest 44.43 26.1|Budapest 47.5 19.04
Buenos Aires -34.6 -58.38|Cairo 30.04 31.24|Calgary 51.05 -114.07|Cape Town -33.92 18.42|Caracas 10.49 -66.88
Casablanca 33.57 -7.59|Chicago 41.88 -87.63|Cologne 50.94 6.96|Colombo 6.93 79.85|Copenhagen 55.68 12.57
Dakar 14.69 -17.44|Dallas 32.78 -96.8|Dar es Salaam -6.79 39.21|Delhi 28.61 77.21|Denver 39.74 -104.99
Dhaka 23.81 90.41|Dubai 25.2 55.27|Dublin 53.35 -6.26|Edinburgh 55.95 -3.19|Frankfurt 50.11 8.68
Geneva 46.2 6.15|Glasgow 55.86 -4.25|Hamburg 53.55 10.0|Hanoi 21.03 105.85|Havana 23.11 -82.37
Helsinki 60.17 24.94|Ho Chi Minh 10.78 106.7|Hong Kong 22.32 114.17|Houston 29.76 -95.37|Istanbul 41.01 28.98
Jakarta -6.21 106.85|Jerusalem 31.77 35.21|Johannesburg -26.2 28.05|Karachi 24.86 67.01|Kathmandu 27.72 85.32
Khartoum 15.5 32.56|Kinshasa -4.32 15.31|Kolkata 22.57 88.36|Kuala Lumpur 3.14 101.69|Kyiv 50.45 30.52
Lagos 6.52 3.38|Lima -12.05 -77.04|Lisbon 38.72 -9.14|Ljubljana 46.06 14.51|London 51.51 -0.13
Los Angeles 34.05 -118.24|Luanda -8.84 13.23|Lyon 45.76 4.84|Madrid 40.42 -3.7|Manila 14.6 120.98
Marseille 43.3 5.37|Melbourne -37.81 144.96|Mexico City 19.43 -99.13|Miami 25.76 -80.19|Milan 45.46 9.19
Minsk 53.9 27.57|Montevideo -34.9 -56.19|Montreal 45.5 -73.57|Moscow 55.76 37.62|Mumbai 19.08 72.88
Munich 48.14 11.58|Nairobi -1.29 36.82|Naples 40.85 14.27|New York 40.71 -74.01|Osaka 34.69 135.5
Oslo 59.91 10.75|Ottawa 45.42 -75.7|Paris 48.86 2.35|Perth -31.95 115.86|Phoenix 33.45 -112.07
Porto 41.16 -8.63|Prague 50.08 14.44|Quito -0.18 -78.47|Reykjavik 64.15 -21.94|Riga 56.95 24.11
Rio de Janeiro -22.91 -43.17|Riyadh 24.71 46.68|Rome 41.9 12.5|Rotterdam 51.92 4.48|San Francisco 37.77 -122.42
Santiago -33.45 -70.67|Sao Paulo -23.55 -46.63|Sarajevo 43.86 18.41|Seattle 47.61 -122.33|Seoul 37.57 126.98
Shanghai 31.23 121.47|Singapore 1.35 103.82|Skopje 42.0 21.43|Sofia 42.7 23.32|Stockholm 59.33 18.07
Stuttgart 48.78 9.18|Sydney -33.87 151.21|Taipei 25.03 121.57|Tallinn 59.44 24.75|Tbilisi 41.72 44.79
Tehran 35.69 51.39|Tel Aviv 32.08 34.78|Tirana 41.33 19.82|Tokyo 35.68 139.69|Toronto 43.65 -79.38
Tunis 36.81 10.18|Vancouver 49.28 -123.12|Vienna 48.21 16.37|Vilnius 54.69 25.28|Warsaw 52.23 21.01
Washington 38.91 -77.04|Zagreb 45.81 15.98|Zurich 47.37 8.54`
  .split(/[|\n]/).map((line) => {
    const words = line.split(" ");
    const [lat, lon] = words.splice(-2).map(Number);
    return { name: words.join(" "), lat, lon };
  });

export const townNames = TOWNS.map(({ name }) => name);

export const townOf = (name) =>
  TOWNS.find((town) => town.name.toLowerCase() === name.trim().toLowerCase()) ?? null;

/** The town of a time zone such as Europe/Paris, or null. */
export const suggestedTown = (zone) => townOf(zone.split("/").at(-1).replaceAll("_", " "));
