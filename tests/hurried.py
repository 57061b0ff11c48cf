"""Run the command line with shorter waits: ``python hurried.py '{"server_silent_s": 4}' serve``.

A test of what a server does after a wait need not wait as long as a server in use. The names are
those of `whereish.retries.RETRY` and `whereish.service.limits.FIXED`.
"""

from __future__ import annotations

import json
import sys

if __name__ == "__main__":
    from whereish.retries import RETRY
    from whereish.service.limits import FIXED

    for name, seconds in json.loads(sys.argv[1]).items():
        (policy,) = [table for table in (RETRY, FIXED) if hasattr(table, name)]
        object.__setattr__(policy, name, seconds)

    from whereish.cli import main

    sys.argv = ["whereish", *sys.argv[2:]]
    main()
