"""The example application: the true position is in no request that a server receives."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

import whereish as wh
from littlesite import CHROMIUM, chromium

APP = Path(__file__).parent.parent / "examples" / "app"
HOME = {"latitude": 48.86123456, "longitude": 2.34123456}
WORK = {"latitude": 48.84987654, "longitude": 2.37765432}
SOMEWHERE_ELSE = {"latitude": 45.7640123, "longitude": 4.8356123}


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cafe_app_run", APP / "run.py")
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def leaks(requests: list[str], position: dict[str, float]) -> list[str]:
    """Return the requests that tell a position: a number within 20 m of one of its degrees.

    Every number of the text counts, also in percent-encoding, in a JSON text or scaled to whole
    degrees times a power of ten. The ports of the servers, which are random, do not count.
    """
    found = []
    for text in requests:
        plain = re.sub(r"127\.0\.0\.1:\d+", "", unquote(unquote(text)))
        numbers = [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", plain)]
        for degrees in position.values():
            scales = [10.0**k for k in range(9)]
            if any(abs(n / s - degrees) < 2e-4 for n in numbers for s in scales if abs(n) > s):
                found.append(text)
                break
    return found


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    run = example()
    file = tmp_path_factory.mktemp("app") / "town.whereish"
    run.build(file)
    with run.running(file) as (url, server, directory):
        yield url, server, directory, file


def test_the_check_finds_a_position_that_is_sent() -> None:
    for sent in (
        "GET /cafes?lat=48.8612&lon=2.3412",
        "GET /cafes?lat=48.86123456",
        "GET /log?m=at%2520lat%2520%253D48.86125",
        "POST / \n\n" + json.dumps({"where": [2.34123456, 1]}),
        "GET /cafes?e6=48861234",
        "GET /a\nreferer: http://x/?q=2.34119",
    ):
        assert leaks([sent], HOME), sent
    assert not leaks(["GET /cafes?lat=48.8554&lon=2.3502\nchrome/120.0"], HOME)


def get(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as wrong:
        return wrong.code, wrong.read()


def test_the_server_passes_on_a_report_and_nothing_else(app: Any) -> None:
    url, _, directory, _ = app
    request = urllib.request.Request(
        f"{url}cafes?lat=48.86&lon=2.35&radius_km=0.1&who=me",
        headers={"cookie": "session=secret", "x-forwarded-for": "203.0.113.9"},
    )
    with urllib.request.urlopen(request) as answer:
        near = json.loads(answer.read())
    assert near
    assert all({"name", "lat", "lon"} == set(one) for one in near)
    seen = directory.seen[-1].lower()
    for secret in ("secret", "203.0.113.9", "python-urllib", "who=me", "radius_km=0.1"):
        assert secret not in seen


@pytest.mark.parametrize("query", ["", "?lat=1", "?lat=here&lon=there", "?lat=&lon="])
def test_the_server_refuses_what_is_no_report(app: Any, query: str) -> None:
    url, _, directory, _ = app
    before = len(directory.seen)
    assert get(f"{url}cafes{query}")[0] == 400
    assert len(directory.seen) == before


@pytest.mark.parametrize(
    "path", ["../run.py", "client/../../../pyproject.toml", "%2e%2e/run.py", "client/package.json"]
)
def test_the_server_serves_its_page_only(app: Any, path: str) -> None:
    assert get(app[0] + path)[0] == 404


@pytest.mark.heavy
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
def test_the_true_position_is_in_no_request(app: Any) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    url, server, directory, file = app
    server.seen.clear()
    directory.seen.clear()
    with chromium() as browser:
        context = browser.new_context(geolocation=HOME, permissions=["geolocation"])
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda wrong: problems.append(str(wrong)))
        page.goto(url)
        page.wait_for_selector("#find:enabled")
        for turn, where in enumerate((HOME, HOME, WORK, HOME), 1):
            context.set_geolocation(where)
            page.click("#find")
            page.wait_for_selector(f'#list[data-done="{turn}"]', state="attached")
        rows = page.locator("#list li").all_inner_texts()
        assert "New places left today: 1" in page.inner_text("#told")
        asked = len([text for text in server.seen if "/cafes" in text])
        context.set_geolocation(SOMEWHERE_ELSE)
        page.click("#find")
        page.locator("#said", has_text="outside").wait_for()
        assert not problems
    # Outside the area nothing was sent.
    assert len([text for text in server.seen if "/cafes" in text]) == asked == 4
    for where in (HOME, WORK, SOMEWHERE_ELSE):
        assert leaks(server.seen + directory.seen, where) == []
    # What was sent are outputs of the mechanism, and the same place was told the same all day.
    outputs = wh.load_mechanism(file)[0].outputs
    assert outputs.plane is not None
    known = [tuple(point) for point in outputs.plane.to_latlon(outputs.xy)]
    sent = []
    for text in directory.seen:
        query = parse_qs(urlsplit(text.split()[2]).query)
        sent.append((float(query["lat"][0]), float(query["lon"][0])))
        assert set(query) == {"lat", "lon", "radius_km"}
    for lat, lon in sent:
        assert min(abs(lat - a) + abs(lon - b) for a, b in known) < 1e-8
    assert sent[0] == sent[1] == sent[3]
    # The device has sorted the answer by the true distance.
    metres = [float(row.split()[-2]) * (1000 if row.endswith("km") else 1) for row in rows]
    assert len(rows) == 8
    assert metres == sorted(metres)
    nearest = sys.modules["directory"].km_between
    here = (HOME["latitude"], HOME["longitude"])
    radius = [c for c in directory.cafes if nearest((c["lat"], c["lon"]), sent[0]) <= 3]
    best = min(radius, key=lambda c: nearest((c["lat"], c["lon"]), here))
    assert rows[0].startswith(best["name"])
