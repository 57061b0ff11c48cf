"""Kills of the browser in the middle of a report: what a page has got was charged before."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from effort import sample
from extensions import ASK, Browser, ask, built, moved
from littlesite import CHROMIUM, site
from test_extension import WASM
from test_extension_ledger import COST, is_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium"),
    pytest.mark.skipif(not WASM.exists(), reason="the solver is not built: make core"),
    pytest.mark.heavy,
]


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("built"))


def kill(chromium: Browser) -> None:
    processes = chromium.context.browser.new_browser_cdp_session().send(
        "SystemInfo.getProcessInfo"
    )["processInfo"]
    for one in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one["id"], signal.SIGKILL)


MOMENTS_MS = sample([0, 2, 5, 10, 20, 40, 80, 200])


@dataclasses.dataclass(frozen=True)
class Killed:
    """What a page was told before a kill, and what the next browser says to the same page."""

    first: Any  # at the first place
    told: list[Any]  # at the second place, if the report came before the kill
    charged: int
    first_again: Any
    second_again: Any
    charged_again: int
    others: list[Any]  # at the third and the fourth place
    charged_in_all: int


@pytest.fixture(scope="module")
def killed(
    extension: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[int, Killed]]:
    """Kill -9 at each moment of a report. A browser that was checked is the next one to kill."""
    profile = tmp_path_factory.mktemp("killed") / "profile"
    with site() as address, playwright.sync_playwright() as play:
        chromium = Browser(play, profile, extension)
        found = {}
        for wait_ms in MOMENTS_MS:
            first, told = killed_after(chromium, address, wait_ms)
            chromium = Browser(play, profile, extension)
            found[wait_ms] = looked_at(chromium, address, first, told)
        chromium.close()
        yield found


def spent(chromium: Browser, address: str) -> int:
    return int(chromium.stored("ledger")["sites"][address.rstrip("/")]["spent"])


def killed_after(chromium: Browser, address: str, wait_ms: int) -> tuple[Any, list[Any]]:
    """Begin with an empty ledger, tell one place, ask at the next, and kill the browser."""
    chromium.run("() => chrome.storage.local.remove('ledger')")
    chromium.set_up(levels={address.rstrip("/"): "neighbourhood"}, newPlaces=3)
    chromium.set_true(moved(0))
    page = chromium.context.new_page()
    told: list[Any] = []
    page.on("console", lambda message: told.append(json.loads(message.text)))
    page.goto(address)
    first = ask(page)
    chromium.set_true(moved(1))
    page.evaluate(f"() => {{ ({ASK})({{}}).then((found) => console.log(JSON.stringify(found))); }}")
    until = time.monotonic() + wait_ms / 1000
    while time.monotonic() < until:
        page.wait_for_timeout(1)
    kill(chromium)
    with contextlib.suppress(Exception):
        chromium.close()
    return first, told


def looked_at(chromium: Browser, address: str, first: Any, told: list[Any]) -> Killed:
    charged = spent(chromium, address)
    page = chromium.context.new_page()
    page.goto(address)
    reports = []
    charges = []
    for number in range(4):
        chromium.set_true(moved(number))
        reports.append(ask(page))
        charges.append(spent(chromium, address))
    page.close()
    again, second = reports[:2]
    return Killed(first, told, charged, again, second, charges[1], reports[2:], charges[3])


@pytest.mark.parametrize("wait_ms", MOMENTS_MS)
@pytest.mark.thorough
def test_a_kill_refunds_nothing(killed: dict[int, Killed], wait_ms: int) -> None:
    """Kill -9 in the middle of a report: whatever the page has got was charged before."""
    found = killed[wait_ms]
    assert is_report(found.first)
    assert found.charged in ([2 * COST] if found.told else [COST, 2 * COST])
    assert found.first_again == found.first
    assert is_report(found.second_again)
    assert found.told in ([], [found.second_again])
    assert found.charged_again == 2 * COST
    third, fourth = found.others
    assert is_report(third)
    assert fourth == 2
    assert found.charged_in_all == 3 * COST
