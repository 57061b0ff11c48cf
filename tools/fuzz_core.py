"""Call the functions of the compiled core with wrong input, for some seconds: `make core-fuzz`.

`core/fuzz.c` makes the input, from seeds that are counted up. It is built with sanitizers. A
finding is printed with the seed that gives it again: `tools/fuzz_core.py --seed SEED --seconds 0`.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

from sanitize_core import compile_with_sanitizers


def main() -> int:
    """Build the program, run it, and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, help="the first seed (default: a random one)")
    asked = parser.parse_args()
    first = secrets.randbits(40) if asked.seed is None else asked.seed
    with tempfile.TemporaryDirectory(prefix="whereish-fuzz-") as place:
        program, note = Path(place, "fuzz"), Path(place, "seed")
        compile_with_sanitizers(program, "fuzz.c")
        options = {"FUZZ_SEED": str(note), "UBSAN_OPTIONS": "print_stacktrace=1"}
        command = [str(program), str(first), str(asked.seconds)]
        code = subprocess.run(command, env={**os.environ, **options}, check=False).returncode  # noqa: S603
        if code:
            sys.stderr.write(f"found with seed {note.read_text().strip()} (exit code {code})\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
