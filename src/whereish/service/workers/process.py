"""The process that solves one recipe: ``python -m whereish.service.workers.process``.

It reads a line with limits and a recipe from standard input. It writes messages to standard output,
one JSON document on each line; the bytes of the file follow the last one. It ends when its standard
input is closed, so it never outlives its server. No personal data is in its arguments, its
environment, a file or a message.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from whereish.service.error_body import describe_error

Send = Callable[..., None]
# Niceness while loading and while solving: answering requests has priority over both.
_LOADING, _SOLVING = 5, 14
# What a solve imports at its first use: it is imported before a recipe arrives.
_NEEDED = (
    "flint",
    "pyproj",
    "whereish.format",
    "whereish.release.compiled_pruning",
    "whereish.spec",
)


def main() -> None:
    """Solve one recipe."""
    send = open_messages()
    os.nice(_LOADING)
    _prefer_for_oom_kill()
    disable_core_dumps()
    try:
        load()
    except BaseException as wrong:
        send({"broken": error_of(wrong)["message"]})
        os._exit(4)
    send({"ready": True})
    line = sys.stdin.buffer.readline()
    if not line:
        os._exit(0)
    order = json.loads(line)
    recipe = sys.stdin.buffer.read(order["length"])
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    try:
        os.nice(_SOLVING)
        _limit_memory(order["memory_gb"])
        file, result = solve(recipe, order["memory_gb"], send)
        send({"file": len(file), "result": result}, file)
    except BaseException as wrong:
        send({"error": error_of(wrong)})
    os._exit(0)


def open_messages() -> Send:
    """Return a function that sends a message; all else that is printed is thrown away."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def send(message: dict[str, Any], then: bytes = b"") -> None:
        output.write(json.dumps(message).encode() + b"\n" + then)
        output.flush()

    return send


def solve(body: bytes, memory_gb: float, send: Send) -> tuple[bytes, dict[str, Any]]:
    """Build and certify the mechanism of a recipe, and audit the certified bytes."""
    from whereish.format import audit_bytes, mechanism_bytes
    from whereish.spec import Recipe

    start, last, iteration = time.perf_counter(), 0.0, None

    def progress(now: Any) -> None:
        nonlocal last, iteration
        iteration = now.iteration
        if time.perf_counter() - last > 0.1:
            last = time.perf_counter()
            send({"progress": state(now.iteration, now.loss, now.gap)})

    def state(iteration: int | None, loss: float, gap: float | None) -> dict[str, Any]:
        return {
            "iteration": iteration,
            "loss_km": float(loss),
            "gap": None if gap is None else float(gap),
            "elapsed_s": round(time.perf_counter() - start, 3),
        }

    recipe = Recipe.from_json(body)
    mechanism = recipe.build(memory_limit_gb=memory_gb, progress=progress)
    file = mechanism_bytes(mechanism, recipe.kept_prior)
    audited = audit_bytes(file)
    if not audited["certified"]:
        raise RuntimeError("a mechanism without an epsilon")
    build = mechanism.build
    # The gap of a blurred prior is not that of the loss.
    gap = None if recipe.prior_blur else build.gap
    result = state(iteration, recipe.loss_of(mechanism), gap)
    return file, result | {"solver": build.solver, "stopped": build.stopped}


def error_of(wrong: BaseException) -> dict[str, Any]:
    """Describe an error without any number of the recipe."""
    from whereish.errors import GuaranteeError, InputError, SolveError

    if isinstance(wrong, InputError):
        # Numbers in brackets are positions; others may be distances or probabilities.
        message = re.sub(r"(?<![\[\w.])-?\d[\d.]*(e[-+]?\d+)?(?![\]\w])", "…", str(wrong))
        field = wrong.field or re.split(r"\W", str(wrong), maxsplit=1)[0]
        return describe_error("invalid", message, field)
    if isinstance(wrong, SolveError):
        return describe_error("not_solved", str(wrong))
    if isinstance(wrong, GuaranteeError):
        message = "the mechanism found does not satisfy its privacy level, so there is no file"
        return describe_error("not_private", message)
    if isinstance(wrong, MemoryError):
        message = "it needs more memory than is allowed: try fewer places, or a dilation"
        return describe_error("memory", message, "places")
    # Type and line only: the text of an unknown error may hold personal data.
    frames = traceback.extract_tb(wrong.__traceback__)
    where = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    message = f"there was an unexpected error ({type(wrong).__name__} at {where})"
    return describe_error("internal", message)


def load() -> None:
    """Import what a solve needs, and load the compiled core, before a recipe arrives."""
    from whereish import compiled

    compiled.library()
    for module in _NEEDED:
        importlib.import_module(module)


def _end_with_the_server() -> None:
    """Wait until the server closes standard input or ends, and end with it."""
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGKILL)  # with the processes of a solver


def _limit_memory(memory_gb: float) -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        with open("/proc/self/statm") as stream:
            now = int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        # The estimate does not cover threads, solvers loaded late, and copies.
        most = now + int((1.5 * memory_gb + 1) * 1e9)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def disable_core_dumps() -> None:
    """Disable core dumps: the memory of this process holds personal data."""
    with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):
        import ctypes
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


def _prefer_for_oom_kill() -> None:
    """Have the system end this process first, and not the server, if memory runs out."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as stream:
        stream.write("1000")


if __name__ == "__main__":
    main()
