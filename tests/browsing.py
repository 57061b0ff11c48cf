"""The page in Debian's chromium, served by the real service: what the tests of the page share."""

from __future__ import annotations

import io
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

import whereish as wh
from serving import Served, serving, wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
VENDOR = Path(wh.__file__).parent / "service" / "page" / "vendor" / "stamp"
# The marks of a module that opens the page: one browser and one service for all its tests.
BROWSER_MARKS = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to open the page in"),
    pytest.mark.skipif(not VENDOR.exists(), reason="the page is not built: python hatch_build.py"),
    pytest.mark.heavy,
]
_QUIET = [
    "--no-sandbox", "--headless=new", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip
FLAGS = [
    *_QUIET, "--disable-gpu-sandbox", "--use-gl=angle", "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]  # fmt: skip
# Without WebGL nothing needs a graphics card, and the emulation of one costs a quarter of the time.
PLAIN_FLAGS = [*_QUIET, "--disable-gpu"]
ELSEWHERE = "elsewhere.localhost"  # the same machine under a name that the page does not know
PATIENCE_MS = 60_000
EMPTY_MAP = (251, 251, 246)
NO_WEBGL = (
    "const real = HTMLCanvasElement.prototype.getContext;"
    "HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {"
    "  return kind.startsWith('webgl') ? null : real.call(this, kind, ...rest); };"
)


class Visit:
    """A page that is watched: whatever it asks for, says on the console, or must not do."""

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        self.address = address
        self.asked: list[Any] = []
        self.complaints: list[str] = []
        self.expected: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("request", lambda one: self.asked.append(one))
        page.on("console", self._hear)
        page.on("pageerror", lambda wrong: self.complaints.append(str(wrong)))
        page.add_init_script(
            "addEventListener('securitypolicyviolation',"
            " (e) => console.error('violates', e.violatedDirective, e.blockedURI));"
        )

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def open(self, *, built: bool = True) -> Visit:
        self.page.goto(self.address)
        if built:
            self.page.wait_for_selector("#result:not([hidden])")
            self.page.wait_for_selector("#pane-best .map[data-ready=true]")
        return self

    def by_service(self, *, build: bool = False) -> Visit:
        """Ask for builds by the service, as a person does for what is too large."""
        self.page.check("input[value=service]")
        if build:
            self.page.click("#build")
            self.wait_text("#proved", "Built by the service")
        return self

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector)).replace("\u00a0", " ")

    def wait_text(self, selector: str, pattern: str) -> str:
        self.page.wait_for_function(
            "([s, p]) => new RegExp(p).test(document.querySelector(s).innerText"
            ".replaceAll('\\u00a0', ' '))",
            arg=[selector, pattern],
        )
        return self.text(selector)

    def place(self) -> int:
        return int(self.page.get_attribute("#pane-best", "data-place"))

    def tip(self, pane: str = "#pane-best") -> tuple[float, float]:
        box = self.page.locator(f"{pane} .pin").bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] - 1.6

    def colour(self, x: float, y: float) -> tuple[int, ...]:
        """Return the colour that people see somewhere, when the map has settled."""
        self.page.wait_for_timeout(350)
        clip = {"x": x, "y": y, "width": 1, "height": 1}
        shot = Image.open(io.BytesIO(self.page.screenshot(clip=clip))).convert("RGB")
        return tuple(np.asarray(shot)[0, 0].tolist())

    def beside_the_pin(self) -> tuple[float, float, tuple[int, ...]]:
        """Return a point at the pin and its colour, once the pin stands and the map is painted."""
        found: list[Any] = []

        def painted() -> bool:
            x, y = self.tip()
            found[:] = [x + 14, y + 14, self.colour(x + 14, y + 14)]
            return found[2] != EMPTY_MAP and self.tip() == (x, y)

        wait_until(painted)
        return found[0], found[1], found[2]

    def wait_colour(self, x: float, y: float, holds: Callable[[tuple[int, ...]], bool]) -> None:
        """Wait until the colour that people see somewhere is as it should be."""
        wait_until(lambda: holds(self.colour(x, y)))

    def give(self, selector: str, *files: tuple[str, str | bytes]) -> None:
        self.page.set_input_files(
            selector,
            [
                {
                    "name": name,
                    "mimeType": "application/octet-stream",
                    "buffer": content if isinstance(content, bytes) else content.encode(),
                }
                for name, content in files
            ],
        )

    def check(self) -> None:
        """Nobody else was asked, nothing was violated, and the console is silent."""
        hosts = {urlsplit(one.url).netloc for one in self.asked if one.url.startswith("http")}
        assert hosts <= {urlsplit(self.address).netloc}
        left = [said for said in self.complaints if not any(part in said for part in self.expected)]
        assert left == []


def pmtiles(colour: tuple[int, int, int]) -> bytes:
    """Return a PMTiles archive, version 3, of one picture of one colour: the whole world."""
    stream = io.BytesIO()
    Image.new("RGB", (256, 256), colour).save(stream, "PNG")
    tile = stream.getvalue()
    size = bytes([len(tile) & 127 | 128, len(tile) >> 7])  # as a varint, of two bytes here
    root = bytes([1, 0, 1]) + size + bytes([1])  # one entry: tile 0, once, so long, at 0
    start = 127 + len(root)
    head = b"PMTiles\x03" + struct.pack(
        "<11Q", 127, len(root), start, 2, start + 2, 0, start + 2, len(tile), 1, 1, 1
    )
    head += bytes([1, 1, 1, 2, 0, 0])  # nothing compressed, PNG, zoom 0
    head += struct.pack("<4iB2i", -1800000000, -850000000, 1800000000, 850000000, 0, 0, 0)
    return head + root + b"{}" + tile


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "green.pmtiles").write_bytes(pmtiles((0, 160, 60)))
    tiles = ("--tiles", str(folder / "green.pmtiles"), "--tiles-credit", "© Somebody")
    with serving(folder / "kept", "--allow-host", ELSEWHERE, *tiles) as served:
        yield served


@pytest.fixture(scope="module")
def browsers() -> Iterator[Callable[[bool], Any]]:
    """Return a browser, with WebGL or without: each is started when a test asks for it."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    opened: dict[bool, Any] = {}
    with playwright.sync_playwright() as driver:

        def browser(webgl: bool) -> Any:
            if webgl not in opened:
                flags = FLAGS if webgl else PLAIN_FLAGS
                opened[webgl] = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
            return opened[webgl]

        yield browser
        for one in opened.values():
            one.close()


@pytest.fixture(scope="module")
def browser(browsers: Callable[[bool], Any]) -> Any:
    return browsers(True)


@pytest.fixture
def visit(browsers: Callable[[bool], Any], service: Served) -> Iterator[Callable[..., Visit]]:
    contexts: list[Any] = []
    visits: list[Visit] = []

    def make(
        width: int = 1000,
        height: int = 720,
        host: str | None = None,
        webgl: bool = True,
        **more: Any,
    ) -> Visit:
        """Open nothing yet. Without WebGL the map is drawn on a plain canvas: 40 % less CPU.

        So do tests of words, builds and files; those of what is drawn keep WebGL, or try both.
        """
        size = {"width": width, "height": height}
        contexts.append(browsers(webgl).new_context(viewport=size, accept_downloads=True, **more))
        port = urlsplit(service.url).port
        address = f"http://{host}:{port}/" if host else f"{service.url}/"
        visits.append(Visit(contexts[-1].new_page(), address))
        if not webgl:
            visits[-1].page.add_init_script(NO_WEBGL)
        return visits[-1]

    yield make
    for one in visits:
        one.check()
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = os.environ.get("WHEREISH_SCREENSHOTS")
    made = Path(folder) if folder else tmp_path_factory.mktemp("screenshots")
    made.mkdir(parents=True, exist_ok=True)
    return made


Visitor = Callable[..., Visit]
