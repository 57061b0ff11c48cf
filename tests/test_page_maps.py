"""A map under the data of the page: from the service, from a file, with and without WebGL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browsing import BROWSER_MARKS, NO_WEBGL, Visit
from serving import serving, wait_until

pytestmark = BROWSER_MARKS
CREDIT = "© OpenStreetMap contributors, ODbL"
WATER = (188, 213, 228)  # of the light theme, clients/js/map/style.js


def map_of_paris() -> str:
    """Return a map of the synthetic city: water all around it, and a name at its edge."""
    west, south, east, north = box = [2.0, 48.6, 2.7, 49.1]
    outline = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return json.dumps({
        "type": "FeatureCollection", "attribution": CREDIT, "bbox": box,
        "features": [
            {"type": "Feature", "properties": {"kind": "water", "class": "lake"},
             "geometry": {"type": "Polygon", "coordinates": [outline]}},
            {"type": "Feature", "properties": {"kind": "name", "class": "suburb", "name": "West"},
             "geometry": {"type": "Point", "coordinates": [2.29, 48.874]}},
        ],
    })  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("page-maps")
    (folder / "city.geojson").write_text(map_of_paris())
    with serving(folder / "kept", "--map", str(folder / "city.geojson")) as served:
        yield f"{served.url}/"


@pytest.fixture
def seen(browsers: Any, address: str, request: pytest.FixtureRequest) -> Iterator[Visit]:
    cases = getattr(request.node, "callspec", None)
    webgl = cases is None or cases.params.get("webgl", True)
    context = browsers(webgl).new_context(
        viewport={"width": 1000, "height": 720}, color_scheme="light"
    )
    made = Visit(context.new_page(), address)
    yield made
    made.check()
    context.close()


def is_water(rgb: tuple[int, ...]) -> bool:
    return all(abs(a - b) <= 3 for a, b in zip(rgb, WATER, strict=True))


def corner(seen: Visit) -> tuple[float, float]:
    """Return a point of the map that no cell covers, beside the lines of degrees."""
    box = seen.page.locator("#pane-best .map").bounding_box()
    return box["x"] + 33, box["y"] + box["height"] - 61


@pytest.mark.parametrize("webgl", [False, True])
@pytest.mark.thorough
def test_the_map_of_the_service_is_shown_with_its_credit(seen: Visit, webgl: bool) -> None:
    if not webgl:
        seen.page.add_init_script(NO_WEBGL)
    seen.open()
    assert seen.page.is_visible(".plain-map") == (not webgl)
    seen.wait_colour(*corner(seen), is_water)
    assert seen.text("#credit") == CREDIT
    assert seen.page.is_checked("#tiles")
    assert "no server learns" in seen.text("#tiles-note")
    assert [one.url.rpartition("/")[2] for one in seen.asked].count("map.geojson") == 1
    seen.page.uncheck("#tiles")
    seen.wait_colour(*corner(seen), lambda rgb: not is_water(rgb))
    assert seen.text("#credit") == ""
    seen.page.check("#tiles")
    seen.wait_colour(*corner(seen), is_water)
    seen.page.click("#theme")  # dark
    seen.wait_colour(*corner(seen), lambda rgb: max(rgb) < 100)
    # The comparison has the same map under both panes.
    seen.page.click("#compare")
    seen.page.wait_for_selector("#pane-laplace .map[data-ready=true]")
    box = seen.page.locator("#pane-laplace .map").bounding_box()
    seen.wait_colour(box["x"] + 9, box["y"] + box["height"] - 61, lambda rgb: rgb[2] > rgb[0] + 30)


@pytest.mark.thorough
def test_a_map_that_is_dropped_becomes_the_background(seen: Visit) -> None:
    seen.open()
    seen.page.uncheck("#tiles")
    before = len(seen.asked)
    drop = """([name, text]) => {
      const data = new DataTransfer();
      data.items.add(new File([text], name));
      dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }"""
    seen.page.evaluate(drop, ["mine.geojson", map_of_paris()])
    seen.wait_text("#tiles-words", "Show mine.geojson")
    seen.wait_colour(*corner(seen), is_water)
    assert seen.text("#credit") == CREDIT
    assert not seen.page.is_visible("#own")
    assert [one.url for one in seen.asked[before:]] == []
    # A file that begins like a map and is none is told of.
    seen.page.evaluate(drop, ["bad.geojson", map_of_paris().replace('"water"', '"house"')])
    assert "the map must be GeoJSON" in seen.wait_text("#trouble-words", "background map")


@pytest.mark.thorough
def test_traces_in_geojson_are_still_traces(seen: Visit) -> None:
    seen.open()
    points = [{"type": "Feature", "properties": {},
               "geometry": {"type": "Point", "coordinates": [2.3 + k / 50, 48.8 + k / 60]}}
              for k in range(8)]  # fmt: skip
    seen.page.click("#own-open")
    seen.give("#own-input", ("traces.geojson", json.dumps(
        {"type": "FeatureCollection", "features": points})))  # fmt: skip
    seen.page.wait_for_selector("#own-use:enabled", state="attached")
    assert "Show traces" not in seen.text("#tiles-words")


@pytest.mark.thorough
@pytest.mark.parametrize("webgl", [False, True])
def test_far_out_there_are_coasts_and_towns(seen: Visit, webgl: bool) -> None:
    if not webgl:
        seen.page.add_init_script(NO_WEBGL)
    seen.open()
    seen.page.uncheck("#tiles")
    seen.page.focus("#pane-best canvas")
    towns = "(all) => all.filter((e) => !e.hidden).map((e) => e.textContent)"

    def is_far_out() -> bool:
        if "London" in seen.page.eval_on_selector_all(".map-name", towns):
            return True
        seen.page.keyboard.press("-")
        seen.page.wait_for_timeout(350)  # MapLibre's zoom is animated
        return False

    wait_until(is_far_out)
    # Somewhere on a line across the Atlantic, Brittany and Germany there is water.
    box = seen.page.locator("#pane-best .map").bounding_box()

    def is_coast() -> bool:
        row = box["y"] + box["height"] * 0.62
        found = [is_water(seen.colour(box["x"] + box["width"] * share, row))
                 for share in (0.02, 0.08, 0.15, 0.22, 0.93)]  # fmt: skip
        return any(found) and not all(found)

    wait_until(is_coast)
    assert seen.text("#credit") == ""


def test_the_map_file_is_checked_before_the_service_starts(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from whereish.cli import app

    bad = tmp_path / "bad.geojson"
    bad.write_text("{}")
    for words in (["--map", str(bad)], ["--map", str(tmp_path / "none.geojson")],
                  ["--map", str(tmp_path / "x.png")]):  # fmt: skip
        done = CliRunner().invoke(app, ["serve", *words])
        assert done.exit_code == 2
        assert "map must be" in done.output
