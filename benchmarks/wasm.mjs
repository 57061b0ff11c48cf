// Times the solver as WebAssembly: run by benchmarks/wasm.py in Node.js and in a page of Chromium.

/**
 * Seconds for each program: `first` solve in a worker (the module is compiled before it, and not yet
 * optimised), the best solve in a worker with its start, the best in the calling thread, and the
 * best time of the core itself. One thread each.
 */
export async function timed(solver, programs, repeats) {
  const rows = [];
  for (const program of programs) {
    const times = { worker: [], here: [], core: [] };
    let solution;
    for (let i = 0; i < repeats; i++) {
      for (const [name, how] of [["worker", solver.solve], ["here", solver.solveHere]]) {
        const begun = performance.now();
        solution = await how(program);
        times[name].push((performance.now() - begun) / 1000);
        times.core.push(solution.seconds);
      }
    }
    const best = ([name, all]) => [name, Math.min(...all)];
    rows.push({
      first: times.worker[0],
      ...Object.fromEntries(Object.entries(times).map(best)),
      loss: solution.loss,
      gap: solution.gap,
      stopped: solution.stopped,
    });
  }
  return rows;
}

if (globalThis.process?.argv[2] === "--node") {
  const { readFileSync } = await import("node:fs");
  const solver = await import("../clients/js/solve.js");
  const { programs, repeats } = JSON.parse(readFileSync(0, "utf8"));
  process.stdout.write(JSON.stringify(await timed(solver, programs, repeats)));
}
