"""Debian's Chromium with the extension in it, and a true position for the device, for tests."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import whereish as wh
from littlesite import CHROMIUM
from whereish.format import mechanism_bytes

ROOT = Path(__file__).parent.parent
# Far from every place that is reported, and with digits that nothing else has.
TRUE = {"latitude": 48.8631415926, "longitude": 2.3427182818}
FLAGS = ["--no-sandbox", "--headless=new", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-gpu"]  # fmt: skip
PATIENCE_MS = 60_000
REGION = {"name": "Paris", "lat": 48.86, "lon": 2.34, "km": 25}
EPSILON = 1.386  # of the level neighbourhood, rounded down
PLACES = wh.square_grid(48.83, 2.29, 48.89, 2.40, cell_km=(1.0, 1.0))
assert PLACES.latlon is not None
POINTS: list[list[float]] = PLACES.latlon.tolist()


def built(into: Path, browser: str = "chromium", *, granted: bool = True) -> Path:
    """Build the extension, with access to all sites: a test cannot grant it later."""
    place = ROOT / "clients" / "extension" / "build.py"
    spec = importlib.util.spec_from_file_location("extension_build", place)
    assert spec is not None
    assert spec.loader is not None
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    made: Path = builder.build(browser, into / f"extension-{browser}", granted=granted)
    return made


def mechanism_file() -> bytes:
    return bytes(mechanism_bytes(wh.planar_laplace(PLACES, epsilon=EPSILON)))


class _Tab:
    """A tab that visits hostile pages one after the other, and what the present one has told."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._open()
        self.name = ""
        self.told: list[str] | None = []
        self.until = 0.0

    def _open(self) -> None:
        self.page = self._context.new_page()
        self._devtools = self._context.new_cdp_session(self.page)
        self._opened: list[Any] = []
        self.page.on("popup", lambda page: self._opened.append(page))
        self.page.on("console", self._hear)
        self.page.on("dialog", _answer)

    def _hear(self, message: Any) -> None:
        if message.text.startswith("seen:") and self.told is None:
            self.told = json.loads(message.text[5:])

    def go(self, name: str, address: str, *, fresh: bool) -> None:
        if fresh or self._opened or self.told is None:
            self.close()
            self._open()
        self.name, self.told, self.until = name, None, time.monotonic() + PATIENCE_MS / 1000
        # The end of a frame in another process takes the position away from the whole tab.
        self._devtools.send("Emulation.setGeolocationOverride", {**TRUE, "accuracy": 0})
        self.page.goto(address, wait_until="commit")

    def close(self) -> None:
        for page in (*self._opened, self.page):
            page.close()


def _answer(dialog: Any) -> None:
    """Refuse what a page asks, but let it be left."""
    if dialog.type == "beforeunload":
        dialog.accept()
    else:
        dialog.dismiss()


class Browser:
    """A running browser. `worker` is the extension's service worker, None without an extension."""

    def __init__(
        self, play: Any, profile: Path, extension: Path | None, flags: Sequence[str] = ()
    ) -> None:
        loaded = [] if extension is None else [
            f"--load-extension={extension}", f"--disable-extensions-except={extension}",
            "--disable-features=DisableLoadExtensionCommandLineSwitch",
        ]  # fmt: skip
        # Every site has the browser's own permission: only the extension is between.
        settings = profile / "Default" / "Preferences"
        if not settings.exists():
            settings.parent.mkdir(parents=True)
            allow = {"default_content_setting_values": {"geolocation": 1}}
            settings.write_text(json.dumps({"profile": allow}))
        self.context = play.chromium.launch_persistent_context(
            profile, executable_path=CHROMIUM, headless=False, args=[*FLAGS, *flags, *loaded]
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.set_geolocation(TRUE)
        self._devtools = self.context.browser.new_browser_cdp_session()
        self._attached: dict[str, str] = {}
        self.root = ""
        if extension is not None:
            self.root = self.worker.url.rpartition("/")[0]

    @property
    def worker(self) -> Any:
        workers = self.context.service_workers
        return workers[0] if workers else self.context.wait_for_event("serviceworker")

    def run(self, script: str, given: Any = None) -> Any:
        """Run a function in the service worker."""
        return self.worker.evaluate(script, given)

    def set_true(self, position: Mapping[str, float] = TRUE) -> None:
        """Put the device somewhere, as its offscreen document is told."""
        self.run(
            """async () => {
              if (await chrome.offscreen.hasDocument()) return;
              await chrome.offscreen.createDocument(
                { url: "offscreen.html", reasons: ["GEOLOCATION"], justification: "test" });
            }"""
        )
        targets = self._devtools.send("Target.getTargets", {"filter": [{}]})["targetInfos"]
        found = next(
            one["targetId"] for one in targets
            if one["type"] == "background_page" and one["url"].endswith("/offscreen.html")
        )  # fmt: skip
        if found not in self._attached:
            made = self._devtools.send(
                "Target.attachToTarget", {"targetId": found, "flatten": False}
            )
            self._attached[found] = made["sessionId"]
        command = {"id": 1, "method": "Emulation.setGeolocationOverride",
                   "params": {**position, "accuracy": 10}}  # fmt: skip
        self._devtools.send(
            "Target.sendMessageToTarget",
            {"sessionId": self._attached[found], "message": json.dumps(command)},
        )

    def set_up(self, *, levels: Mapping[str, str], file: bytes | None = None, **more: Any) -> None:
        """Store what the first run stores: sites and their levels, a region, a mechanism."""
        import base64

        text = base64.b64encode(file or mechanism_file()).decode()
        kept = {"text": text, "accuracy": 2000, "source": "file", "name": "test", "made": 0}
        chosen = {
            "scope": "all",
            "sites": dict(levels),
            "region": REGION,
            "newPlaces": 1000,
            **more,
        }
        self.run(
            """async ([kept, chosen]) => {
              const names = ["street", "neighbourhood", "district", "city"];
              for (const name of names) {
                await chrome.storage.local.set({ [`mechanism:${name}`]: kept });
              }
              await chrome.storage.local.set({ settings: chosen });
              const wait = async () => {
                const scripts = await chrome.scripting.getRegisteredContentScripts();
                const { blocked = [] } = await chrome.storage.local.get("blocked");
                return scripts.length === 2 && blocked.length > 0;
              };
              while (!(await wait())) await new Promise((done) => setTimeout(done, 20));
            }""",
            [kept, chosen],
        )

    def unblock(self) -> None:
        """Leave only page.js between a site and the true position."""
        self.run("() => chrome.contentSettings.location.clear({})")

    def stored(self, name: str) -> Any:
        return self.run("async (n) => (await chrome.storage.local.get(n))[n] ?? null", name)

    def visit_all(self, pages: Mapping[str, str], at_once: int = 3) -> dict[str, list[str] | None]:
        """Open these addresses in some tabs; return what each says on its console after "seen:".

        A tab is used again: a new one costs more than a page. It is not if the page opened windows,
        which a later page of the tab could find by their names, or if there are frames in other
        processes: the end of such a frame takes the position away from its tab, and the next page
        would look in vain. None if a page says nothing for `PATIENCE_MS`.
        """
        found: dict[str, list[str] | None] = dict.fromkeys(pages)
        waiting = list(pages.items())[::-1]
        tabs = [_Tab(self.context) for _ in range(min(at_once, len(pages)))]
        running = set(tabs)
        while running:
            for tab in list(running):
                if tab.told is None and time.monotonic() < tab.until:
                    continue
                found[tab.name] = tab.told
                if not waiting:
                    running.remove(tab)
                    continue
                tab.go(*waiting.pop(), fresh=self._has_remote_frames())
            tabs[0].page.wait_for_timeout(5)  # lets events come in
        for tab in tabs:
            tab.close()
        del found[""]  # the tabs before their first page
        return found

    def _has_remote_frames(self) -> bool:
        targets = self._devtools.send("Target.getTargets", {"filter": [{"type": "iframe"}]})
        return bool(targets["targetInfos"])

    def close(self) -> None:
        self.context.close()


@contextlib.contextmanager
def browser(
    extension: Path | None, profile: Path | None = None, flags: Sequence[str] = ()
) -> Iterator[Browser]:
    """Start the browser, in a profile of its own unless one is given."""
    from playwright.sync_api import sync_playwright

    folder = profile or Path(tempfile.mkdtemp(prefix="whereish-chromium-"))
    with sync_playwright() as play:
        made = Browser(play, folder, extension, flags)
        try:
            yield made
        finally:
            made.close()
    if profile is None:
        shutil.rmtree(folder, ignore_errors=True)


ASK = """(options) => new Promise((done) => navigator.geolocation.getCurrentPosition(
  ({ coords }) => done([coords.latitude, coords.longitude, coords.accuracy]),
  ({ code }) => done(code), options))"""


def ask(page: Any, options: Mapping[str, float] | None = None) -> Any:
    """Return [latitude, longitude, accuracy] as a page gets it, or the code of the error."""
    return page.evaluate(ASK, options or {})


def moved(number: int) -> dict[str, float]:
    """Return a position nearest to another of the places for each number below 40."""
    south, west = (min(axis) for axis in zip(*POINTS, strict=True))
    return {
        "latitude": south + 0.001314 + 0.009 * (number % 6),
        "longitude": west + 0.001618 + 0.0137 * (number // 6),
    }
