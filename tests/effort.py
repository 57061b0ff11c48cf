"""How many generated examples a test tries: all of them, or an eighth in `make quick`."""

from __future__ import annotations

import os

from hypothesis import settings

QUICK = os.environ.get("WHEREISH_QUICK") == "1"


def examples(count: int) -> settings:
    """Return the settings of a test that tries this many examples."""
    return settings(max_examples=max(3, count // 8) if QUICK else count, deadline=None)
