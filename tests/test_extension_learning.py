"""Learning on the device: from the alarm to places, and from places to a mechanism of its own."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import whereish as wh
from extensions import PATIENCE_MS, Browser, ask, browser, built, mechanism_file, moved
from littlesite import CHROMIUM, site
from test_extension import WASM, reaches
from whereish.format import audit_file

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium"),
    pytest.mark.skipif(not WASM.exists(), reason="the solver is not built: make core"),
    pytest.mark.heavy,
]
LEVELS = ("street", "neighbourhood", "district", "city")
# Sets off the alarm of the extension, as the clock does every five minutes.
ALARM = "() => chrome.alarms.create('learn', { when: Date.now() })"
# Puts hours at two places and between them into the learner; positions as `learn` stores them.
LIVE = """async ([hours, points]) => {
  const { Learner } = await import("./shared/vendor/profile.js");
  const learner = new Learner();
  const now = Date.now();
  for (let hour = 1; hour <= hours; hour++) {
    for (const [k, { latitude, longitude }] of points.entries()) {
      learner.add(latitude, longitude, now - hour * 3_600_000 + k * 300_000);
    }
  }
  await chrome.storage.local.set({ learner: learner.toJSON() });
}"""


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def running(extension: Path) -> Iterator[Browser]:
    with browser(extension) as found:
        yield found


@pytest.fixture
def chromium(running: Browser) -> Iterator[Browser]:
    running.run("() => chrome.storage.local.remove(['ledger', 'learner', 'rebuilt', 'profile'])")
    running.set_up(levels={}, learn=True)
    running.run(  # noise for the region, as after the first run
        """async () => {
          const found = await chrome.storage.local.get();
          for (const [name, kept] of Object.entries(found)) {
            if (!name.startsWith("mechanism:")) continue;
            await chrome.storage.local.set({ [name]: { ...kept, source: "region" } });
          }
        }"""
    )
    running.set_true()
    yield running
    for page in running.context.pages[1:]:
        page.close()


def options(chromium: Browser) -> Any:
    page = chromium.context.new_page()
    page.goto(f"{chromium.root}/options.html")
    page.wait_for_selector("body[data-ready=true]")
    return page


def wait(chromium: Browser, condition: str) -> None:
    """Wait until an expression about `found`, all that is stored, is true."""
    script = f"""async () => {{
      const holds = async () => {{
        const found = await chrome.storage.local.get();
        return Boolean({condition});
      }};
      const until = Date.now() + {PATIENCE_MS};
      while (!(await holds()) && Date.now() < until) await new Promise((go) => setTimeout(go, 20));
      return holds();
    }}"""
    assert chromium.run(script) is True


def live(page: Any, hours: int) -> None:
    page.evaluate(LIVE, [hours, [moved(2), moved(2), moved(2), moved(14), moved(14), moved(20)]])


@pytest.mark.thorough
def test_the_alarm_comes_back_with_the_browser(extension: Path, tmp_path: Path) -> None:
    """Browsers may drop alarms at their end, and Firefox does. Before `running`: one at a time."""
    with browser(extension, tmp_path) as first:
        first.set_up(levels={}, learn=True)
        first.run("() => chrome.alarms.clearAll()")
    with browser(extension, tmp_path) as second:
        second.run(
            """async () => {
              const until = Date.now() + 20_000;
              while (!(await chrome.alarms.get("learn"))) {
                if (Date.now() > until) throw new Error("there is no alarm");
                await new Promise((go) => setTimeout(go, 20));
              }
            }"""
        )


@pytest.mark.thorough
def test_an_alarm_learns_one_position(chromium: Browser) -> None:
    assert chromium.run("async () => (await chrome.alarms.get('learn')).periodInMinutes") == 5
    chromium.run(ALARM)
    wait(chromium, "found.learner")
    visits = chromium.stored("learner")["visits"]
    assert len(visits) == 1
    (cells,) = visits.values()
    assert len(cells) == 2  # one cell and the minutes in it
    words = options(chromium).inner_text("#learned-words")
    assert "1 hour with positions" in words
    assert "when there are 24 hours" in words


@pytest.mark.thorough
def test_an_alarm_builds_when_enough_was_learned(
    chromium: Browser, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    page = options(chromium)
    live(page, 30)
    page.reload()
    page.wait_for_selector("body[data-ready=true]")
    assert "at the first position of the next day" in page.inner_text("#learned-words")
    chromium.run(ALARM)
    wait(chromium, "found['mechanism:city'].source === 'learned'")
    for level in LEVELS:  # all at the same moment, and Python accepts each
        kept = chromium.stored(f"mechanism:{level}")
        assert kept["source"] == "learned"
        file = tmp_path / f"{level}.whereish"
        file.write_bytes(base64.b64decode(kept["text"]))
        assert isinstance(wh.load_mechanism(file)[0], wh.EverywhereMechanism)
        assert audit_file(file)["certified"] is True
    wait(chromium, "found.rebuilt.hours >= 30")
    page.reload()
    page.wait_for_selector("body[data-ready=true]")
    assert "learned on this device, built on" in page.inner_text("#made-words")
    assert "when there are 4" in page.inner_text("#learned-words")  # 45 hours, or 47
    with site(files=tmp_path_factory.mktemp("site")) as address:
        chromium.run(
            """async (site) => {
              const { settings } = await chrome.storage.local.get("settings");
              await chrome.storage.local.set(
                { settings: { ...settings, sites: { [site]: "neighbourhood" } } });
            }""",
            address.rstrip("/"),
        )
        asking = chromium.context.new_page()
        asking.goto(address)
        told = ask(asking)
        assert isinstance(told, list)
        assert not reaches([str(told)])


@pytest.mark.thorough
def test_a_day_has_one_build_at_most(chromium: Browser) -> None:
    page = options(chromium)
    chromium.run(ALARM)  # the first of the day: nothing is known yet
    wait(chromium, "found.rebuilt && found.learner")
    live(page, 30)
    before = chromium.stored("learner")
    chromium.run(ALARM)
    wait(chromium, f"JSON.stringify(found.learner).length !== {len(_text(chromium, before))}")
    assert chromium.stored("mechanism:city")["source"] == "region"
    assert chromium.stored("rebuilt")["hours"] == 0


def _text(chromium: Browser, value: Any) -> str:
    return str(chromium.run("(value) => JSON.stringify(value)", value))


@pytest.mark.thorough
def test_what_the_person_imported_is_not_replaced(chromium: Browser, tmp_path: Path) -> None:
    page = options(chromium)
    file = tmp_path / "mine.whereish"
    file.write_bytes(mechanism_file())
    page.set_input_files("#file-input", file)
    page.select_option("#file-level", "street")
    page.click("#file-use")
    wait(chromium, "found['mechanism:street'].source === 'file'")
    live(page, 30)
    chromium.run(ALARM)
    wait(chromium, "found.rebuilt")
    page.reload()
    page.wait_for_selector("body[data-ready=true]")
    assert "stays in use" in page.inner_text("#learned-words")
    assert chromium.stored("mechanism:street")["source"] == "file"
    assert chromium.stored("mechanism:city")["source"] == "region"


def test_nothing_is_learned_after_learning_was_switched_off(chromium: Browser) -> None:
    """The device may take a minute to answer: what counts is what the person wants then."""
    page = options(chromium)
    page.evaluate(
        """async () => {
          await new Promise((held) => navigator.locks.request("whereish-learner", () => {
            held();
            return new Promise((release) => { window.release = release; });
          }));
        }"""
    )
    chromium.run(ALARM)
    chromium.run(  # the alarm waits for the lock, with a position
        """async () => {
          const waits = async () => (await navigator.locks.query()).pending.length > 0;
          while (!(await waits())) await new Promise((go) => setTimeout(go, 20));
        }"""
    )
    page.uncheck("#learn")
    wait(chromium, "found.settings.learn === false")
    page.evaluate("() => window.release()")
    wait(chromium, "found.rebuilt")  # the alarm has ended
    assert chromium.stored("learner") is None
