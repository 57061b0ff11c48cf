// What the readers of files share: times, the cells of tables, and the error of a bad file.

/** A file cannot be used: what must hold, what came, what to do. */
export class TraceError extends Error {}

/** An empty cell is no number; to JavaScript it is 0. */
export const filled = (text) => (text === undefined || text.trim() === "" ? NaN : text);

/** Milliseconds since 1970; NaN if it is no time. Without an offset, a time is UTC. */
export function asTime(value) {
  if (typeof value === "number" || /^\s*\d{9,}(\.\d+)?\s*$/.test(value ?? "")) {
    const number = Number(value);
    return number >= 1e17 ? number / 1e6 : number >= 1e14 ? number / 1e3
      : number >= 1e11 ? number : number * 1000;
  }
  if (typeof value !== "string" || !/\d[T ]\d/.test(value)) return NaN; // a day alone is no time
  const text = value.trim().replaceAll("/", "-").replace(" ", "T")
    .replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)/, "$1-$2-$3T$4:$5:$6");
  return Date.parse(/(Z|[+-]\d\d:?\d\d)$/i.test(text) ? text : `${text}Z`);
}
