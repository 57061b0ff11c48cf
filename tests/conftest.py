import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Before NumPy is loaded. Processes of tests share the cores: threads of OpenBLAS would wait for
# each other, and take up to ten times the CPU. test_structured checks that they change nothing.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Solving a program takes as long as it takes; the machine is shared.
settings.register_profile(
    "whereish",
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    derandomize=True,
)
settings.load_profile("whereish")

# A run in the background of a script is started with Ctrl-C ignored, and the tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the group "heavy" as heavy: it fills both cores, and quick leaves it out.

    The other groups are modules whose fixtures take long: on one process, each is made once.
    """
    for item in items:
        group = item.get_closest_marker("xdist_group")
        if group is not None and group.args == ("heavy",):
            item.add_marker(pytest.mark.heavy)
