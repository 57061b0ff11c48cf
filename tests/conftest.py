import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from browsing import browser, browsers, pictures, service, visit  # noqa: F401  fixtures of the page
from clusters import Nodes
from effort import CASES, EFFORT, examples

# Before NumPy is loaded. Processes of tests share the cores: threads of OpenBLAS would wait for
# each other, and take up to ten times the CPU. test_structured checks that they change nothing.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Solving a program takes as long as it takes; the machine is shared.
settings.register_profile(
    "whereish",
    parent=examples(40),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    derandomize=True,
)
settings.load_profile("whereish")

# A run in the background of a script is started with Ctrl-C ignored, and the tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _same_day(request: pytest.FixtureRequest) -> None:
    left = 86_400 - time.time() % 86_400
    if left < 60 and request.path.stem in BY_DAY:
        time.sleep(left + 1)


@pytest.fixture(scope="session")
def _nodes() -> Iterator[Nodes]:
    made = Nodes()
    yield made
    made.stop()


@pytest.fixture
def nodes(_nodes: Nodes) -> Nodes:
    """Return a Ray cluster that runs; a test may have ended the one before it."""
    if not _nodes.running:
        _nodes.start_again()
    return _nodes


# Modules whose tests share what takes long to make: a cluster, a server, a browser, a run. Such a
# group is one unit of work of a process, so each of these is made once. The longest come first:
# none is left for the end, when another process has nothing to do.
TOGETHER = {
    "page": ["test_page", "test_page_tells", "test_page_maps", "test_geolocation"],
    "extension": ["test_extension"],
    "extension-firefox": ["test_extension_firefox"],
    "extension-pages": ["test_extension_pages", "test_extension_ledger", "test_extension_likeness"],
    "extension-kill": ["test_extension_kill", "test_extension_learning"],
    "cluster": ["test_ray_pool", "test_cluster"],
    "service": ["test_service"],
    "faults": ["test_faults"],
    "evaluation": ["test_evaluation"],
    "wasm": ["test_wasm"],
    "client": ["test_client"],
    "connections": ["test_connections"],
    "openapi": ["test_openapi"],
    "hostile": ["test_hostile"],
    "study": ["test_study_mechanisms"],
}
# Modules that run the JavaScript code in Node.js: heavy, because a change of Python code
# seldom changes their results.
IN_NODE = {
    "test_background", "test_client", "test_client_arrays", "test_client_lattice",
    "test_client_noise", "test_client_tracker", "test_device_build", "test_extension_build",
    "test_forged", "test_page_parity", "test_page_posterior", "test_wasm",
}  # fmt: skip
# Modules of which all cases are tried: they are cheap once their fixture is made, or each case is
# a way in which a location could leak.
EVERY_CASE = {
    "test_extension", "test_extension_firefox", "test_extension_likeness", "test_geolocation",
    "test_hostile", "test_openapi", "test_column_leaks", "test_echoes", "test_ledger_attacks",
    "test_extension_kill",
}  # fmt: skip
# Modules with budgets for a day: none of their tests begins just before midnight, UTC.
BY_DAY = {
    "test_client", "test_client_lattice", "test_device_cli", "test_everywhere_cli",
    "test_example_app", "test_extension_kill", "test_extension_ledger", "test_extension_pages",
    "test_geolocation", "test_ledger", "test_tables",
}  # fmt: skip
# Modules without a quick test: `make quick` does not even import them, with Ray and Playwright.
_LONG_ONLY = {*IN_NODE, *TOGETHER["page"], *TOGETHER["cluster"], *TOGETHER["hostile"]} | {
    name for group, names in TOGETHER.items() if group.startswith("extension") for name in names
}
collect_ignore = [f"{name}.py" for name in sorted(_LONG_ONLY)] if EFFORT == "quick" else []
_GROUPS = {f"tests/{name}.py": group for group, names in TOGETHER.items() for name in names}


def is_long(item: pytest.Item) -> bool:
    """Tell whether a test is marked as heavy or slow."""
    return any(item.get_closest_marker(name) for name in ("heavy", "slow"))


def without_repeated_cases(
    items: list[pytest.Item], one_of: int, *, only_long: bool
) -> list[pytest.Item]:
    """Return the tests, and of the cases of a test the first of each ``one_of``."""
    seen: Counter[str] = Counter()
    kept = []
    for item in items:
        all_cases = not hasattr(item, "callspec") or (
            only_long and (not is_long(item) or item.path.stem in EVERY_CASE)
        )
        name = item.nodeid.partition("[")[0]
        if all_cases or seen[name] % one_of == 0:
            kept.append(item)
        seen[name] += 1
    return kept


def group_of(nodeid: str) -> str | None:
    """Return the group of a test, by its module."""
    return _GROUPS.get(nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give the tests of a group to one process, and all others one by one.

    The scheduler of xdist 3.8 for its mark `xdist_group` does not: pytest 9.2 has no `_nodeid`, in
    which it passes the group on. `test_house.py` checks this one.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid) or nodeid

    config.option.loadscopereorder = False  # the order is that of the tests
    return Groups(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out repeated cases; with xdist put groups first, then what is long, then the rest."""
    for item in items:
        if item.path.stem in IN_NODE:
            item.add_marker(pytest.mark.heavy)
    kept = without_repeated_cases(items, CASES, only_long=EFFORT != "quick")
    left_out = {*items} - {*kept}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
    items[:] = kept
    if not hasattr(config, "workerinput"):
        return
    order = list(TOGETHER)

    def place(item: pytest.Item) -> int:
        group = group_of(item.nodeid)
        if group is not None:
            return order.index(group)
        return len(order) if is_long(item) else len(order) + 1

    items.sort(key=place)
