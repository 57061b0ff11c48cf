// Answers the questions of tests/test_client.py: what does this client make of a file?
import { readFileSync } from "node:fs";
import { accuracyKm, project, readMechanism } from "../whereish.js";

const asked = JSON.parse(readFileSync(0, "utf8"));
const content = readFileSync(asked.file);
const answer = {};
const mechanism = await readMechanism(content);
answer.epsilon = mechanism.epsilon;
answer.shape = [mechanism.places, mechanism.reports];
answer.row = mechanism.countsOf(0).map(String);
answer.draws = asked.draws.map(([place, bits]) => mechanism.draw(place, BigInt(bits)));
answer.outputs = [...new Set(answer.draws)].map((z) => mechanism.output(z));
answer.points = asked.points.map(([lat, lon]) => mechanism.locate(lat, lon));
answer.projected = asked.points.map(([lat, lon]) => project(mechanism.plane, lat, lon));
answer.accuracyKm = accuracyKm(mechanism);
// Every byte changed, every length cut: none may pass.
answer.passed = [];
for (const at of asked.flips) {
  const spoiled = new Uint8Array(content);
  spoiled[at] ^= 1 << at % 8;
  await readMechanism(spoiled).then(() => answer.passed.push(at), () => {});
}
for (const length of asked.cuts) {
  await readMechanism(content.subarray(0, length)).then(() => answer.passed.push(-length), () => {});
}
process.stdout.write(JSON.stringify(answer));
