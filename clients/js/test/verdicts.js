// Says of every file of a folder whether the client takes it, and by which error it refuses it.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const [client, folder] = process.argv.slice(2);
const { readMechanism } = await import(client);
const said = {};
for (const name of readdirSync(folder)) {
  try {
    const mechanism = await readMechanism(readFileSync(join(folder, name)), { warn: false });
    said[name] = mechanism.epsilon === null ? "taken, without an epsilon" : "taken";
  } catch (wrong) {
    said[name] = wrong.constructor.name;
  }
}
process.stdout.write(JSON.stringify(said));
