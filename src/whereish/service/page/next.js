// What to do with a downloaded file: four short instructions, as elements.

import { SERVICE } from "./state.js";

/** `page` of the documentation is linked where that is beside this page: there is no server then. */
function item(title, text, page = null, command = null) {
  const made = document.createElement("li");
  const head = document.createElement("b");
  head.textContent = title;
  made.append(head, ` ${text}`);
  if (page && !SERVICE) {
    const guide = document.createElement("a");
    guide.href = `../${page}/`;
    guide.textContent = "How to get it";
    made.append(" ", guide);
  }
  if (command) {
    const line = document.createElement("pre");
    line.textContent = command;
    line.tabIndex = 0;
    made.append(line);
  }
  return made;
}

/** The elements for a file of this name. A name with special characters is quoted for a shell. */
export function whatNext(name, mechanism) {
  const file = /^[\w.-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`;
  const title = document.createElement("h3");
  title.textContent = "What to do with the file";
  const list = document.createElement("ul");
  list.append(
    item("In the browser extension:", "open its options, press “Import a .whereish file”, and choose it. " +
      "Sites that ask for your location then get reports.", "extension"),
    item("On a phone:", "copy the file to it by cable or over your own network. Open this page " +
      "there, press “Open a file”, then “Use where I am now” and “Draw one report”, and pass on " +
      "that report. Other apps on the phone still get the true location."),
    item("In your app or site:", "read it with the JavaScript client, and hand on what the " +
      "Reporter returns. The digest pins the file.", "client",
    "const mechanism = await readMechanism(bytes,\n" +
      `  { sha256: "${mechanism.digest}" });\n` +
      "new Reporter(mechanism, storage, { newPlaces: 3 })"),
    item("On the command line:", "the first command checks the file, the second one asks for a " +
      "position and prints a report.", "cli",
    `whereish audit ${file}\nwhereish report ${file} --ledger mine.ledger --new-places 3`),
  );
  const last = document.createElement("p");
  last.className = "small";
  last.textContent = "Keep the file to yourself: most of the prior can be computed from it. Send " +
    "reports, never the file.";
  return [title, list, last];
}
