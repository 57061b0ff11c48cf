"""The one ledger of the extension: what sites pay, and tabs at the same moment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extensions import (
    ASK,
    EPSILON,
    POINTS,
    REGION,
    TRUE,
    Browser,
    ask,
    browser,
    built,
    moved,
)  # fmt: skip
from littlesite import CHROMIUM, site
from test_extension import WASM

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium"),
    pytest.mark.skipif(not WASM.exists(), reason="the solver is not built: make core"),
    pytest.mark.heavy,
]
COST = int(EPSILON * 1000) * 10**27  # in the units of the ledger, 10^-30
PLACES_OF_REPORTS = {(round(lat, 9), round(lon, 9)) for lat, lon in POINTS}


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with site() as found:
        yield found


@pytest.fixture(scope="module")
def running(extension: Path) -> Iterator[Browser]:
    with browser(extension) as found:
        yield found


@pytest.fixture
def chromium(running: Browser, address: str) -> Iterator[Browser]:
    """Yield the browser with a new ledger, this site at the level neighbourhood."""
    running.run("() => chrome.storage.local.remove('ledger')")
    running.set_up(levels={address.rstrip("/"): "neighbourhood"})
    running.set_true()
    yield running
    for page in running.context.pages[1:]:
        page.close()


def opened(chromium: Browser, address: str) -> Any:
    page = chromium.context.new_page()
    page.goto(address)
    return page


def account(chromium: Browser, address: str) -> dict[str, Any]:
    found: dict[str, Any] = chromium.stored("ledger")["sites"][address.rstrip("/")]
    return found


def is_report(told: Any) -> bool:
    return isinstance(told, list) and (round(told[0], 9), round(told[1], 9)) in PLACES_OF_REPORTS


def test_the_same_place_gets_the_same_report_at_no_cost(chromium: Browser, address: str) -> None:
    page = opened(chromium, address)
    first = ask(page)
    assert is_report(first)
    assert [ask(page) for _ in range(5)] == [first] * 5
    assert int(account(chromium, address)["spent"]) == COST


def test_tabs_at_the_same_moment_pay_once_for_a_place(chromium: Browser, address: str) -> None:
    pages = [opened(chromium, address) for _ in range(3)]
    for page in pages:
        page.evaluate(
            """() => {
              const geo = navigator.geolocation;
              const one = (_, i) => new Promise((done) => setTimeout(() => geo.getCurrentPosition(
                (p) => done(p.coords.latitude), (e) => done(e.code), { timeout: 6e4 + i }), i % 4));
              window.told = Promise.all(Array.from({ length: 20 }, one));
            }"""
        )
    told = [page.evaluate("() => window.told") for page in pages]
    assert len({latitude for one in told for latitude in one}) == 1
    assert int(account(chromium, address)["spent"]) == COST
    assert len(account(chromium, address)["told"]) == 1


def test_no_site_is_told_more_new_places_than_its_budget(chromium: Browser, address: str) -> None:
    chromium.set_up(levels={address.rstrip("/"): "neighbourhood"}, newPlaces=3)
    pages = [opened(chromium, address) for _ in range(2)]
    answers = []
    for number in range(6):
        chromium.set_true(moved(number))
        for page in pages:  # both tabs at once
            page.evaluate(f"(o) => {{ window.told = ({ASK})(o); }}", {"timeout": 20000})
        answers.append([page.evaluate("() => window.told") for page in pages])
    assert all(is_report(told) for pair in answers[:3] for told in pair)
    assert all(pair[0] == pair[1] for pair in answers)
    assert answers[3:] == [[2, 2]] * 3
    assert int(account(chromium, address)["spent"]) == 3 * COST
    chromium.set_true(moved(1))
    assert ask(pages[0]) == answers[1][0]  # a place that was told already is free


def test_sites_get_the_same_report_and_each_pays(chromium: Browser, address: str) -> None:
    other = address.replace("127.0.0.1", "localhost")
    names = [address.rstrip("/"), other.rstrip("/")]
    chromium.set_up(levels=dict.fromkeys(names, "neighbourhood"))
    assert ask(opened(chromium, address)) == ask(opened(chromium, other))
    sites = chromium.stored("ledger")["sites"]
    assert [int(sites[name]["spent"]) for name in names] == [COST, COST]
    assert len(chromium.stored("ledger")["drawn"]) == 1


def test_a_young_report_is_given_again_without_asking_the_device(
    chromium: Browser, address: str
) -> None:
    page = opened(chromium, address)
    first = ask(page)
    chromium.set_true(moved(7))
    assert ask(page, {"maximumAge": 3_600_000}) == first
    assert len(account(chromium, address)["told"]) == 1
    ask(page, {"maximumAge": 0})
    assert len(account(chromium, address)["told"]) == 2


def test_no_time_is_a_timeout(chromium: Browser, address: str) -> None:
    assert ask(opened(chromium, address), {"timeout": 0}) == 3


@pytest.mark.parametrize(("level", "told"), [("never", 1), ("fixed", REGION), ("off", TRUE)])
def test_the_other_levels(chromium: Browser, address: str, level: str, told: Any) -> None:
    chromium.set_up(levels={address.rstrip("/"): level})
    found = ask(opened(chromium, address))
    if level == "never":
        assert found == told
        return
    want = [told["lat"], told["lon"]] if level == "fixed" else list(told.values())
    assert found[:2] == want
    ledger = json.dumps(chromium.stored("ledger"))
    assert '"spent": "0"' in ledger  # nothing is charged
    assert str(TRUE["latitude"]) not in ledger
    assert str(TRUE["longitude"]) not in ledger


def test_a_pause_tells_nothing(chromium: Browser, address: str) -> None:
    chromium.set_up(levels={address.rstrip("/"): "off"}, paused=True)
    assert ask(opened(chromium, address)) == 2


def test_a_watch_gets_a_new_report_after_a_move(chromium: Browser, address: str) -> None:
    page = opened(chromium, address)
    page.evaluate(
        """() => { window.told = []; window.watch = navigator.geolocation.watchPosition(
          ({ coords }) => told.push([coords.latitude, coords.longitude])); }"""
    )
    page.wait_for_function("() => told.length === 1")
    for number in range(3, 40):  # until a place has another report
        chromium.set_true(moved(number))
        if ask(page)[:2] != page.evaluate("() => told[0]"):
            break
    page.wait_for_function("() => told.length === 2")
    assert page.evaluate("() => told[1]") == ask(page)[:2]
    page.evaluate("() => navigator.geolocation.clearWatch(watch)")


def test_a_new_day_begins_a_new_budget_but_an_old_clock_does_not(
    chromium: Browser, address: str
) -> None:
    ask(opened(chromium, address))
    page = chromium.context.new_page()
    page.goto(f"{chromium.root}/options.html")
    tell = """async (days) => {
      const { tell, accounts } = await import("./lib/ledger.js");
      const { mechanismOf } = await import("./lib/mechanisms.js");
      const real = Date.now;
      Date.now = () => real() + days * 86_400_000;
      try {
        const found = await mechanismOf("neighbourhood");
        await tell({ site: "x", level: "neighbourhood", newPlaces: 1, fix: given, ...found });
        return "told";
      } catch (wrong) {
        return wrong.constructor.name;
      } finally {
        Date.now = real;
      }
    }"""
    at = [tell.replace("given", json.dumps(moved(number))) for number in range(3)]
    assert page.evaluate(at[0], 0) == "told"
    assert page.evaluate(at[1], 0) == "SpentError"
    assert page.evaluate(at[1], 1) == "told"  # tomorrow
    assert page.evaluate(at[2], 0) == "SpentError"  # the clock goes back
    assert page.evaluate(at[1], 0) == "told"  # known already
