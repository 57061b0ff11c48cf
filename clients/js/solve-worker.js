// Runs one solve of solve.js in a worker: a module worker of a browser, or a thread of Node.js.

import { run } from "./solve/core.js";
import { checked } from "./solve/program.js";
import { serve } from "./solve/threads.js";

await serve(({ options, module }, onProgress, isStopped) => {
  const answer = run(module, checked(options), onProgress, isStopped);
  const { matrix, multipliers } = answer;
  return { answer, moved: [matrix, ...Object.values(multipliers)].map((array) => array.buffer) };
});
