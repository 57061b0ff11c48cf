"""The extension in Debian's Chromium: no page gets the true position, and pages notice little.

Every page of `thefts.py` and `theft_frames.py` is opened three times: without the extension, with
the extension, and with the extension but without the browser's own block. The first shows that
a page would have got the position; the last shows what page.js alone stops.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import theft_frames
import thefts
from effort import sample
from extensions import POINTS, TRUE, Browser, browser, built
from littlesite import CHROMIUM, site

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
WASM = Path(__file__).parent.parent / "clients" / "js" / "dist" / "whereish.wasm"
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium"),
    pytest.mark.skipif(not WASM.exists(), reason="the solver is not built: make core"),
    pytest.mark.heavy,
]

GROUPS = [
    thefts.CALLS, thefts.OBJECTS, thefts.TAMPERED, thefts.SETTERS, thefts.STACKS,
    theft_frames.FRAMES, theft_frames.INSERTIONS, theft_frames.DURING, theft_frames.TOLD,
    theft_frames.WINDOWS, theft_frames.WORKERS, theft_frames.MESSAGES, theft_frames.STORED,
]  # fmt: skip
CASES = {name: thefts.page(body) for group in GROUPS for name, body in group.items()}
CASES |= {name: thefts.parsed(html, body) for name, (html, body) in theft_frames.PARSED.items()}
NAMES = sorted(CASES)
# The only pages that get round page.js: their scripts run between the insertion of a frame and
# the end of the call that inserts it. The browser's own block stops them; Firefox has none.
ROUND_PAGE_JS = {"a custom element next to the frame", "a custom element in innerHTML"}
# Pages that get no position in any browser: there is none where they look for it.
IN_VAIN = {
    "an inherited geolocation", "a proxy of the geolocation", "delete everything", "a worker",
    "a module worker", "a shared worker", "a frame of another site without leave",
    "a script in data:", "an old position",
}  # fmt: skip
# With the extension these get no report.
NO_ANSWER = IN_VAIN | ROUND_PAGE_JS
# Every kind of page is tried with the extension. Of one attack with many functions of JavaScript,
# and of the controls, a sample is tried, unless all effort is asked for.
LIKE_EACH_OTHER = sorted([*thefts.TAMPERED, *thefts.SETTERS])
LEFT_OUT = set(LIKE_EACH_OTHER) - set(sample(LIKE_EACH_OTHER))
TRIED = [name for name in NAMES if name not in LEFT_OUT]
CONTROLS = sample(NAMES, ROUND_PAGE_JS)
SCRIPTS_ONLY = sample(CONTROLS, ROUND_PAGE_JS)


def numbers(seen: list[str]) -> list[float]:
    return [float(n) for one in seen for n in re.findall(r"-?\d+\.\d+", one)]


def reaches(seen: list[str]) -> bool:
    """Tell whether a number is within about 20 m of the true latitude or longitude."""
    truth = TRUE.values()
    return any(abs(number - value) < 2e-4 for number in numbers(seen) for value in truth)


def reports(seen: list[str]) -> bool:
    """Tell whether the page got the latitude of one of the places."""
    places = {round(lat, 9) for lat, _ in POINTS}
    return any(round(number, 9) in places for number in numbers(seen))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    for name, text in thefts.FILES.items():
        (folder / name).write_text(text)
    for number, name in enumerate(NAMES):
        (folder / f"case{number}.html").write_text(CASES[name])
    with site(files=folder) as found:
        yield found


def visited(
    open_browser: Browser,
    address: str,
    names: list[str],
    limits: str = "6000,0",
    got: Callable[[list[str]], bool] = reports,
) -> dict[str, list[str] | None]:
    """Return what these pages see, on two visits if a page does not get its answer on the first.

    Pages wait some hundred milliseconds for a frame or a script, which a busy machine can miss. On
    the second visit all their waits are ten times as long. What either visit sees counts.
    """

    def visit(these: list[str], patience: int, at_once: int) -> dict[str, list[str] | None]:
        end = f"#{limits},{patience}"
        pages = {name: f"{address}files/case{NAMES.index(name)}.html{end}" for name in these}
        return open_browser.visit_all(pages, at_once)

    found = visit(names, 1, 3)
    late = [name for name in names if name not in NO_ANSWER and not got(found[name] or [])]
    for name, seen in visit(late, 10, 1).items() if late else ():
        if seen is not None:
            found[name] = [*(found[name] or []), *seen]
    return found


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def protected(extension: Path, address: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what pages see with the extension, and then without the browser's own block."""
    origin = address.rstrip("/")
    other = origin.replace("127.0.0.1", "localhost")
    names = [origin, f"{other} in {origin}", f"a sandboxed frame in {origin}"]
    with browser(extension) as found:
        found.set_up(levels=dict.fromkeys(names, "neighbourhood"))
        found.set_true()
        blocked = visited(found, address, TRIED)
        found.unblock()
        return blocked, visited(found, address, SCRIPTS_ONLY)


@pytest.fixture(scope="module")
def without(address: str) -> dict[str, Any]:
    with browser(None) as found:
        # A second native watch gets no answer at all: a page ends when it has the latitude.
        return visited(found, address, CONTROLS, f"3000,{TRUE['latitude'] * 1e10:.0f}", reaches)


@pytest.fixture(scope="module")
def with_extension(protected: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    return protected[0]


@pytest.fixture(scope="module")
def with_page_js_only(protected: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    return protected[1]


def test_there_are_enough_pages() -> None:
    assert len(CASES) >= 250
    assert len(CASES) == sum(map(len, GROUPS)) + len(theft_frames.PARSED)


@pytest.mark.thorough
@pytest.mark.parametrize("name", CONTROLS)
def test_the_page_gets_the_position_without_the_extension(
    without: dict[str, Any], name: str
) -> None:
    assert without[name] is not None
    assert reaches(without[name]) != (name in IN_VAIN)


@pytest.mark.parametrize("name", TRIED)
def test_the_page_does_not_get_it_with_the_extension(
    with_extension: dict[str, Any], name: str
) -> None:
    assert with_extension[name] is not None
    assert not reaches(with_extension[name])


@pytest.mark.parametrize("name", SCRIPTS_ONLY)
def test_the_scripts_alone_stop_it_too(with_page_js_only: dict[str, Any], name: str) -> None:
    found = with_page_js_only[name]
    assert found is not None
    assert reaches(found) == (name in ROUND_PAGE_JS)


def test_pages_get_reports_instead(with_extension: dict[str, Any]) -> None:
    none = {name for name in TRIED if not reports(with_extension[name])}
    assert none - {"an old position"} == NO_ANSWER - {"an old position"}
