"""The page in a real browser, served by the real service: what people see and do with it."""

from __future__ import annotations

import base64
import io
import json
import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import stats

import whereish as wh
from browsing import BROWSER_MARKS, ELSEWHERE, Visit, Visitor, pmtiles
from forgeries import file_of, taken_apart
from lattice_files import lattice_file
from serving import Served, wait_until
from whereish.format import mechanism_bytes, unpack

pytestmark = BROWSER_MARKS


def test_opens_with_something_to_see(visit: Visitor, pictures: Path) -> None:
    seen = visit(1440, 900).open()
    assert "Paris" in seen.text("#who-name")
    assert seen.page.input_value("#metres") == "650"
    said = seen.wait_text("#where", "Reports from here")
    assert re.search(r"the same place \d+ %, .* On average they are \d+ m from the pin", said)
    # The pin stands at the likeliest place, whose cell is not the colour of the ground.
    assert seen.place() == int(np.argmax(wh.embedded_city().prior))
    colour = seen.beside_the_pin()[2]
    assert sum(abs(a - b) for a, b in zip(colour, (252, 252, 247), strict=True)) > 100
    assert float(seen.text("#figure-loss").split()[0]) == pytest.approx(798, abs=1)
    proved = seen.text("#proved")
    assert "No mechanism this private has a loss below 798 m: that is proved" in proved
    # One radius of 95 %, over the prior, in the panel and at the circle.
    city = wh.embedded_city()
    mechanism = wh.optimal(city.places, city.prior, math.log(2) / 0.65, solver="structured")
    reach = wh.report_radius(mechanism, city.prior)
    assert seen.text("#figure-reach") == f"{reach:.2f} km" == "2.49 km"
    assert seen.text("#key-reach") == "95 % of reports: within 2.49 km of the true place"
    assert seen.text("#figure-gap") == "< 0.0001 %"
    # Built here: every request is for a file.
    assert "Built on this device" in proved
    assert "Nothing was sent" in proved
    assert not [one for one in seen.asked if "/v1/mechanisms" in one.url]
    # Built by the service, if the person wants it: the job is deleted there afterwards.
    seen.by_service(build=True)
    assert seen.text("#figure-loss") == "798 m"
    assert "The service has deleted its copy" in seen.text("#proved")
    jobs = [one for one in seen.asked if "/v1/mechanisms" in one.url]
    assert [one.method for one in jobs] == ["POST", "GET", "GET", "GET", "DELETE"]
    # The stream, the file with the prior to show how good it is, and the one to download.
    ends = [one.url.split("/v1/mechanisms/")[1].split("/", 1)[1] for one in jobs[1:4]]
    assert ends == ["events", "file", "file?prior=omit"]
    assert jobs[0].headers["idempotency-key"]
    seen.page.screenshot(path=pictures / "desk-light.png")


@pytest.mark.thorough
def test_the_pin_moves_by_keyboard(visit: Visitor) -> None:
    seen = visit().open()
    seen.wait_text("#where", "The pin is 543 m south-east of République")
    first, (x, y, before) = seen.place(), seen.beside_the_pin()
    stood, _ = seen.tip()
    seen.page.focus("#pane-best .pin")
    seen.page.keyboard.press("ArrowLeft")
    assert seen.place() == first - 1  # cells are in rows from the west
    left, _ = seen.tip()
    assert left < stood - 20
    seen.wait_colour(x, y, lambda colour: colour != before)
    seen.wait_text("#where", r"The pin is (?!543 m south-east of République)")
    assert "Arrow keys" in seen.page.get_attribute("#pane-best .pin", "aria-label")
    seen.page.keyboard.press("ArrowUp")
    assert seen.place() == first - 1 + 8


@pytest.mark.thorough
def test_the_pin_is_dragged(visit: Visitor) -> None:
    seen = visit().open()
    first = seen.place()
    at_x, at_y, before = seen.beside_the_pin()
    x, y = seen.tip()
    said = seen.wait_text("#where", "The pin is")
    seen.page.mouse.move(x, y - 20)
    seen.page.mouse.down()
    seen.page.mouse.move(x - 100, y - 20, steps=4)
    seen.page.mouse.move(x - 200, y - 20, steps=4)
    during = seen.place()
    seen.page.mouse.up()
    assert during == seen.place() != first
    seen.wait_colour(at_x, at_y, lambda colour: colour != before)
    assert seen.wait_text("#where", "The pin is (?!543 m south-east of République)") != said
    # It rests on a place, near where it was let go.
    assert math.dist(seen.tip(), (x - 200, y)) < 60


@pytest.mark.thorough
def test_the_time_told_is_the_time_waited(visit: Visitor) -> None:
    """A service that is slow to hand over the file is part of what the person waits for."""
    seen = visit(webgl=False)

    def slowly(route: Any) -> None:
        time.sleep(3)
        route.continue_()

    seen.page.route("**/file", slowly)
    seen.open().by_service(build=True)
    (waited,) = re.findall(r"Built by the service in (\d+) s", seen.text("#proved"))
    assert int(waited) >= 3


@pytest.mark.thorough
@pytest.mark.parametrize("webgl", [True, False], ids=["webgl", "plain"])
def test_drawn_reports_stay_when_the_theme_changes(visit: Visitor, webgl: bool) -> None:
    """The same reports, drawn in the other theme: on both maps when two are compared."""
    seen = visit(webgl=webgl)
    seen.open()
    seen.page.click("#compare")
    seen.page.wait_for_selector("#pane-laplace .map[data-ready=true]")
    seen.page.wait_for_selector("#compare-table table")
    panes = ("#pane-best", "#pane-laplace")

    def dots(pane: str) -> int:
        """Count the pixels that have the colour of a dot."""
        shot = seen.page.locator(f"{pane} .map").screenshot()
        pixels = np.asarray(Image.open(io.BytesIO(shot)).convert("RGB")).astype(int)
        return int((np.abs(pixels - (255, 176, 46)).max(axis=2) < 8).sum())

    def wait_for_dots(holds: Callable[[list[int]], bool]) -> list[int]:
        wait_until(lambda: holds([dots(pane) for pane in panes]))
        return [dots(pane) for pane in panes]

    wait_for_dots(lambda found: found == [0, 0])
    seen.page.click("#draw-many")
    said = seen.wait_text("#drawn", "100 reports")
    before = wait_for_dots(lambda found: min(found) > 200)
    for _ in range(2):
        seen.page.click("#theme")
        wait_for_dots(lambda found: found == pytest.approx(before, rel=0.1))
        assert [seen.page.get_attribute(pane, "data-drawn") for pane in panes] == ["100", "100"]
        assert seen.text("#drawn") == said
    seen.page.click("#draw-clear")
    wait_for_dots(lambda found: found == [0, 0])


def test_reports_are_drawn_and_nobody_is_told(visit: Visitor) -> None:
    seen = visit(webgl=False).open()
    before = len(seen.asked)
    seen.page.focus("#pane-best .pin")
    seen.page.keyboard.press("ArrowLeft")
    seen.page.click("#draw-one")
    assert seen.wait_text("#drawn", "One report").endswith("from the pin.")
    assert seen.page.get_attribute("#pane-best", "data-drawn") == "1"
    seen.page.click("#draw-many")
    said = seen.wait_text("#drawn", "101 reports")
    assert "101 ε" in said
    assert "Reporter" in said
    seen.page.click("#draw-clear")
    assert seen.page.get_attribute("#pane-best", "data-drawn") == "0"
    assert not seen.page.is_visible("#drawn")
    seen.page.wait_for_timeout(200)
    assert [one.url for one in seen.asked[before:]] == []  # where the pin is stays in the page


def test_the_level_is_in_words(visit: Visitor) -> None:
    seen = visit(webgl=False).open().by_service()
    assert f"{math.log(2) / 0.65:.4g}" in seen.text("#epsilon")
    seen.page.fill("#metres", "300")
    seen.page.fill("#ratio", "4")
    assert f"{math.log(4) / 0.3:.4g}" in seen.text("#epsilon")
    assert "another level" in seen.text("#stale")
    seen.page.fill("#ratio", "1")
    assert "from 1.01 to 1,000,000" in seen.text("#level-wrong")
    assert seen.text("#epsilon") == ""
    assert seen.page.is_disabled("#build")
    seen.page.fill("#ratio", "1e9")
    assert "from 1.01 to 1,000,000" in seen.text("#level-wrong")
    seen.page.fill("#ratio", "1.01")
    assert "1.01 times" in seen.text("#epsilon")
    seen.page.fill("#ratio", "5000")
    assert "5,000 times at 300 m, 25,000,000 times" in seen.text("#epsilon")
    seen.page.fill("#ratio", "4")
    seen.page.check("input[value=faster]")
    with seen.page.expect_request(lambda one: one.method == "POST") as asked:
        seen.page.click("#build")
    recipe = json.loads(asked.value.post_data)
    assert recipe["dilation"] == 1.1
    assert recipe["epsilon_per_km"] == pytest.approx(math.log(4) / 0.3)
    seen.wait_text("#figure-hidden", "300 m")
    assert not seen.page.is_visible("#stale")
    # What is built on a spanner does not claim to be the best.
    assert re.search(r"this loss is at most [\d.]+ % above it", seen.text("#proved"))
    seen.page.click("#certificate-open")
    said = seen.text("#certificate")
    least = r"least loss among mechanisms built on this spanner; at most [\d.]+ % above"
    assert re.search(least, said)
    assert "least loss for this prior" not in said


@pytest.mark.thorough
def test_the_slider_by_keyboard_and_too_fine_a_level(visit: Visitor) -> None:
    seen = visit(webgl=False).open()
    seen.page.focus("#metres-slider")
    seen.page.keyboard.press("Home")
    assert seen.page.input_value("#metres") == "100"
    for _ in range(3):
        seen.page.keyboard.press("ArrowRight")
    assert seen.page.input_value("#metres") == "110"
    assert "870 m apart: at this level a report reveals" in seen.text("#telling")
    seen.page.fill("#metres", "300")
    assert "a report may be 7.46 times likelier from one" in seen.text("#telling").replace(
        "\xa0", " "
    )
    seen.page.fill("#metres", "650")
    assert not seen.page.is_visible("#telling")


@pytest.mark.thorough
@pytest.mark.parametrize("where", ["device", "service"])
def test_planar_laplace_beside_it(visit: Visitor, pictures: Path, where: str) -> None:
    seen = visit(1440, 900).open()
    seen.page.check(f"input[value={where}]")
    seen.page.click("#compare")
    seen.page.wait_for_selector("#compare-table table")
    seen.page.wait_for_selector("#pane-laplace .map[data-ready=true]")
    # Land is drawn later than the map: until then it is not shown as sea.
    box = seen.page.locator("#pane-laplace .map").bounding_box()
    red, _, blue = seen.colour(box["x"] + box["width"] - 20, box["y"] + box["height"] / 2)
    assert blue <= red
    seen.page.click("#draw-many")
    assert seen.page.get_attribute("#pane-laplace", "data-drawn") == "100"
    cells = seen.page.locator("#compare-table tbody tr").first.locator("td").all_inner_texts()
    city, level = wh.embedded_city(), math.log(2) / 0.65
    if where == "service":
        noise = wh.quality_loss(wh.planar_laplace(city.places, level), city.prior)
    else:  # with the best remap for the prior
        made = wh.planar_laplace_everywhere(city.places, city.prior, level)
        noise = wh.expected_loss(made, city.places, city.prior)
        assert "best remap" in seen.text("#compare-table")
        assert not [one for one in seen.asked if one.method == "POST"]
    assert float(cells[0].split()[0]) == pytest.approx(798, abs=1)
    assert in_km(*cells[1].replace("\u00a0", " ").split()) == pytest.approx(noise, abs=0.006)
    # One pin, one camera.
    seen.page.focus("#pane-laplace .pin")
    seen.page.keyboard.press("ArrowLeft")
    assert seen.page.get_attribute("#pane-laplace", "data-place") == str(seen.place())

    def offset(pane: str) -> Any:
        corner = [seen.page.locator(pane).bounding_box()[k] for k in "xy"]
        return np.subtract(seen.tip(pane), corner)

    def zoomed_together() -> bool:
        seen.page.wait_for_timeout(350)  # the camera moves for 300 ms
        best, other = offset("#pane-best"), offset("#pane-laplace")
        return bool(np.abs(best - before).max() > 5 and np.abs(best - other).max() < 1.5)

    before = offset("#pane-best")
    seen.page.click("#pane-best .maplibregl-ctrl-zoom-in")
    wait_until(zoomed_together)
    seen.page.screenshot(path=pictures / f"compare-{where}.png")
    seen.page.click("#compare")
    assert not seen.page.is_visible("#pane-laplace")


def test_the_certificate_and_a_file_that_draws_as_it_says(visit: Visitor, tmp_path: Path) -> None:
    seen = visit(webgl=False)
    bodies: list[bytes] = []
    seen.page.on(
        "response",
        lambda answer: bodies.append(answer.body()) if "/file?prior=omit" in answer.url else None,
    )
    seen.open().by_service(build=True)
    seen.page.click("#certificate-open")
    said = seen.text("#certificate")
    for part in (
        "108,288 ratios", "exact arithmetic", "twice at 0.65 km", "For one report",
        "two points 100 m apart: at most 4.2 times", "least loss for this prior",
    ):  # fmt: skip
        assert part in said
    # The time that a person waited includes that of the computation, which is in the file.
    (searched,) = re.findall(r"The computation took ([\d.]+) s \(", said)
    (waited,) = re.findall(r"Built by the service in ([\d.]+) s", seen.text("#proved"))
    assert float(waited) >= float(searched)
    assert re.search(r"whereish audit whereish-1\.066\.whereish", said)
    assert re.search(r"SHA-256 [0-9a-f]{64}", said)
    seen.page.keyboard.press("Escape")
    assert not seen.page.is_visible("#certificate")
    with seen.page.expect_download() as coming:
        seen.page.click("#download")
    assert coming.value.suggested_filename == "whereish-1.066.whereish"
    path = tmp_path / "k.whereish"
    coming.value.save_as(path)
    assert [path.read_bytes()] == bodies
    # The page knows the prior; the file that is taken away does not, and its digest is shown.
    arrays, about = unpack(path.read_bytes())
    assert "prior" not in arrays
    assert json.loads(about["certificate"])["quality_loss_km"] is None
    length = int.from_bytes(path.read_bytes()[:8], "little")
    header = json.loads(path.read_bytes()[8 : 8 + length])
    digest = header["__metadata__"]["sha256"]
    assert f"SHA-256 {digest}" in said
    assert "The file holds no prior" in said
    assert wh.audit_file(path)["epsilon"] == pytest.approx(math.log(2) / 0.65)
    mechanism, _ = wh.load_mechanism(path)
    found = seen.page.evaluate(
        """async ([text, place, draws]) => {
          const { readMechanism } = await import("/assets/vendor/whereish.js");
          const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
          const mechanism = await readMechanism(bytes, { warn: false });
          const seen = new Array(mechanism.reports).fill(0);
          for (let i = 0; i < draws; i++) seen[mechanism.draw(place)]++;
          return { seen, counts: mechanism.countsOf(place).map(String) };
        }""",
        [base64.b64encode(path.read_bytes()).decode(), 20, 200_000],
    )
    counts = [int(text) for text in found["counts"]]
    assert counts == mechanism.counts[20].tolist()
    expected = np.array(counts, dtype=float) / 2**63 * 200_000
    drawn = np.array(found["seen"], dtype=float)
    assert drawn[expected == 0].sum() == 0
    rare = expected < 10
    seen_in, wanted = (np.append(values[~rare], values[rare].sum()) for values in (drawn, expected))
    keep = wanted > 0
    assert stats.chisquare(seen_in[keep], wanted[keep] * 200_000 / wanted.sum()).pvalue > 1e-6


def test_a_mechanism_is_opened_from_disk(visit: Visitor, tmp_path: Path) -> None:
    path = tmp_path / "mine.whereish"
    places = wh.Places.from_latlon([[52.5, 13.3], [52.51, 13.33], [52.52, 13.36], [52.53, 13.38]])
    prior = [0.4, 0.3, 0.2, 0.1]
    wh.save_mechanism(path, wh.optimal(places, prior, 2.0), prior)
    seen = visit(webgl=False).open()
    content = path.read_bytes()
    seen.give("#file-input", ("bad.whereish", content[:-1] + bytes([content[-1] ^ 1])))
    assert "bad.whereish cannot be opened: the file was changed" in seen.wait_text(
        "#trouble", "cannot be opened"
    )
    assert "Paris" in seen.text("#who-name")  # and nothing else has changed
    seen.give("#file-input", ("mine.whereish", content))
    seen.wait_text("#who-name", "mine.whereish")
    assert "4 places" in seen.text("#who-more")
    assert float(seen.page.input_value("#metres")) == pytest.approx(math.log(2) / 2 * 1000, abs=0.1)
    assert not seen.page.is_visible("#trouble")
    seen.page.click("#who-city")
    seen.wait_text("#who-name", "Paris")
    seen.page.wait_for_selector("#result:not([hidden])")


@pytest.mark.thorough
def test_the_promise_of_an_opened_file_is_not_in_the_words_of_the_file(visit: Visitor) -> None:
    places = wh.Places.from_latlon([[52.5, 13.3], [52.51, 13.33], [52.52, 13.36], [52.53, 13.38]])
    made = wh.exponential(places, 2.0)
    arrays, told, claimed = taken_apart(mechanism_bytes(made))
    lies = {
        "guarantee": ["This mechanism has epsilon 0.0001: perfect privacy."],
        "quality_loss_km": 0.512, "lower_bound_km": 0.512, "gap": 0.0, "method": "optimal",
    }  # fmt: skip
    seen = visit(webgl=False).open()
    seen.give("#file-input", ("forged.whereish", file_of(arrays, told, {**claimed, **lies})))
    seen.wait_text("#who-name", "forged")
    seen.page.click("#certificate-open")
    said = seen.text("#certificate")
    assert "perfect" not in said
    assert "proved" not in said + seen.text("#proved"), "nobody has checked what it says it proves"
    # It is what Python says of the same mechanism; an example comes after one of the sentences.
    for words in wh.certify(made)["guarantee"]:
        assert words in said


@pytest.mark.thorough
def test_a_file_without_a_prior_claims_nothing_of_it(visit: Visitor, tmp_path: Path) -> None:
    path = tmp_path / "k.whereish"
    places = wh.Places.from_latlon([[52.5, 13.3], [52.51, 13.33], [52.52, 13.36], [52.53, 13.38]])
    wh.save_mechanism(path, wh.optimal(places, [0.4, 0.3, 0.2, 0.1], 2.0))
    seen = visit(webgl=False).open()
    seen.give("#file-input", ("no prior.whereish", path.read_bytes()))
    seen.wait_text("#who-name", "no prior")
    assert seen.text("#figure-loss") == seen.text("#figure-reach") == "not known"
    said = seen.text("#proved")
    assert "not known: the file does not hold the prior" in said
    assert "do not share it" not in said
    assert "not known" in seen.text("#key-usual")
    assert "equally likely" in seen.text("#sends")
    assert "of the middle of the places" in seen.wait_text("#where", "The pin is")
    seen.page.click("#certificate-open")
    said = seen.text("#certificate")
    assert "whereish audit 'no prior.whereish'" in said
    assert "does not hold the prior" in said
    assert "least loss for this prior" not in said
    seen.page.keyboard.press("Escape")
    seen.page.click("#compare")
    said = seen.wait_text("#compare-table", "does not hold the prior")
    assert re.search(r"best guess\s+not known\s+not known", said)
    seen.page.click("#compare")
    seen.page.click("#build")
    assert "equally likely" in seen.wait_text("#proved", "that is proved")


def gpx(points: list[tuple[float, float, str]]) -> str:
    rows = "".join(
        f'<trkpt lat="{lat}" lon="{lon}"><ele>3</ele><time>{time}</time></trkpt>'
        for lat, lon, time in points
    )
    return f'<?xml version="1.0"?><gpx version="1.1"><trk><trkseg>{rows}</trkseg></trk></gpx>'


def days(lat: float, lon: float) -> list[tuple[float, float, str]]:
    """Nights at one place, days at another 2 km east of it."""
    return [
        (lat, lon + (0.03 if 9 <= hour < 17 else 0.0), f"2024-05-{day:02d}T{hour:02d}:10:00Z")
        for day in range(1, 6)
        for hour in range(24)
    ]


def test_own_traces_are_read_here(visit: Visitor, pictures: Path) -> None:
    seen = visit(1440, 900, webgl=False).open()
    before = len(seen.asked)
    seen.page.click("#own-open")
    stay = {
        "startTime": "2024-05-06T20:00:00.000+02:00",
        "endTime": "2024-05-07T06:00:00.000+02:00",
        "visit": {"topCandidate": {"placeLocation": {"latLng": "59.9130°, 10.7500°"}}},
    }
    seen.give(
        "#own-input",
        ("walk.gpx", gpx(days(59.913, 10.75))),
        ("Timeline.json", json.dumps({"semanticSegments": [stay]})),
    )
    said = seen.wait_text("#own-words", "points")
    assert "hold 100 %" in said
    assert "130 hours" in said
    assert "Nothing is sent" in seen.text("#own-sends")
    seen.page.screenshot(path=pictures / "own.png")
    seen.page.click("#own-use")
    seen.wait_text("#proved", "Built on this device .* Nothing was sent")
    assert [one.url for one in seen.asked[before:]] == []
    # By the service, if the person asks for it: what is said to be sent is sent.
    seen.by_service()
    assert "service on this machine" in seen.text("#sends")
    with seen.page.expect_request(lambda one: one.method == "POST") as asked:
        seen.page.click("#build")
    recipe = json.loads(asked.value.post_data)
    assert sum(recipe["prior"]) == pytest.approx(1)
    # 90 hours of 130 at home, 40 at work; the places around are there to hide among.
    assert sorted(recipe["prior"])[-2:] == pytest.approx([40 / 130, 90 / 130])
    assert "2024" not in asked.value.post_data
    seen.wait_text("#proved", "Built by the service")
    assert "2 files" in seen.text("#who-name")


OTHER_KINDS = {
    "table.csv": "when,latitude,longitude\n"
    + "".join(f"2024-05-01 {h:02d}:00:00,40.0{h % 3},-3.7\n" for h in range(24)),
    "Records.json": json.dumps(
        {
            "locations": [
                {
                    "latitudeE7": 400000000,
                    "longitudeE7": 4294967296 - 37000000,
                    "timestamp": f"2024-05-01T{h:02d}:00:00Z",
                }
                for h in range(24)
            ]
        }
    ),
    "line.geojson": json.dumps(
        {
            "type": "Feature",
            "properties": {"coordTimes": [f"2024-05-01T{h:02d}:00:00Z" for h in range(24)]},
            "geometry": {"type": "LineString", "coordinates": [[-3.7, 40.0]] * 24},
        }
    ),
    "20240501.plt": "\n" * 6
    + "".join(f"40.0,-3.7,0,100,45413.0,2024-05-01,{h:02d}:00:00\n" for h in range(24)),
}


@pytest.mark.thorough
def test_every_kind_of_trace_and_bad_files_say_so(visit: Visitor) -> None:
    seen = visit(webgl=False).open()
    seen.page.click("#own-open")
    for name, content in OTHER_KINDS.items():
        seen.give("#own-input", (name, content))
        assert "24 points, 24 hours" in seen.wait_text("#own-words", "points"), name
        seen.page.evaluate("document.getElementById('own-words').textContent = ''")
    bad: tuple[tuple[str, str | bytes, str], ...] = (
        ("broken.json", '{"locations": [', "must be valid JSON"),
        ("empty.gpx", "", "the file is empty"),
        ("other.csv", "a,b\n1,2\n", "columns lat and lon"),
        ("zip.gpx", b"PK\x03\x04\x00\x00", "unpack archives"),
        ("me.csv", "lat,lon,prior\n48.85,2.35,x\n48.86,2.35,1\n", "prior must be a number"),
        ("two.csv", "lat,lon,prior\n48.85,2.35,1\n48.85,2.35,1\n", "must be different"),
    )
    for name, wrong, words in bad:
        seen.give("#own-input", (name, wrong))
        assert name in seen.wait_text("#own-wrong", words)
    seen.page.click("#own-close")
    assert "Paris" in seen.text("#who-name")
    assert seen.page.is_visible("#result")


def profile_csv(n: int) -> str:
    rng = np.random.default_rng(3)
    prior = rng.gamma(0.4, size=n) + 1e-5
    prior /= prior.sum()
    rows = "".join(
        f"{45.7 + 0.006 * (i // 16)},{4.8 + 0.009 * (i % 16)},{p}\n"
        for i, p in enumerate(prior.tolist())
    )
    return "lat,lon,prior\n" + rows


@pytest.mark.thorough
@pytest.mark.parametrize("places", [3, 4])
def test_small_profiles_are_proved_too(visit: Visitor, places: int) -> None:
    seen = visit(webgl=False).open()
    seen.page.click("#own-open")
    rows = "".join(f"{k},{k % 2},{k + 1}\n" for k in range(places))
    seen.give("#own-input", ("plane.csv", "x_km,y_km,prior\n" + rows))
    total = places * (places + 1) // 2
    assert f"sums to {total}, not to 1" in seen.wait_text("#own-words", f"{places} places")
    seen.page.click("#own-use")
    seen.wait_text("#sends", "without coordinates on the earth are built by the service only")
    seen.page.click("#build")
    seen.wait_text("#proved", "that is proved")
    seen.wait_text("#where", "The pin is at the most likely place")
    # Without an earth there are no degrees.
    degrees = seen.page.locator("#pane-best .degree").all_text_contents()
    assert degrees
    assert all(text.endswith(" km") for text in degrees)


@pytest.mark.thorough
def test_files_are_told_of_as_they_are(visit: Visitor) -> None:
    seen = visit(webgl=False).open()
    seen.page.click("#own-open")
    seen.give("#own-input", ("far.csv", "lat,lon,prior\n48.8,2.3,1\n140,2.3,1\n"))
    assert "latitude" in seen.wait_text("#own-wrong", "is not in row 2")
    whole = gpx(days(59.913, 10.75))
    seen.give("#own-input", ("cut.gpx", whole[: len(whole) // 2]))
    assert "cut.gpx is incomplete" in seen.wait_text("#own-wrong", "ends early")
    assert "points" in seen.text("#own-words")
    seen.give("#own-input", ("walk.gpx", whole), ("bad.json", "{"))
    seen.wait_text("#own-wrong", "bad.json could not be used")
    seen.page.click("#own-use")
    assert seen.wait_text("#who-name", "walk") == "walk.gpx"


def everywhere(seen: Visit) -> Any:
    """Ask the service for a guarantee between any two points; return the recipe that was sent."""
    seen.by_service()
    seen.page.focus("input[name=guarantee]:checked")
    seen.page.keyboard.press("ArrowRight")
    assert "another level or guarantee" in seen.text("#stale")
    assert not seen.page.is_visible("#modes")
    with seen.page.expect_request(lambda one: one.method == "POST") as asked:
        seen.page.click("#build")
    seen.wait_text("#proved", "corners of the lattice were checked")
    return json.loads(asked.value.post_data)


@pytest.mark.thorough
def test_a_guarantee_between_any_two_points(visit: Visitor, tmp_path: Path, pictures: Path) -> None:
    seen = visit(1440, 900).open()
    recipe = everywhere(seen)
    city = wh.embedded_city()
    assert recipe["guarantee"] == "everywhere"
    assert recipe["prior"] == pytest.approx(city.prior[city.prior > 0].tolist())
    assert seen.text("#figure-what") == "Points look alike within"
    assert not seen.page.is_visible("#compare")
    # The pin stands anywhere, and what is drawn has the interpolated probabilities.
    before = len(seen.asked)
    x, y = seen.tip()
    seen.page.mouse.move(x, y - 20)
    seen.page.mouse.down()
    seen.page.mouse.move(x - 37, y - 9, steps=4)
    seen.page.mouse.up()
    assert math.dist(seen.tip(), (x - 37, y + 11)) < 2
    seen.page.focus("#pane-best .pin")
    seen.page.keyboard.press("ArrowUp")
    assert seen.tip()[1] < y + 11 - 3
    assert "move it by 100\u00a0m" in seen.page.get_attribute("#pane-best .pin", "aria-label")
    seen.page.click("#draw-many")
    seen.wait_text("#drawn", "100 reports")
    assert [one.url for one in seen.asked[before:]] == []  # where the pin is stays in the page
    seen.page.screenshot(path=pictures / "everywhere-light.png")
    seen.page.click("#certificate-open")
    words = seen.text("#certificate")
    assert "For any two points d km apart, wherever they are" in words
    assert "every corner" in words
    seen.page.keyboard.press("Escape")
    with seen.page.expect_download() as coming:
        seen.page.click("#download")
    path = tmp_path / "k.whereish"
    coming.value.save_as(path)
    assert "points" not in unpack(path.read_bytes())[0]
    audited = wh.audit_file(path)
    assert audited["kind"] == "lattice"
    # The words are those of the file's mechanism at the position of the pin.
    mechanism, _ = wh.load_mechanism(path)
    lat, lon = (
        float(part) for part in seen.page.get_attribute("#pane-best", "data-place").split(",")
    )
    here = mechanism.outputs.plane.to_xy(np.array([[lat, lon]]))
    shares = mechanism.probabilities([[lat, lon]])[0]
    far = np.hypot(*(mechanism.outputs.xy - here).T)
    mean = f"{1000 * float(shares @ far):.0f} m"
    seen.wait_text("#where", f"On average they are {mean} from the pin")
    # Back between places: the pin rests on a place again.
    seen.page.check("input[value=places]")
    seen.page.click("#build")
    seen.wait_text("#proved", "ratios were checked")
    assert 0 <= seen.place() < 48
    assert seen.page.is_visible("#compare")


@pytest.mark.thorough
def test_own_traces_with_a_guarantee_between_any_two_points(visit: Visitor, pictures: Path) -> None:
    seen = visit(
        390, 844, host=ELSEWHERE, color_scheme="dark", has_touch=True, is_mobile=True
    ).open()
    before = len(seen.asked)
    seen.by_service()
    seen.page.check("input[value=everywhere]")
    seen.page.click("#own-open")
    seen.give("#own-input", ("walk.gpx", gpx(days(59.913, 10.75))))
    seen.wait_text("#own-words", "points")
    assert "2 visited points" in seen.text("#own-sends")
    assert "finer than places" in seen.text("#own-sends")
    seen.page.click("#own-use")
    assert "2 visited points" in seen.text("#sends")
    seen.page.click("#build")
    assert "2 visited points and the share" in seen.wait_text("#consent-words", "will send")
    assert [one.url for one in seen.asked[before:] if one.method == "POST"] == []
    with seen.page.expect_request(lambda one: one.method == "POST") as asked:
        seen.page.click("#consent button[value=yes]")
    recipe = json.loads(asked.value.post_data)
    assert recipe["prior"] == pytest.approx([2 / 3, 1 / 3])
    assert np.abs(np.subtract(recipe["places"]["latlon"][0], [59.913, 10.75])).max() < 3e-4
    assert set(recipe) == {
        "places", "prior", "epsilon_per_km", "guarantee", "method", "time_limit_s", "keep_prior",
    }  # fmt: skip
    seen.wait_text("#proved", "does not hold your visited points")
    seen.wait_text("#where", "The pin is at the most visited point")
    # The consent was for points: places need theirs.
    seen.page.check("input[value=places]")
    seen.page.click("#build")
    assert "50 places and how likely" in seen.wait_text("#consent-words", "will send")
    seen.page.click("#consent button[value=no]")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
    seen.page.check("input[value=everywhere]")
    seen.page.screenshot(path=pictures / "everywhere-phone-dark.png", full_page=True)


@pytest.mark.thorough
def test_a_file_for_every_point_is_opened(visit: Visitor, pictures: Path) -> None:
    places = wh.Places.from_latlon([[52.5, 13.3], [52.51, 13.33], [52.52, 13.36]])
    visits = (places, [0.5, 0.3, 0.2])
    made = wh.optimal_everywhere(*visits, 1.0, vertices=64, method="lattice")
    content = mechanism_bytes(made, visits)
    seen = visit().open()
    seen.give("#file-input", ("bad.whereish", content[:-1] + bytes([content[-1] ^ 1])))
    seen.wait_text("#trouble-words", "bad.whereish cannot be opened: the file was changed")
    seen.give("#file-input", ("mine.whereish", content))
    seen.wait_text("#who-more", "3 visited points")
    assert not seen.page.is_visible("#trouble")
    assert seen.page.is_checked("input[value=everywhere]")
    loss = wh.expected_loss(made, *visits)
    assert seen.text("#figure-loss") == (f"{1000 * loss:.0f} m" if loss < 1 else f"{loss:.2f} km")
    assert "The file holds your visited points" in seen.text("#proved")
    seen.page.click("#draw-one")
    seen.wait_text("#drawn", "One report")
    seen.give("#file-input", ("bare.whereish", mechanism_bytes(made)))
    seen.wait_text("#who-name", "bare")
    assert seen.text("#figure-loss") == "not known"
    assert "does not hold the prior" in seen.text("#proved")
    seen.page.screenshot(path=pictures / "everywhere-opened.png")


def spoken(km: float) -> str:
    """Return a length as the page says it."""
    return f"{1000 * km:.0f} m" if km < 0.995 else f"{km:.2f} km"


def noise_at_pin(seen: Visit, mechanism: wh.PlanarLaplaceEverywhere) -> Any:
    """Return draws of the library at the pin: how far each is from the pin, in km."""
    words = seen.page.get_attribute("#pane-best", "data-place").split(",")
    at = [float(part) for part in words]
    assert mechanism.outputs.plane is not None
    here = mechanism.outputs.plane.to_xy(np.array([at]))[0]
    drawn = mechanism.sample(at, size=20_000, rng=np.random.default_rng(3))
    return np.hypot(*(drawn.xy - here).T)


def check_noise_words(seen: Visit, mechanism: wh.PlanarLaplaceEverywhere) -> None:
    """Check what the page says about reports from the pin against draws of the library."""
    away = noise_at_pin(seen, mechanism)
    said = seen.wait_text("#where", "On average they are")
    found = re.search(r"On average they are ([\d.]+) (k?m) from the pin", said)
    assert found is not None
    assert in_km(*found.groups()) == pytest.approx(away.mean(), abs=4 * away.std() / 140 + 0.001)


def in_km(number: str, unit: str) -> float:
    """Return a length that the page says, in km."""
    return float(number) / (1 if unit == "km" else 1000)


def check_noise_reach(
    seen: Visit, mechanism: wh.PlanarLaplaceEverywhere, points: wh.Places, weights: Any
) -> None:
    """Check the radius of 95 % over the visited points against draws of the library."""
    rng = np.random.default_rng(5)
    assert points.latlon is not None
    away, parts = list[Any](), list[Any]()
    for latlon, weight in zip(points.latlon.tolist(), weights, strict=True):
        here = mechanism.outputs.plane.to_xy(np.array([latlon]))[0]  # type: ignore[union-attr]
        drawn = mechanism.sample(latlon, size=4000, rng=rng)
        away.append(np.hypot(*(drawn.xy - here).T))
        parts.append(np.full(4000, weight / 4000))
    reach = in_km(*seen.text("#figure-reach").split())
    far, weigh = np.concatenate(away), np.concatenate(parts)
    # The radius is the distance of an output, rounded.
    assert weigh[far <= reach + 0.006].sum() > 0.94
    assert weigh[far < reach - 0.006].sum() < 0.96


@pytest.mark.thorough
def test_noise_is_built_where_it_is_the_better_one(
    visit: Visitor, tmp_path: Path, pictures: Path
) -> None:
    seen = visit(1440, 900, webgl=False).open().by_service()
    seen.page.check("input[value=everywhere]")
    seen.page.fill("#metres", "100")
    with seen.page.expect_request(lambda one: one.method == "POST") as asked:
        seen.page.click("#build")
    assert "lattice_only" not in json.loads(asked.value.post_data)
    assert "Planar Laplace noise is drawn exactly" in seen.wait_text("#proved", "noise")
    assert seen.text("#figure-what") == "Points look alike within"
    assert seen.text("#figure-hidden") == "100 m"
    assert not seen.page.is_visible("#compare")
    with seen.page.expect_download() as coming:
        seen.page.click("#download")
    path = tmp_path / "k.whereish"
    coming.value.save_as(path)
    assert "points" not in unpack(path.read_bytes())[0]
    audited = wh.audit_file(path)
    assert audited["kind"] == "planar-laplace"
    mechanism, _ = wh.load_mechanism(path)
    # What it costs: computed by the page from the table, and by the library.
    city = wh.embedded_city()
    used = city.prior > 0
    visited = city.places.subset(np.flatnonzero(used).tolist()), city.prior[used]
    best = wh.optimal_everywhere(*visited, math.log(2) / 0.1)
    assert isinstance(best, wh.PlanarLaplaceEverywhere)
    loss = wh.expected_loss(mechanism, *visited)
    assert float(seen.text("#figure-loss").split()[0]) == pytest.approx(1000 * loss, abs=1.5)
    check_noise_reach(seen, mechanism, *visited)
    # The pin stands anywhere, and nobody is told where.
    before = len(seen.asked)
    x, y = seen.tip()
    seen.page.mouse.move(x, y - 20)
    seen.page.mouse.down()
    seen.page.mouse.move(x - 37, y - 9, steps=4)
    seen.page.mouse.up()
    assert math.dist(seen.tip(), (x - 37, y + 11)) < 2
    check_noise_words(seen, mechanism)
    for _ in range(4):
        seen.page.click("#draw-many")
    said = seen.wait_text("#drawn", "400 reports")
    found = re.search(r"on average ([\d.]+) (k?m) from the pin", said)
    assert found is not None
    away = noise_at_pin(seen, mechanism)
    mean = float(found[1]) / (1 if found[2] == "km" else 1000)
    assert mean == pytest.approx(away.mean(), abs=away.std() / 2 + 0.001)  # 10 deviations of 400
    assert [one.url for one in seen.asked[before:]] == []
    seen.page.screenshot(path=pictures / "noise-light.png")
    seen.page.click("#certificate-open")
    words = seen.text("#certificate")
    assert "For any two points d km apart, wherever they are" in words
    assert "The guarantee is that of the noise" in words
    other = f"The best lattice that was found would lose {spoken(best.build.other_loss_km or 0)}."
    assert other in words
    assert other in seen.text("#proved")
    assert "every cell of the table names a report" in words
    assert not re.search("corner|rectangle|its lattice|0 ratios", words)
    seen.page.screenshot(path=pictures / "noise-certificate.png")
    seen.page.keyboard.press("Escape")
    # A level at which the lattice is better, and back to places.
    seen.page.fill("#metres", "650")
    seen.page.click("#build")
    seen.wait_text("#proved", "corners of the lattice were checked")
    seen.page.check("input[value=places]")
    seen.page.click("#build")
    seen.wait_text("#proved", "ratios were checked")
    assert 0 <= seen.place() < 48


@pytest.mark.thorough
def test_a_file_of_noise_is_opened(visit: Visitor, pictures: Path) -> None:
    places = wh.Places.from_latlon([[52.5, 13.3], [52.51, 13.33], [52.52, 13.36]])
    visits = (places, [0.5, 0.3, 0.2])
    noise = wh.planar_laplace_everywhere(*visits, 1.0)
    loss = spoken(wh.expected_loss(noise, *visits))
    seen = visit(390, 844, color_scheme="dark", has_touch=True, is_mobile=True).open()
    arrays, told, claimed = taken_apart(mechanism_bytes(noise, visits))
    beyond = {**arrays, "table": np.full_like(arrays["table"], len(noise.outputs))}
    seen.give("#file-input", ("bad.whereish", lattice_file(beyond, told, claimed)))
    seen.wait_text("#trouble-words", "bad.whereish cannot be opened: table must name outputs")
    # A false loss: the page computes its own.
    false = lattice_file(arrays, told, {**claimed, "quality_loss_km": 0.001})
    seen.give("#file-input", ("mine.whereish", false))
    seen.wait_text("#who-more", "3 visited points")
    assert not seen.page.is_visible("#trouble")
    assert seen.page.is_checked("input[value=everywhere]")
    assert seen.text("#figure-loss") == loss
    assert "The file holds your visited points" in seen.text("#proved")
    seen.wait_text("#where", "The pin is at the most visited point")
    check_noise_words(seen, noise)
    check_noise_reach(seen, noise, *visits)
    seen.page.click("#draw-one")
    seen.wait_text("#drawn", "One report")
    seen.page.click("#certificate-open")
    words = seen.text("#certificate")
    assert f"A report is {loss} from the true point on average" in words
    assert "The file holds no prior" not in words
    seen.page.click("#certificate button")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
    seen.page.screenshot(path=pictures / "noise-phone-dark.png", full_page=True)
    seen.give("#file-input", ("bare.whereish", mechanism_bytes(noise)))
    seen.wait_text("#who-name", "bare")
    assert seen.text("#figure-loss") == "not known"
    # In a plane, and so large a level that the noise is smaller than a cell.
    flat = wh.planar_laplace_everywhere([[0, 0], [3, 4]], None, 200.0)
    seen.give("#file-input", ("flat.whereish", mechanism_bytes(flat)))
    seen.wait_text("#where", "Reports from here: the same place 100 %")


@pytest.mark.thorough
def test_a_profile_with_visited_points_is_built_for_them(visit: Visitor) -> None:
    seen = visit(webgl=False).open().by_service()
    seen.page.check("input[value=everywhere]")
    seen.page.click("#own-open")
    head = "lat,lon,prior,visited\n"
    seen.give("#own-input", ("bad.csv", head + "48.85,2.35,1,48.85 2.35\n48.86,2.35,1,\n"))
    seen.wait_text("#own-wrong", "visited must be points .* is not in row 1")
    rows = (
        "48.85,2.35,0.5,48.8501 2.3501 0.5; 48.851 2.351 0.25\n48.86,2.37,0.5,48.861 2.371 0.25\n"
    )
    seen.give("#own-input", ("me.csv", head + rows))
    assert "3 visited points" in seen.wait_text("#own-sends", "visited")
    seen.page.click("#own-use")
    with seen.page.expect_request(lambda one: one.method == "POST") as asked:
        seen.page.click("#build")
    recipe = json.loads(asked.value.post_data)
    assert recipe["prior"] == [0.5, 0.25, 0.25]
    assert recipe["places"]["latlon"][0] == [48.8501, 2.3501]
    seen.wait_text("#proved", "corners of the lattice were checked")
    # A person who is always at one place.
    seen.page.click("#own-open")
    seen.give("#own-input", ("home.plt", OTHER_KINDS["20240501.plt"]))
    seen.wait_text("#own-words", "24 points")
    seen.page.click("#own-use")
    seen.wait_text("#who-name", "home.plt")
    seen.page.click("#build")
    seen.wait_text("#where", "Reports from here: the same place 100 %")
    assert seen.text("#figure-loss") == "0 m"


@pytest.mark.thorough
def test_a_live_bar_and_a_way_out(visit: Visitor, service: Served) -> None:
    seen = visit(webgl=False).open()
    seen.page.click("#own-open")
    seen.give("#own-input", ("me.csv", profile_csv(256)))
    seen.wait_text("#own-words", "256 places")
    seen.page.click("#own-use")
    with seen.page.expect_response(lambda one: one.request.method == "POST") as made:
        seen.page.click("#build")
    job = made.value.json()["id"]
    seen.wait_text("#progress-words", r"Step \d+: loss .*, within [\d.]+ % of the least possible")
    assert 0 < seen.page.evaluate("document.getElementById('bar').value") < 1
    with seen.page.expect_response(lambda one: one.request.method == "DELETE") as gone:
        seen.page.click("#cancel")
    assert gone.value.status == 204
    assert not seen.page.is_visible("#progress")
    with service.client() as client:
        assert client.get(f"/v1/mechanisms/{job}").status_code == 404
    assert "me.csv" in seen.text("#who-name")
    # Leaving is a way out, too.
    with seen.page.expect_response(lambda one: one.request.method == "POST") as made:
        seen.page.click("#build")
    job = made.value.json()["id"]
    seen.wait_text("#progress-words", r"Step \d+")
    seen.page.goto("about:blank")
    with service.client() as client:
        wait_until(lambda: client.get(f"/v1/mechanisms/{job}").status_code == 404)


def test_on_another_machine_nothing_personal_is_sent_unasked(visit: Visitor) -> None:
    seen = visit(host=ELSEWHERE, webgl=False).open().by_service()
    before = len(seen.asked)
    seen.page.click("#own-open")
    seen.give("#own-input", ("walk.gpx", gpx(days(59.913, 10.75))))
    seen.wait_text("#own-words", "points")
    assert ELSEWHERE in seen.text("#own-sends")
    seen.page.click("#own-use")
    seen.page.click("#build")
    assert ELSEWHERE in seen.wait_text("#consent-words", "places")
    seen.page.click("#consent button[value=no]")
    seen.page.wait_for_timeout(200)
    assert [one.url for one in seen.asked[before:] if one.method == "POST"] == []
    seen.page.click("#build")
    seen.page.click("#consent button[value=yes]")
    seen.page.wait_for_selector("#result:not([hidden])")


@pytest.mark.thorough
def test_what_the_service_refuses_is_told(visit: Visitor) -> None:
    seen = visit(webgl=False).open().by_service()
    seen.expected += ["status of 4", "status of 5", "net::ERR_FAILED"]
    answers: list[tuple[int, dict[str, str], str]] = [
        (429, {"Retry-After": "1"}, "there are too many jobs"),
        (422, {}, "epsilon_per_km must be positive"),
        (500, {}, "something broke"),
    ]

    def refuse(route: Any) -> None:
        if route.request.method != "POST" or not answers:
            route.fallback()
            return
        status, headers, message = answers.pop(0)
        told = {"code": "x", "message": message, "field": None, "request_id": "r"}
        route.fulfill(status=status, headers=headers, json={"error": told})

    seen.page.route("**/v1/mechanisms", refuse)
    seen.page.click("#build")
    seen.wait_text("#progress-words", "next attempt in 1 s")
    assert seen.wait_text("#trouble-words", "positive").startswith("Epsilon_per_km must")
    assert seen.page.is_visible("#pane-best .pin")
    seen.page.click("#trouble-retry")
    assert "tell the operator" in seen.wait_text("#trouble-words", "Something broke")
    seen.page.click("#trouble-retry")  # and now it answers
    seen.page.wait_for_selector("#trouble", state="hidden")
    seen.page.wait_for_selector("#progress", state="hidden")
    seen.page.route("**/v1/mechanisms", lambda route: route.abort())
    seen.page.click("#build")
    assert "does not answer" in seen.wait_text("#trouble-words", "answer")
    seen.page.unroute("**/v1/mechanisms")
    seen.page.click("#trouble-retry")
    seen.page.wait_for_selector("#trouble", state="hidden")


@pytest.mark.thorough
def test_an_outage_is_waited_for(visit: Visitor) -> None:
    seen = visit(webgl=False)
    seen.page.add_init_script(
        "window.later = 0; const real = performance.now.bind(performance);"
        "performance.now = () => real() + window.later;"
    )
    seen.open().by_service()
    seen.expected += ["net::ERR_FAILED", "status of 429"]
    away = True

    def cut(route: Any) -> None:
        if away and route.request.method == "GET":
            route.abort()
        else:
            route.fallback()

    seen.page.route("**/v1/mechanisms/**", cut)
    before = len(seen.asked)
    seen.page.click("#build")
    seen.wait_text("#progress-words", "Waiting for the service")
    seen.page.evaluate("window.later = 301000")  # and five minutes are over
    said = seen.wait_text("#trouble-words", "does not answer")
    assert "stays usable" in said
    assert "may still hold" in said
    away = False
    refused = [429]

    def busy(route: Any) -> None:
        if refused:
            told = {"code": "x", "message": "slowly", "field": None, "request_id": "r"}
            headers = {"Retry-After": "1"}
            route.fulfill(status=refused.pop(), headers=headers, json={"error": told})
        else:
            route.fallback()

    seen.page.route("**/file", busy)
    with seen.page.expect_response(lambda one: one.request.method == "DELETE") as gone:
        seen.page.click("#trouble-retry")
    assert gone.value.status == 204
    seen.page.wait_for_selector("#progress", state="hidden")
    assert not seen.page.is_visible("#trouble")
    asked = [one for one in seen.asked[before:] if "/v1/mechanisms" in one.url]
    assert [one.method for one in asked if one.method != "GET"] == ["POST", "DELETE"]
    assert len({one.url.split("/")[5] for one in asked if one.method != "POST"}) == 1


@pytest.mark.thorough
def test_a_note_and_a_job_that_is_gone(visit: Visitor) -> None:
    seen = visit(webgl=False).open().by_service()
    job: dict[str, Any] = {"id": "x" * 24, "state": "running", "progress": None, "error": None}
    note = "waiting for a free core of the cluster"
    states = [f"event: state\ndata: {json.dumps(job | {'note': note})}\n\n"]
    polls = 3

    def poll(route: Any) -> None:
        nonlocal polls
        polls -= 1
        if polls > 0:
            route.fulfill(json=job | {"note": note})
        else:
            route.fallback()

    events = {"content_type": "text/event-stream"}
    seen.page.route(re.compile(r"/v1/mechanisms/[\w-]{24}$"), poll)
    seen.page.route("**/events", lambda route: route.fulfill(body=states[0], **events))
    seen.page.click("#build")
    seen.wait_text("#progress-words", "Waiting for a free core of the cluster.")
    assert seen.page.inner_text("#said") == "Building…"
    seen.page.wait_for_selector("#progress", state="hidden")
    assert seen.page.inner_text("#said") == "The mechanism is built."
    states[0] = 'event: gone\ndata: {"state": "gone"}\n\n'
    seen.page.click("#build")
    assert "build it again" in seen.wait_text("#trouble-words", "This job was deleted")


@pytest.mark.thorough
def test_the_keyboard_is_not_lost(visit: Visitor) -> None:
    seen = visit(webgl=False).open()

    def focus() -> str:
        return str(seen.page.evaluate("document.activeElement.id"))

    seen.page.click("#draw-one")
    seen.page.focus("#draw-clear")
    seen.page.keyboard.press("Enter")
    assert focus() == "draw-one"
    seen.give("#file-input", ("bad.whereish", b"nothing"))
    seen.page.wait_for_selector("#trouble-close")
    seen.page.focus("#trouble-close")
    seen.page.keyboard.press("Enter")
    assert focus() == "build"
    seen.page.click("#own-open")
    seen.give("#own-input", ("me.csv", profile_csv(192)))
    seen.wait_text("#own-words", "192 places")
    seen.page.click("#own-use")
    seen.page.wait_for_selector("#cancel")
    seen.page.focus("#cancel")
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_selector("#cancel", state="hidden")
    assert focus() == "build"
    seen.page.focus("#who-city")
    seen.page.keyboard.press("Enter")
    assert focus() == "own-open"
    seen.page.wait_for_selector("#result:not([hidden])")


@pytest.mark.thorough
def test_tiles_that_do_not_come_are_told_of(visit: Visitor) -> None:
    seen = visit()
    seen.expected.append("status of 500")
    tiles = {"url": "/none/{z}/{x}/{y}.png", "kind": "raster", "attribution": "© Them"}
    about = {"version": "0", "key_needed": False, "limits": {"places": 2000}, "tiles": tiles}
    seen.page.route("**/v1/about", lambda route: route.fulfill(json=about))
    seen.page.route("**/none/**", lambda route: route.fulfill(status=500))
    seen.open()
    seen.page.check("#tiles")
    seen.wait_text("#tiles-wrong", "could not be loaded")
    assert seen.text("#credit") == "© Them"


@pytest.mark.thorough
def test_a_key_is_asked_for(visit: Visitor) -> None:
    seen = visit(webgl=False)
    seen.expected.append("status of 401")
    keys: list[str | None] = []

    def guard(route: Any) -> None:
        keys.append(route.request.headers.get("authorization"))
        if route.request.method == "POST" and keys[-1] != "Bearer right":
            told = {"code": "key", "message": "a key is needed", "field": None, "request_id": "r"}
            route.fulfill(status=401, json={"error": told})
        else:
            route.continue_()

    about = {"version": "0", "key_needed": True, "limits": {"places": 2000}, "tiles": None}
    seen.page.route("**/v1/about", lambda route: route.fulfill(json=about))
    seen.page.route("**/v1/mechanisms**", guard)
    seen.open()  # on the device, nobody needs a key
    seen.page.click("#own-open")
    seen.give("#own-input", ("me.csv", profile_csv(208)))
    seen.wait_text("#own-words", "208 places")
    seen.page.click("#own-use")
    said = seen.wait_text("#where", r"Press Build .*\(a key is needed\)")
    assert "nothing to draw or to compare" in said
    assert keys == []  # it asks when the service is to build something
    seen.page.click("#who-city")
    seen.wait_text("#proved", "Built on this device")
    seen.by_service()
    seen.page.click("#build")
    assert not seen.page.is_visible("#key-wrong")
    seen.page.fill("#key-text", "wrong")
    seen.page.keyboard.press("Enter")
    assert "ask the operator of the service" in seen.wait_text("#key-wrong", "This key was refused")
    assert seen.page.get_attribute("#key-wrong", "role") == "alert"
    seen.page.fill("#key-text", "right")
    seen.page.keyboard.press("Enter")
    seen.wait_text("#proved", "Built by the service")
    assert set(keys) == {None, "Bearer wrong", "Bearer right"}
    assert seen.page.evaluate("sessionStorage.length + localStorage.length") == 0


def test_on_a_phone_and_in_the_dark(visit: Visitor, pictures: Path) -> None:
    phone = {"color_scheme": "dark", "has_touch": True, "is_mobile": True}
    seen = visit(390, 844, webgl=False, **phone).open()
    seen.page.click("#compare")
    seen.page.wait_for_selector("#compare-table table")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
    top, below = (
        seen.page.locator(pane).bounding_box() for pane in ("#pane-best", "#pane-laplace")
    )
    assert below["y"] >= top["y"] + top["height"] - 1
    dark = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in re.findall(r"\d+", dark)[:3]) < 60
    seen.page.screenshot(path=pictures / "phone-dark.png")
    seen.page.tap("#theme")
    seen.page.wait_for_function(
        "Math.min(...getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3))"
        " > 200"
    )
    seen.page.screenshot(path=pictures / "phone-light.png", full_page=True)


@pytest.mark.thorough
def test_without_webgl_there_is_still_a_map(visit: Visitor, pictures: Path) -> None:
    seen = visit(webgl=False)
    seen.open()
    assert seen.page.is_visible(".plain-map")
    x, y, before = seen.beside_the_pin()
    seen.page.focus("#pane-best .pin")
    seen.page.keyboard.press("ArrowLeft")
    seen.wait_colour(x, y, lambda colour: colour != before)
    seen.page.click("#tiles")
    assert "needs WebGL" in seen.wait_text("#tiles-wrong", "background")
    assert not seen.page.is_checked("#tiles")
    assert seen.text("#credit") == ""
    seen.page.screenshot(path=pictures / "plain.png")


@pytest.mark.thorough
def test_a_background_is_off_until_set(visit: Visitor, pictures: Path) -> None:
    seen = visit().open()
    assert not seen.page.is_checked("#tiles")
    assert "The service learns which part of the map you look at" in seen.text("#tiles-note")
    assert not [one for one in seen.asked if "pmtiles" in one.url]
    box = seen.page.locator("#pane-best .map").bounding_box()
    corner = (box["x"] + 40, box["y"] + box["height"] - 120)
    ground = seen.colour(*corner)
    seen.page.check("#tiles")
    seen.wait_colour(*corner, lambda rgb: rgb[1] > max(rgb[0], rgb[2]) + 40)
    assert seen.text("#credit") == "© Somebody"
    seen.page.screenshot(path=pictures / "background.png")
    seen.page.evaluate(  # off, on, off at once: the last one counts
        "for (let i = 0; i < 3; i++) document.getElementById('tiles').click()"
    )
    seen.wait_colour(*corner, lambda rgb: rgb == ground)
    assert seen.colour(*corner) == ground  # and stays so
    assert seen.text("#credit") == ""
    seen.give("#pmtiles-input", ("blue.pmtiles", pmtiles((0, 60, 200))))
    assert "no server learns" in seen.wait_text("#tiles-note", "this device")
    seen.wait_colour(*corner, lambda rgb: rgb[2] > rgb[0] + 40)
    seen.give("#pmtiles-input", ("not.pmtiles", b"nothing of the kind"))
    assert "background map cannot be shown" in seen.wait_text("#trouble-words", "background")


@pytest.mark.thorough
def test_the_interface_is_shown_too(visit: Visitor) -> None:
    seen = visit()
    seen.page.goto(seen.address + "docs")
    seen.page.wait_for_selector(".opblock")
    assert "/v1/mechanisms" in seen.text("#api")
