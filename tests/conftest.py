import signal

import pytest
from hypothesis import HealthCheck, settings

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
    """What runs one after the other because it fills both cores is heavy, and left out of quick."""
    for item in items:
        group = item.get_closest_marker("xdist_group")
        if group is not None and group.args == ("heavy",):
            item.add_marker(pytest.mark.heavy)
