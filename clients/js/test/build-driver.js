// Builds mechanisms in Node.js: one for each line of standard input, an object with the options of
// buildPlaces or buildEverywhere and the `file` to write. The answers are lines of JSON.
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { buildEverywhere, buildPlaces } from "../build.js";

for await (const line of createInterface({ input: process.stdin })) {
  const { file, ...options } = JSON.parse(line);
  let answer;
  try {
    const make = options.places ? buildPlaces : buildEverywhere;
    const { bytes, mechanism, build } = await make({ here: true, ...options });
    if (file) writeFileSync(file, bytes);
    answer = { build, digest: mechanism.digest };
  } catch (error) {
    answer = { error: error.constructor.name, message: error.message };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
