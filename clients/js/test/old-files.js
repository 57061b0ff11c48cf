// Reads files of earlier versions from a folder: mechanisms, movement models and the client's ledgers.
// Run by tests/test_old_files.py, which says what is in the folder; prints the names of what was read.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readMechanism, readMovement, Reporter } from "../whereish.js";

const folder = process.argv[2];
const content = (name) => readFileSync(join(folder, name));
const HERE = [48.85, 2.33];
const NOW = 1.8e12;
const first = await readMechanism(content("mechanism-1-first"), { warn: false });
const read = [];
for (const old of JSON.parse(content("index.json"))) {
  if (old.kind === "mechanism") {
    const mechanism = await readMechanism(content(old.name), { ...(old.key && { key: old.key }), warn: false });
    assert.equal(mechanism.epsilon, 1.07, old.name);
    mechanism.report(...HERE);
  } else if (old.kind === "movement") {
    readMovement(JSON.parse(content(old.name)));
  } else if (old.kind === "client-ledger") {
    const kept = JSON.parse(content(old.name));
    const storage = { getItem: (name) => kept[name] ?? null, setItem: (name, value) => (kept[name] = value) };
    const reporter = new Reporter(first, storage, { budget: 5, period: "day", clock: () => NOW });
    assert.ok(Math.abs(reporter.state.spent - old.spent) < 1e-12, old.name);
    const { cost } = reporter.report(...HERE);
    assert.ok(Math.abs(reporter.state.spent - old.spent - cost) < 1e-12, old.name);
  } else continue;
  read.push(old.name);
}
process.stdout.write(JSON.stringify(read));
