// Shared by all file readers: times, the cells of tables, and the error class.

/** A file cannot be used. The message says what must hold, what was found, and what to do. */
export class TraceError extends Error {}

/** An empty cell is NaN here, because Number("") is 0 in JavaScript. */
export const filled = (text) => (text === undefined || text.trim() === "" ? NaN : text);

/** Milliseconds since 1970, or NaN if the value is not a time. A time without an offset is UTC. */
export function asTime(value) {
  if (typeof value === "number" || /^\s*\d{9,}(\.\d+)?\s*$/.test(value ?? "")) {
    const number = Number(value);
    return number >= 1e17 ? number / 1e6 : number >= 1e14 ? number / 1e3
      : number >= 1e11 ? number : number * 1000;
  }
  // A date without a time of day is not a time.
  if (typeof value !== "string" || !/\d[T ]\d/.test(value)) return NaN;
  const text = value.trim().replaceAll("/", "-").replace(" ", "T")
    .replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)/, "$1-$2-$3T$4:$5:$6");
  return Date.parse(/(Z|[+-]\d\d:?\d\d)$/i.test(text) ? text : `${text}Z`);
}
