"""The extension in Debian's Firefox: the first run, a report, pages that want the position.

Firefox has no setting of the browser that an extension could set to "block". What page.js does not
stop gets the position if the site has the browser's own permission, as every site has here.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import thefts
from extensions import REGION, TRUE, built, mechanism_file
from littlesite import site
from marionette import FIREFOX, Firefox, firefox
from serving import wait_until
from test_extension import CASES, CONTROLS, IN_VAIN, NAMES, ROUND_PAGE_JS, WASM, reaches, reports

pytestmark = [
    pytest.mark.skipif(FIREFOX is None, reason="there is no firefox"),
    pytest.mark.skipif(not WASM.exists(), reason="the solver is not built: make core"),
    pytest.mark.heavy,
]
ID = "whereish@whereish.invalid"
SOURCE = json.dumps(
    {"location": {"lat": TRUE["latitude"], "lng": TRUE["longitude"]}, "accuracy": 10}
)
PREFERENCES = {
    "geo.provider.testing": True, "geo.provider.network.url": f"data:application/json,{SOURCE}",
    "geo.provider.use_geoclue": False, "permissions.default.geo": 1,
    "dom.disable_open_during_load": False,
}  # fmt: skip
NATIVE = (
    "return await new Promise((done) => navigator.geolocation.getCurrentPosition("
    "(p) => done(JSON.stringify(p)), (e) => done(`error ${e.code}`), { timeout: 20000 }))"
)


def click(session: Firefox, selector: str) -> None:
    found = session.command("WebDriver:FindElement", using="css selector", value=selector)
    session.command("WebDriver:ElementClick", id=next(iter(found.values())))


def wait_for(session: Firefox, expression: str) -> Any:
    found: list[Any] = []

    def told() -> bool:
        found[:] = [session.run(f"return {expression}")]
        return bool(found[0])

    wait_until(told)
    return found[0]


def window_of(session: Firefox, part: str) -> str:
    """Switch to the window whose address has this part, and return its handle."""
    found: list[str] = []

    def there() -> bool:
        for handle in session.command("WebDriver:GetWindowHandles"):
            session.command("WebDriver:SwitchToWindow", handle=handle)
            if part in session.command("WebDriver:GetCurrentURL"):
                found[:] = [handle]
                return True
        return False

    wait_until(there)
    return found[0]


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("built"), "firefox")


def test_the_first_run_and_a_report(extension: Path) -> None:
    with site() as address, firefox(PREFERENCES) as session:
        first = session.command("WebDriver:GetWindowHandle")
        session.command("WebDriver:Navigate", url=address)
        native = json.loads(session.run(NATIVE))
        assert native["coords"]["latitude"] == TRUE["latitude"]  # what a site gets without it
        assert session.command("Addon:Install", path=str(extension), temporary=True) == ID
        window_of(session, "options.html")
        wait_for(session, "document.body?.dataset.ready === 'true'")
        session.run("document.getElementById('town').value = 'Paris'")
        click(session, "#use-region")
        wait_for(session, "document.getElementById('made-words').textContent.includes('noise')")
        click(session, "#all-sites")
        wait_for(session, "document.getElementById('scope-words').textContent.includes('Every')")
        session.command("WebDriver:SwitchToWindow", handle=first)

        def patched() -> bool:
            session.command("WebDriver:Navigate", url=address)
            return bool(
                session.run(
                    "return (await navigator.permissions.query({ name: 'geolocation' })).state"
                )
                == "prompt"
            )

        wait_until(patched)
        ask = NATIVE.removeprefix("return await ")
        session.run(f"{ask}.then((told) => {{ document.title = told; }})")
        window_of(session, "ask.html")
        wait_for(session, "document.querySelectorAll('#levels label').length > 5")
        click(session, "#tell")
        session.command("WebDriver:SwitchToWindow", handle=first)
        told = json.loads(wait_for(session, "document.title !== 'page' && document.title"))
        assert list(told) == list(native)
        assert list(told["coords"]) == list(native["coords"])
        assert told["coords"]["accuracy"] > 1000
        assert not reaches([json.dumps(told)])
        text = session.run("return navigator.geolocation.getCurrentPosition.toString()")
        assert text == "function getCurrentPosition() {\n    [native code]\n}"


@pytest.fixture(scope="module")
def seen(
    extension: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, list[str] | None]]:
    folder = tmp_path_factory.mktemp("site")
    for name, text in thefts.FILES.items():
        (folder / name).write_text(text)
    for number, name in enumerate(NAMES):
        (folder / f"case{number}.html").write_text(CASES[name])
    with site(files=folder) as address, firefox(PREFERENCES) as session:
        origin = address.rstrip("/")
        first = session.command("WebDriver:GetWindowHandle")
        session.command("Addon:Install", path=str(extension), temporary=True)
        window_of(session, "options.html")
        wait_for(session, "document.body?.dataset.ready === 'true'")
        text = base64.b64encode(mechanism_file()).decode()
        kept = {"text": text, "accuracy": 2000, "source": "file", "name": "test", "made": 0}
        other = origin.replace("127.0.0.1", "localhost")
        sites = [origin, f"{other} in {origin}", f"a sandboxed frame in {origin}"]
        chosen = {"scope": "all", "region": REGION, "newPlaces": 1000,
                  "sites": dict.fromkeys(sites, "neighbourhood")}  # fmt: skip
        session.run(
            "await browser.storage.local.set(given[0]);"
            "while ((await browser.scripting.getRegisteredContentScripts()).length < 2)"
            "  await new Promise((done) => setTimeout(done, 20));",
            {"settings": chosen, "mechanism:neighbourhood": kept},
        )
        session.command("WebDriver:SwitchToWindow", handle=first)
        yield {
            name: one_page(session, first, f"{address}files/case{NAMES.index(name)}.html")
            for name in CONTROLS
        }


def one_page(session: Firefox, first: str, address: str) -> list[str] | None:
    session.command("WebDriver:Navigate", url=f"{address}#3000")
    until = time.monotonic() + 60
    told = None
    while told is None and time.monotonic() < until:
        found = session.value("[location.href, window.theft ?? null]")
        # Still the page before, or a page that another script has replaced.
        told = found[1] if found and str(found[0]).startswith(address) else None
        if told is None:
            time.sleep(0.02)  # the page and the browser need the processor, too
    for handle in session.command("WebDriver:GetWindowHandles"):
        if handle != first:
            session.command("WebDriver:SwitchToWindow", handle=handle)
            session.command("WebDriver:CloseWindow")
    session.command("WebDriver:SwitchToWindow", handle=first)
    return None if told is None else json.loads(told)


@pytest.mark.thorough
@pytest.mark.parametrize("name", CONTROLS)
def test_only_what_docs_say_gets_round_the_scripts(
    seen: dict[str, list[str] | None], name: str
) -> None:
    found = seen[name]
    assert found is not None
    assert reaches(found) == (name in ROUND_PAGE_JS)


@pytest.mark.thorough
def test_most_pages_get_reports(seen: dict[str, list[str] | None]) -> None:
    none = {name for name, found in seen.items() if not reports(found or [])}
    assert len(none - IN_VAIN) <= 12
