"""The pages of the extension: first run, question, popup and options, and what they do not do."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import whereish as wh
from extensions import TRUE, Browser, ask, browser, built, mechanism_file, moved
from first_run import SHOP, FirstRun
from littlesite import CHROMIUM, site
from test_extension import WASM, reaches
from whereish.format import audit_file

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium"),
    pytest.mark.skipif(not WASM.exists(), reason="the solver is not built: make core"),
    pytest.mark.heavy,
]
LEVELS = {"street": 200, "neighbourhood": 500, "district": 1500, "city": 5000}


class _Listening(http.server.BaseHTTPRequestHandler):
    """A proxy that passes nothing on and notes who was asked for."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_error(502)

    do_CONNECT = do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    handler = type("Proxy", (_Listening,), {"asked": asked})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "shop.html").write_text(SHOP)
    with site(files=folder) as found:
        yield found


def test_the_first_run_takes_few_clicks_and_asks_no_host(
    extension: Path, address: str, proxy: tuple[str, list[str]], tmp_path: Path
) -> None:
    """Everything but this machine is behind a proxy: it hears of whatever is asked for."""
    where, asked = proxy
    with browser(extension, flags=[f"--proxy-server={where}"]) as chromium:
        run = FirstRun(chromium, f"{address}files/shop.html")
        shop = run.run()
        assert run.clicks < 10
        told = shop.inner_text("#told")
        assert told.startswith("You are near")
        assert not reaches([told])
        # Each file is a mechanism that Python accepts, at the level's epsilon.
        for level, metres in LEVELS.items():
            kept = chromium.stored(f"mechanism:{level}")
            file = tmp_path / f"{level}.whereish"
            file.write_bytes(base64.b64decode(kept["text"]))
            found, _ = wh.load_mechanism(file)
            assert found.epsilon == pytest.approx(0.6931471805599453 / metres * 1000)
            assert audit_file(file)["certified"] is True
        popup = run.popup(shop)
        words = popup.inner_text("body")
        assert "4 of 5 new places" in words
        assert "your whole region" in words
        assert "IP address" in popup.text_content("body")
        popup.check("input[value=city]")
        popup.wait_for_function(
            "() => document.getElementById('left').textContent.includes('places')"
        )
        popup.click("#pause")
        popup.wait_for_selector("#paused", state="visible")
        assert ask(shop) == 2
    ours = [one for one in asked if "google" not in one and "gstatic" not in one]
    assert ours == []  # the browser itself asks for updates of its own


@pytest.fixture(scope="module")
def running(extension: Path) -> Iterator[Browser]:
    with browser(extension) as found:
        yield found


@pytest.fixture
def chromium(running: Browser) -> Iterator[Browser]:
    running.run("() => chrome.storage.local.remove('ledger')")
    running.run("() => chrome.storage.session.clear()")
    running.set_up(levels={})
    running.set_true()
    yield running
    for page in running.context.pages[1:]:
        page.close()


def options(chromium: Browser) -> Any:
    page = chromium.context.new_page()
    page.goto(f"{chromium.root}/options.html")
    page.wait_for_selector("body[data-ready=true]")
    return page


@pytest.mark.parametrize("name", ["ask", "popup", "options"])
@pytest.mark.thorough
def test_a_page_takes_no_click_before_it_can_answer(chromium: Browser, name: str) -> None:
    """A button that is drawn before its script has run would do nothing at all."""
    page = chromium.context.new_page()
    page.goto(f"{chromium.root}/{name}.html?site=https://a.example")
    page.wait_for_function("() => !document.body.inert")
    as_sent = """() => fetch(location.href).then((got) => got.text()).then((text) =>
      new DOMParser().parseFromString(text, "text/html").body.inert)"""
    assert page.evaluate(as_sent) is True


def test_a_question_that_is_closed_is_a_refusal(chromium: Browser, address: str) -> None:
    page = chromium.context.new_page()
    page.goto(address)
    with chromium.context.expect_page() as asked:
        page.evaluate(
            "() => { navigator.geolocation.getCurrentPosition("
            "() => {}, (e) => { window.code = e.code; }); }"
        )
    with suppress(playwright.Error):  # the click closes the window, maybe before it is answered
        asked.value.click("#refuse")
    page.wait_for_function("() => window.code === 1")
    assert ask(page) == 1  # and the person is not asked again for a while
    state = "() => navigator.permissions.query({ name: 'geolocation' }).then((s) => s.state)"
    assert page.evaluate(state) == "prompt"


def test_a_frame_of_another_site_is_a_site_of_its_own(chromium: Browser, address: str) -> None:
    page = chromium.context.new_page()
    page.goto(address)
    other = address.replace("127.0.0.1", "localhost")
    page.evaluate(
        """(src) => new Promise((done) => { const f = document.createElement('iframe');
          f.src = src; f.allow = 'geolocation'; f.onload = done; document.body.append(f); })""",
        other,
    )
    with chromium.context.expect_page() as asked:
        page.frames[1].evaluate("() => { navigator.geolocation.getCurrentPosition(() => {}); }")
    asked.value.wait_for_selector("#levels label")
    assert "is a frame in a page of 127.0.0.1" in asked.value.inner_text("#inside")
    asked.value.check("input[value=fixed]")
    asked.value.click("#tell")
    told = ask(page.frames[1])
    assert told[:2] == [48.86, 2.34]
    name = f"{other.rstrip('/')} in {address.rstrip('/')}"
    assert chromium.stored("settings")["sites"] == {name: "fixed"}


def test_only_chosen_sites_are_touched(chromium: Browser, address: str) -> None:
    origin, other = address.rstrip("/"), address.replace("127.0.0.1", "localhost")
    chromium.set_up(levels={origin: "neighbourhood"}, scope="chosen", chosen=[origin])
    chromium.run(
        """async () => {
          const ready = async () =>
            (await chrome.scripting.getRegisteredContentScripts())[0].matches.length === 1 &&
            (await chrome.storage.local.get("blocked")).blocked.length === 1;
          while (!(await ready())) await new Promise((done) => setTimeout(done, 20));
        }"""
    )
    page = chromium.context.new_page()
    page.goto(address)
    assert not reaches([json.dumps(ask(page))])
    page.goto(other)
    assert ask(page)[:2] == list(TRUE.values())  # not chosen: as without the extension


def gpx(path: Path) -> Path:
    """Write a week between two places with a way between them."""
    points = []
    for hour in range(24 * 7):
        at = moved(2 if hour % 24 in range(9, 17) else 20 if hour % 24 in (8, 17) else 14)
        points.append(
            f'<trkpt lat="{at["latitude"]:.6f}" lon="{at["longitude"]:.6f}">'
            f"<time>2026-03-{1 + hour // 24:02}T{hour % 24:02}:10:00Z</time></trkpt>"
        )
    path.write_text(f"<gpx><trk><trkseg>{''.join(points)}</trkseg></trk></gpx>")
    return path


@pytest.mark.thorough
def test_traces_become_mechanisms_on_the_device(
    chromium: Browser, address: str, tmp_path: Path
) -> None:
    page = options(chromium)
    page.set_input_files("#traces-input", gpx(tmp_path / "week.gpx"))
    page.wait_for_selector("#build-progress", state="hidden", timeout=300_000)
    assert page.is_hidden("#build-wrong"), page.inner_text("#build-wrong")
    assert "traces that you imported (week.gpx)" in page.inner_text("#made-words")
    with page.expect_download() as download:
        page.click("#export")
    file = tmp_path / "exported.whereish"
    download.value.save_as(file)
    found, _ = wh.load_mechanism(file)
    assert found.epsilon == pytest.approx(0.6931471805599453 / 0.2)
    assert audit_file(file)["certified"] is True


@pytest.mark.thorough
def test_the_map_shows_towns(chromium: Browser, extension: Path) -> None:
    """The map of the world is a file of the extension, if the page was built before it."""
    if not (extension / "shared" / "vendor" / "world.geojson").is_file():
        pytest.skip("the page is not built: python hatch_build.py")
    page = options(chromium)
    page.wait_for_selector("#map .map-name:not([hidden])", state="attached")
    assert "Paris" in page.eval_on_selector_all(
        "#map .map-name", "all => all.map((e) => e.textContent)"
    )


def test_a_file_must_keep_what_its_level_says(chromium: Browser, tmp_path: Path) -> None:
    page = options(chromium)
    file = tmp_path / "mine.whereish"
    file.write_bytes(mechanism_file())  # epsilon 1.386 per km: of the level neighbourhood
    for level, taken in (("city", False), ("neighbourhood", True), ("street", True)):
        page.set_input_files("#file-input", file)
        page.select_option("#file-level", level)
        page.click("#file-use")
        page.wait_for_selector("#build-progress", state="hidden")
        assert page.is_visible("#build-wrong") != taken
        if not taken:
            assert "at most 0.1386 per km" in page.inner_text("#build-wrong")


def test_forgetting_keeps_what_was_spent(chromium: Browser, address: str) -> None:
    origin = address.rstrip("/")
    chromium.set_up(levels={origin: "neighbourhood"}, learn=True)
    site_page = chromium.context.new_page()
    site_page.goto(address)
    assert isinstance(ask(site_page), list)
    assert chromium.stored("learner") is not None
    spent = chromium.stored("ledger")["sites"][origin]["spent"]
    page = options(chromium)
    assert "1 hour with positions" in page.inner_text("#learned-words")
    page.click("#forget")
    page.click("#forget-sure")
    page.wait_for_selector("#first", state="visible")
    left = chromium.run("async () => Object.keys(await chrome.storage.local.get())")
    assert set(left) <= {"ledger", "settings", "blocked"}
    account = chromium.stored("ledger")["sites"][origin]
    assert account == {"spent": spent, "told": [], "last": None}
    assert chromium.stored("ledger")["drawn"] == {}
