// Run by `npm pack` in clients/js before it packs: the licence comes from the root of the project, and
// the solver's module must have been built.
import { copyFileSync, existsSync } from "node:fs";

const client = new URL("../clients/js/", import.meta.url);
for (const name of ["dist/whereish.wasm", "dist/licences.txt"]) {
  if (!existsSync(new URL(name, client))) {
    console.error(`clients/js/${name} must be there to pack the client, and is not: run make npm, which builds it`);
    process.exit(1);
  }
}
copyFileSync(new URL("../LICENSE", import.meta.url), new URL("LICENSE", client));
