"""The page tells what is given away, builds on the device, and keeps only what it may."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whereish as wh
from browsing import BROWSER_MARKS, Visit, Visitor
from serving import wait_until
from test_page import days, gpx, profile_csv, spoken
from whereish.format import mechanism_bytes

pytestmark = BROWSER_MARKS
TELLS = r"guesses the right (.+?) ([\d.]+|under 0.01) % of the time; without the report ([\d.]+) %"


def downloaded(seen: Visit, path: Path) -> Path:
    """Save the mechanism that the page shows."""
    with seen.page.expect_download() as coming:
        seen.page.click("#download")
    coming.value.save_as(path)
    return path


def percent(share: float) -> str:
    """Return a share of one percent and more as the page says it."""
    p = 100 * share
    return f"{p:.1f}" if 99 < p < 100 else f"{math.floor(p + 0.5)}"


def posts(seen: Visit) -> list[str]:
    return [one.url for one in seen.asked if one.method == "POST"]


@pytest.mark.parametrize("webgl", [False, True], ids=["plain", "webgl"])
def test_a_click_on_a_report_shows_what_it_tells(
    visit: Visitor, tmp_path: Path, pictures: Path, webgl: bool
) -> None:
    seen = visit(1440, 900, webgl=webgl)
    seen.open()
    mechanism, _ = wh.load_mechanism(downloaded(seen, tmp_path / "k.whereish"))
    prior = wh.embedded_city().prior
    matrix = np.array(mechanism.counts, dtype=float) / 2.0**63
    place = seen.place()
    before = len(seen.asked)

    def check(z: int, weights: Any, words: str) -> None:
        joint = weights * matrix[:, z]
        found = re.search(TELLS, words)
        assert found is not None
        wanted = ("place", percent(joint.max() / joint.sum()), percent(weights.max()))
        assert found.groups() == wanted

    # The button: the likeliest report from the pin.
    seen.page.click("#conclude")
    words = seen.wait_text("#conclusion-words", "Who knows your habits and sees this report")
    check(int(matrix[place].argmax()), prior, words)
    average = (prior[:, None] * matrix).max(axis=0).sum()
    assert f"right {percent(average)} % of the time" in seen.text("#conclusion-more")
    assert not seen.page.is_visible("#where")
    # Why it is private, in numbers: the ratio of two places, and its limit.
    assert re.search(r"the same place \d+ %", seen.text("#why-title"))
    seen.page.click("#why-title")
    said = seen.text("#why-words")
    found = re.search(r"It is ([\d.]+) times as likely .* allows at most ([\d.]+) times", said)
    assert found is not None
    assert float(found[1]) <= float(found[2])
    assert "changes the odds by a factor of at most 2" in said
    # A person who knows nothing: another map, other words.
    x, y = seen.tip()
    known = seen.colour(x + 14, y + 14)
    seen.page.check("input[value=nothing]", force=True)
    words = seen.wait_text("#conclusion-words", "Who knows nothing and sees this report")
    check(int(matrix[place].argmax()), np.full(48, 1 / 48), words)
    seen.wait_colour(x + 14, y + 14, lambda colour: colour != known)
    seen.page.screenshot(path=pictures / f"tells-nothing-{webgl}.png")
    seen.page.check("input[value=prior]", force=True)
    # A click on another cell, two to the west.
    seen.page.focus("#pane-best .pin")
    for _ in range(2):
        seen.page.keyboard.press("ArrowLeft")
    other, at = seen.place(), seen.tip()
    for _ in range(2):
        seen.page.keyboard.press("ArrowRight")
    seen.page.mouse.click(at[0] + 8, at[1] + 8)
    words = seen.wait_text("#conclusion-words", r"km west of the pin\)")
    check(other, prior, words)
    seen.page.screenshot(path=pictures / f"tells-{webgl}.png")
    seen.page.click("#conclusion-close")
    assert seen.page.is_visible("#where")
    assert not seen.page.is_visible("#conclusion")
    assert seen.page.evaluate("document.activeElement.id") == "conclude"
    # A drawn report is what the button takes.
    seen.page.click("#draw-one")
    seen.page.click("#conclude")
    seen.wait_text("#conclusion-words", "of the time")
    # Nobody was told anything; both panes of a comparison are told of.
    assert [one.url for one in seen.asked[before:]] == []


@pytest.mark.thorough
def test_what_a_report_of_a_mechanism_for_every_point_tells(visit: Visitor, pictures: Path) -> None:
    places = wh.Places.from_latlon([[52.5, 13.3], [52.51, 13.33], [52.52, 13.36]])
    weights = np.array([0.5, 0.3, 0.2])
    made = wh.optimal_everywhere(places, weights, 1.0, vertices=64, method="lattice")
    seen = visit(1440, 900, webgl=False).open()
    seen.give("#file-input", ("mine.whereish", mechanism_bytes(made, (places, weights))))
    seen.wait_text("#who-more", "3 visited points")
    assert places.latlon is not None
    rows = made.probabilities(places.latlon.tolist())
    seen.page.click("#conclude")
    words = seen.wait_text("#conclusion-words", "Who knows your habits and sees this report")
    joint = weights * rows[:, rows[0].argmax()]
    found = re.search(TELLS, words)
    assert found is not None
    assert found.groups() == ("visited point", percent(joint.max() / joint.sum()), "50")
    seen.page.check("input[value=nothing]", force=True)
    seen.wait_text("#conclusion-words", r"the right square \(\d+ m wide\)")
    seen.page.screenshot(path=pictures / "tells-everywhere.png")
    # Without the prior in the file, nobody's habits are known.
    seen.give("#file-input", ("bare.whereish", mechanism_bytes(made)))
    seen.wait_text("#who-name", "bare")
    assert not seen.page.is_visible("#conclusion")
    seen.page.click("#conclude")
    seen.wait_text("#conclusion-words", "the right square")
    assert seen.page.is_disabled("input[value=prior]")


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_results_are_above_the_fold(visit: Visitor, width: int, height: int) -> None:
    more = {"has_touch": True, "is_mobile": True} if width < 400 else {}
    seen = visit(width, height, webgl=False, **more).open()
    for part in ("#figure-loss", "#figure-reach", "#figure-gap", ".guarantee"):
        box = seen.page.locator(part).bounding_box()
        assert box["width"] > 0, part
        assert box["y"] + box["height"] <= height, part
        assert box["x"] + box["width"] <= width, part
    assert "Places look alike within 650 m" in seen.text(".guarantee")
    assert "at most twice as likely" in seen.text(".guarantee")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.thorough
def test_one_figure_of_95_percent(visit: Visitor) -> None:
    seen = visit(1440, 900, webgl=False).open()
    reach = seen.text("#figure-reach")
    assert reach == "2.49 km"
    seen.page.click("#draw-one")
    assert set(re.findall(r"95 %[^.]*?([\d.]+ k?m)", seen.text("body"))) <= {reach}


@pytest.mark.thorough
def test_what_to_do_with_the_file(visit: Visitor, tmp_path: Path) -> None:
    seen = visit(1440, 900, webgl=False).open()
    assert not seen.page.is_visible("#next")
    path = downloaded(seen, tmp_path / "whereish-1.066.whereish")
    said = seen.text("#next")
    for part in ("extension", "On a phone", "In your app", "On the command line"):
        assert part in said
    assert "never the file" in said
    # The digest is the file's, and the commands are true.
    lines = said.splitlines()
    (pinned,) = re.findall(r'sha256: "([0-9a-f]{64})"', said)
    assert wh.audit_file(path)["sha256"] == pinned
    for line in (one for one in lines if one.startswith("whereish ")):
        done = subprocess.run(
            [sys.executable, "-m", *line.split()],
            cwd=tmp_path, input="48.86,2.35\n", capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert sum(one.startswith("whereish ") for one in lines) == 2


def stored(seen: Visit) -> Any:
    return seen.page.evaluate("localStorage.getItem('whereish-kept')")


@pytest.mark.thorough
def test_the_level_and_the_profile_are_kept_only_if_wanted(visit: Visitor) -> None:
    seen = visit(webgl=False).open()
    seen.page.fill("#metres", "400")
    seen.wait_text("#figure-hidden", "400 m")
    assert stored(seen) is None
    seen.open()
    assert seen.page.input_value("#metres") == "650"
    seen.page.check("#keep")
    assert "the level. Who uses this browser" in seen.text("#keep-note")
    seen.page.fill("#metres", "400")
    seen.page.click("#own-open")
    seen.give("#own-input", ("walk.gpx", gpx(days(59.913, 10.75))))
    seen.wait_text("#own-words", "points")
    seen.page.click("#own-use")
    seen.wait_text("#who-name", "walk.gpx")
    seen.page.wait_for_selector("#result:not([hidden])")
    assert "50 places and 2 visited points" in seen.wait_text("#keep-note", "places")
    kept = json.loads(stored(seen))
    assert set(kept) == {"version", "level", "profile"}
    assert set(kept["level"]) == {"metres", "ratio", "guarantee", "mode"}
    assert set(kept["profile"]) == {"name", "points", "earth", "cellKm", "prior", "visits"}
    assert "2024" not in stored(seen)  # no time, so no trace
    loss = seen.text("#figure-loss")
    seen.open()
    assert seen.text("#who-name") == "walk.gpx"
    assert seen.page.input_value("#metres") == "400"
    assert seen.text("#figure-loss") == loss
    assert seen.page.is_checked("#keep")
    # What somebody else has written there is not used.
    for bad in ('{"version": 1, "level": {}, "profile": {"name": "x"}}', "[", '{"version": 2}'):
        seen.page.evaluate("(text) => localStorage.setItem('whereish-kept', text)", bad)
        seen.open()
        assert "Paris" in seen.text("#who-name")
    seen.page.check("#keep")
    seen.page.click("#forget")
    assert stored(seen) is None
    assert not seen.page.is_checked("#keep")
    assert "Nothing is kept now" in seen.text("#keep-note")
    assert seen.page.evaluate("sessionStorage.length + localStorage.length") == 0
    seen.open()
    assert "Paris" in seen.text("#who-name")
    assert posts(seen) == []


@pytest.mark.thorough
def test_where_i_am_now_moves_the_pin_only(visit: Visitor) -> None:
    city = wh.embedded_city()
    assert city.places.latlon is not None
    lat, lon = city.places.latlon[11]
    here = {"latitude": lat + 0.0011, "longitude": lon - 0.0013}
    seen = visit(geolocation=here, permissions=["geolocation"]).open()
    before = len(seen.asked)
    first = seen.place()
    assert first != 11
    seen.page.click("#here")
    seen.wait_text("#here-note", "The pin is at the place nearest to you")
    assert seen.place() == 11
    seen.page.context.set_geolocation({"latitude": 40.0, "longitude": -3.7})
    seen.page.click("#here")
    seen.wait_text("#here-note", "outside the area of these places, so the pin was not moved")
    assert seen.place() == 11
    assert [one.url for one in seen.asked[before:]] == []
    denied = visit(webgl=False).open()
    denied.page.click("#here")
    denied.wait_text("#here-note", "not allowed to tell the position")


@pytest.mark.thorough
def test_the_level_moves_and_the_result_follows(visit: Visitor) -> None:
    seen = visit(webgl=False).open()
    loss = seen.text("#figure-loss")
    seen.page.evaluate(
        "new MutationObserver(() => { window.gone ||= document.getElementById('result').hidden; })"
        ".observe(document.getElementById('result'), { attributes: true })"
    )
    seen.page.focus("#metres-slider")
    for _ in range(5):
        seen.page.keyboard.press("ArrowRight")
    metres = seen.page.input_value("#metres")
    seen.wait_text("#figure-hidden", f"{metres} m")
    assert seen.text("#figure-loss") != loss
    assert seen.page.evaluate("window.gone") is not True  # the last result stays meanwhile
    assert not seen.page.is_visible("#stale")
    # An open conclusion follows, too.
    seen.page.click("#conclude")
    said = seen.wait_text("#conclusion-words", "of the time")
    seen.page.fill("#metres", "500")
    seen.wait_text("#figure-hidden", "500 m")
    assert seen.wait_text("#conclusion-words", "of the time") != said
    # At a very strong level, only some places are reported at all.
    seen.page.fill("#metres", "3000")
    seen.wait_text("#figure-hidden", "3.00 km")
    seen.wait_text("#conclusion-words", "is never sent from any of the 48 places")
    # A level that is not valid builds nothing, and keeps what is there.
    seen.page.fill("#ratio", "1")
    assert seen.page.is_visible("#level-wrong")
    assert seen.text("#figure-hidden") == "3.00 km"
    assert posts(seen) == []


@pytest.mark.thorough
def test_offline_all_of_it_works(visit: Visitor, tmp_path: Path) -> None:
    """With no network after loading: the city and own traces are built, and Python agrees."""
    seen = visit(webgl=False).open()
    seen.page.context.set_offline(True)
    before = len(seen.asked)
    seen.page.fill("#metres", "500")
    seen.wait_text("#figure-hidden", "500 m")
    city = wh.embedded_city()
    path = downloaded(seen, tmp_path / "city.whereish")
    assert wh.audit_file(path)["epsilon"] == pytest.approx(math.log(2) / 0.5)
    mechanism, _ = wh.load_mechanism(path)
    best = wh.optimal(city.places, city.prior, math.log(2) / 0.5, solver="structured")
    loss = wh.quality_loss(mechanism, city.prior)
    assert loss == pytest.approx(wh.quality_loss(best, city.prior), rel=1e-5)
    assert seen.text("#figure-loss") == spoken(loss)
    for name in ("walk.gpx", "again.gpx"):
        seen.page.click("#own-open")
        seen.give("#own-input", (name, gpx(days(59.913, 10.75))))
        seen.wait_text("#own-words", "points")
        assert "Nothing is sent" in seen.text("#own-sends")
        seen.page.click("#own-use")
        seen.wait_text("#who-name", name)
        assert "Built on this device" in seen.wait_text("#proved", "Nothing was sent")
        path = downloaded(seen, tmp_path / f"{name}.whereish")
        assert wh.audit_file(path)["epsilon"] == pytest.approx(math.log(2) / 0.5)
        assert wh.load_mechanism(path)[0].inputs.latlon is not None
    assert [one.url for one in seen.asked[before:] if one.url.startswith("http")] == []


def test_a_guarantee_between_any_two_points_is_built_offline(
    visit: Visitor, tmp_path: Path
) -> None:
    seen = visit(webgl=False).open()
    seen.page.context.set_offline(True)
    before = len(seen.asked)
    seen.page.check("input[value=everywhere]")
    seen.wait_text("#proved", "Nothing was sent")
    seen.wait_text("#figure-what", "Points look alike within")
    audited = wh.audit_file(downloaded(seen, tmp_path / "k.whereish"))
    assert audited["kind"] == "lattice"
    assert audited["epsilon"] == pytest.approx(math.log(2) / 0.65)
    mechanism, _ = wh.load_mechanism(tmp_path / "k.whereish")
    city = wh.embedded_city()
    assert seen.text("#figure-loss") == spoken(wh.expected_loss(mechanism, city.places, city.prior))
    assert [one.url for one in seen.asked[before:] if one.url.startswith("http")] == []


@pytest.mark.thorough
def test_what_is_too_large_waits_for_the_person(visit: Visitor) -> None:
    seen = visit(webgl=False).open()
    seen.page.click("#own-open")
    seen.give("#own-input", ("me.csv", profile_csv(208)))
    seen.wait_text("#own-words", "208 places")
    seen.page.click("#own-use")
    said = seen.wait_text("#sends", "208 places are more than the 200")
    assert "would take too long" in said
    assert "service on this machine" in said
    assert seen.page.is_checked("input[value=service]")
    seen.page.wait_for_timeout(300)
    assert posts(seen) == []
    with seen.page.expect_request(lambda one: one.method == "POST") as asked:
        seen.page.click("#build")
    assert len(json.loads(asked.value.post_data)["prior"]) == 208
    seen.page.click("#cancel")
    # On the device it says why not, and asks nobody.
    seen.page.check("input[value=device]")
    seen.page.click("#build")
    seen.wait_text("#trouble-words", "Choose “By the service” to build it there")
    assert len(posts(seen)) == 1


@pytest.mark.thorough
def test_a_long_build_is_cancelled_on_the_device(visit: Visitor) -> None:
    seen = visit(webgl=False).open()
    seen.page.click("#own-open")
    seen.give("#own-input", ("me.csv", profile_csv(192)))
    seen.wait_text("#own-words", "192 places")
    seen.page.click("#own-use")
    seen.wait_text("#progress-words", r"Step \d+: loss")
    seen.page.click("#cancel")
    seen.page.wait_for_selector("#progress", state="hidden")
    assert seen.page.inner_text("#said") == "Building was cancelled."
    # The next one is built: by the same worker, or by a new one.
    seen.page.click("#who-city")
    seen.wait_text("#proved", "Built on this device")
    wait_until(lambda: "Paris" in seen.text("#who-name"))
    assert posts(seen) == []
