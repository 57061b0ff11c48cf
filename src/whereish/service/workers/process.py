"""The process that solves one recipe: ``python -m whereish.service.workers.process``.

It reads a line of limits and a recipe from standard input, and answers with lines of JSON on
standard output, the last of which is followed by the bytes of the file. It ends when its standard
input does, so that it never outlives its server. Nothing personal is in its arguments, its
environment, a file or what it prints.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
import traceback
from typing import Any

# How much the answering of requests goes before warming up, and before solving.
_WARMING, _SOLVING = 5, 14


def main() -> None:
    """Solve one recipe."""
    # What any library prints must not get between the lines.
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.nice(_WARMING)
    _be_the_first_to_go()
    leave_no_core()

    def say(document: dict[str, Any], then: bytes = b"") -> None:
        answer.write(json.dumps(document).encode() + b"\n" + then)
        answer.flush()

    try:
        warm_up()
    except BaseException as wrong:
        say({"broken": told(wrong)["message"]})
        os._exit(4)
    say({"ready": True})
    line = sys.stdin.buffer.readline()
    if not line:
        os._exit(0)
    order = json.loads(line)
    recipe = sys.stdin.buffer.read(order["length"])
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    try:
        os.nice(_SOLVING)
        _limit_memory(order["memory_gb"])
        file, result = solve(recipe, order["memory_gb"], say)
        say({"file": len(file), "result": result}, file)
    except BaseException as wrong:
        say({"error": told(wrong)})
    answer.close()
    os._exit(0)


def solve(body: bytes, memory_gb: float, say: Any) -> tuple[bytes, dict[str, Any]]:
    """Build what a recipe says, certify it, and audit the certified bytes once more."""
    from whereish.format import audit_bytes, mechanism_bytes
    from whereish.measures import quality_loss
    from whereish.spec import Recipe

    start, last, iteration = time.perf_counter(), 0.0, None

    def progress(now: Any) -> None:
        nonlocal last, iteration
        iteration = now.iteration
        if time.perf_counter() - last > 0.1:
            last = time.perf_counter()
            say({"progress": far(now.iteration, now.loss, now.gap)})

    def far(iteration: int | None, loss: float, gap: float | None) -> dict[str, Any]:
        return {
            "iteration": iteration,
            "loss_km": float(loss),
            "gap": None if gap is None else float(gap),
            "elapsed_s": round(time.perf_counter() - start, 3),
        }

    recipe = Recipe.from_json(body)
    mechanism = recipe.build(memory_limit_gb=memory_gb, progress=progress)
    file = mechanism_bytes(mechanism, recipe.prior if recipe.keep_prior else None)
    audited = audit_bytes(file)
    if not audited["certified"]:
        raise RuntimeError("a mechanism without an epsilon")
    build = mechanism.build
    gap = None if recipe.prior_blur else build.gap  # of a blurred prior, it is not the loss's
    result = far(iteration, quality_loss(mechanism, recipe.prior, recipe.quality), gap)
    return file, result | {"solver": build.solver, "stopped": build.stopped}


def told(wrong: BaseException) -> dict[str, Any]:
    """Say what went wrong without a number of anybody's."""
    from whereish.errors import GuaranteeError, InputError, SolveError

    if isinstance(wrong, InputError):
        # Numbers in brackets are positions; others may be distances or probabilities.
        scrubbed = re.sub(r"(?<![\[\w.])-?\d[\d.]*(e[-+]?\d+)?(?![\]\w])", "…", str(wrong))
        field = wrong.field or re.split(r"\W", str(wrong), maxsplit=1)[0]
        return {"code": "invalid", "message": scrubbed, "field": field}
    if isinstance(wrong, SolveError):
        return {"code": "not_solved", "message": str(wrong), "field": None}
    if isinstance(wrong, GuaranteeError):
        message = "the mechanism found is not as private as it must be, and is withheld"
        return {"code": "not_private", "message": message, "field": None}
    if isinstance(wrong, MemoryError):
        message = "it needs more memory than is allowed: try fewer places, or a dilation"
        return {"code": "memory", "message": message, "field": "places"}
    # Where it happened, and what kind: never its text, which may hold anything.
    frames = traceback.extract_tb(wrong.__traceback__)
    where = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    message = f"something unexpected went wrong ({type(wrong).__name__} at {where})"
    return {"code": "internal", "message": message, "field": None}


def warm_up() -> None:
    """Load and compile what a solve needs, before there is one."""
    import numpy as np

    from whereish.format import audit_bytes, mechanism_bytes
    from whereish.spec import Recipe

    steps = np.arange(16)
    places = np.column_stack([48 + 0.01 * (steps % 4), 2 + 0.013 * (steps // 4)])
    document = {
        "places": {"latlon": places.tolist()},
        "prior": np.full(16, 1 / 16).tolist(),
        "epsilon_per_km": 1.0,
        "solver": "structured",
    }
    audit_bytes(mechanism_bytes(Recipe.from_document(document).build()))


def _end_with_the_server() -> None:
    """Wait for the end of standard input, which is the end of the server, or its wish."""
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGKILL)  # and what a solver has started


def _limit_memory(memory_gb: float) -> None:
    try:
        import resource

        with open("/proc/self/statm") as stream:
            now = int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        # Besides what is estimated: threads, solvers that are loaded late, and copies.
        most = now + int((1.5 * memory_gb + 1) * 1e9)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    except (ImportError, OSError, ValueError):
        return


def leave_no_core() -> None:
    """See to it that no dump of this process's memory is ever written."""
    try:
        import ctypes
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    except (ImportError, OSError, ValueError, AttributeError):
        return


def _be_the_first_to_go() -> None:
    """When the machine runs out of memory, a solve goes before the server does."""
    try:
        with open("/proc/self/oom_score_adj", "w") as stream:
            stream.write("1000")
    except OSError:
        return


if __name__ == "__main__":
    main()
