// Runs one build of build.js in a worker: a module worker of a browser, or a thread of Node.js.

import { fileOf } from "./build/files.js";
import { serve } from "./solve/threads.js";

await serve(({ kind, options, module }, onProgress, isStopped) => {
  const answer = fileOf(kind, options, module, onProgress, isStopped);
  return { answer, moved: [answer.bytes.buffer] };
});
