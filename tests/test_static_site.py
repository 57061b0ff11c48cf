"""The page without a server: one folder, below any path of any static host."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import demo
import pytest

import whereish as wh
from browsing import BROWSER_MARKS, NO_WEBGL, VENDOR, Visit, browser

__all__ = ["browser"]
Test = TypeVar("Test", bound=Callable[..., None])


def in_a_browser(test: Test) -> Test:
    for mark in BROWSER_MARKS:
        test = mark(test)
    return test


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    demo.add_page(tmp_path / "some" / "where" / "demo")
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/some/where/demo/"
        server.shutdown()
        thread.join()


@in_a_browser
def test_it_builds_offline_what_the_audit_accepts(
    browser: Any, address: str, tmp_path: Path
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, accept_downloads=True)
    visit = Visit(context.new_page(), address)
    visit.page.add_init_script(NO_WEBGL)
    visit.open()
    page = visit.page
    # No control that needs a service; in its place, what holds.
    assert page.locator("[data-needs=service]").count() == 0
    assert page.locator("input[name=where]").count() == 0
    assert "no server behind this page" in visit.text("#controls")
    assert "nothing is sent" in visit.text("#sends").lower()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # Once it is loaded it needs no network: another level is built offline.
    context.set_offline(True)
    before = len(visit.asked)
    page.fill("#metres", "900")
    page.click("#build")
    visit.wait_text("#epsilon", "0.77")
    visit.wait_text("#figure-hidden", "900 m")
    visit.wait_text("#proved", "Built on this device")
    assert len(visit.asked) == before
    with page.expect_download() as download:
        page.click("#download")
    download.value.save_as(tmp_path / "k.whereish")
    paths = {one.url.removeprefix(address) for one in visit.asked}
    assert not any(path.startswith(("http", "v1/")) for path in paths), paths
    visit.check()
    context.close()
    certificate = wh.audit_file(tmp_path / "k.whereish")
    assert certificate["certified"]
    assert certificate["epsilon"] == pytest.approx(math.log(2) / 0.9, rel=1e-6)


@pytest.mark.skipif(not VENDOR.exists(), reason="the page is not built: python hatch_build.py")
def test_the_folder_names_no_address_from_the_root_of_the_host(tmp_path: Path) -> None:
    demo.add_page(tmp_path / "demo")
    own = [*(tmp_path / "demo").glob("*.html"), *(tmp_path / "demo" / "assets").glob("*.*")]
    for file in own:
        text = file.read_text()
        for wrong in ('"/assets', "'/assets", '="/', '"/city', '"/v1/about'):
            assert wrong not in text, f"{file.name}: {wrong}"
    page = (tmp_path / "demo" / "index.html").read_text()
    assert demo.ALONE in page
    assert "connect-src 'self'" in page
    assert "frame-ancestors" not in page  # browsers ignore it in a page, and say so
