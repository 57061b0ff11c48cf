"""The process in which qif solves one program: run as a file by `qif_peer`.

It imports numpy and qif only. It reads a line of JSON, the prior and the distances from standard
input, and writes the matrix to standard output.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> int:  # pragma: no cover - runs in its own process
    """Solve the program on standard input."""
    import numpy as np
    import qif

    # Solvers print to standard output, which must hold nothing but the matrix.
    answer_to = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    stream = sys.stdin.buffer
    head = json.loads(stream.readline())
    n, epsilon = head["places"], head["epsilon"]
    prior = np.frombuffer(stream.read(8 * n))
    distances = np.frombuffer(stream.read(8 * n * n)).reshape(n, n)
    matrix = qif.mechanism.d_privacy.min_loss_given_d(
        prior, n, lambda x, other: epsilon * distances[x, other], lambda x, z: distances[x, z]
    )
    answer_to.write(np.ascontiguousarray(matrix, dtype=np.float64).tobytes())
    answer_to.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
