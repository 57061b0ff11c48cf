"""The JavaScript client as a package: packed, installed into an empty folder, and used."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whereish as wh
from littlesite import CHROMIUM, CLIENT, chromium, site
from test_page_parity import as_gpx, life
from whereish.profiles import personal_profile
from whereish.traces import open_traces

ROOT = Path(__file__).parent.parent
NPM = shutil.which("npm")
NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        NPM is None or NODE is None, reason="there is no npm to pack the client with"
    ),
]
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
PARTS = ("whereish", "build", "profile", "solve")

# From a GPX file to a file of a mechanism, with what is imported by name.
_FROM_TRACES = """
const traces = await profile.readTraces([{ name: "a.gpx", bytes: gpx }]);
const begun = performance.now();
const { places, prior, cellKm } = profile.profileOf(traces);
const { bytes, mechanism, build: built } = await build.buildPlaces(
  { places, prior, cellKm, epsilon: 1.07, keepPrior: true, here });
const seconds = (performance.now() - begun) / 1000;
const again = await whereish.readMechanism(bytes, { sha256: mechanism.digest, warn: false });
const report = again.report(...places[0]).latlon;
"""
_IN_NODE = (
    'import { readFileSync, writeFileSync } from "node:fs";\n'
    + "".join(
        f'import * as {part} from "whereish{"" if part == "whereish" else "/" + part}";\n'
        for part in PARTS
    )
    + 'const [gpx, here] = [readFileSync("a.gpx"), false];'
    + _FROM_TRACES
    + """
writeFileSync("k.whereish", bytes);
const fetched = await whereish.fetchMechanism("https://example.org/k", {
  sha256: mechanism.digest, warn: false, fetch: async () => new Response(bytes) });
process.stdout.write(JSON.stringify({ places: places.length, report, built, seconds,
  fetched: fetched.digest === mechanism.digest,
  names: Object.fromEntries(Object.entries({ whereish, build, profile, solve })
    .map(([part, names]) => [part, Object.keys(names)])) }));
"""
)
_IN_PAGE = (
    "async ([gpx, here]) => {\n"
    + "".join(f'const {part} = await import("/package/{part}.js");\n' for part in PARTS[:3])
    + _FROM_TRACES
    + """
  return { places: places.length, report, built, seconds,
    file: btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")) };
}"""
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder with the packed client installed, and traces of a person."""
    subprocess.run([sys.executable, str(ROOT / "core" / "build.py"), "wasm"], check=True)
    folder = tmp_path_factory.mktemp("package")
    quiet = {**os.environ, "npm_config_update_notifier": "false", "npm_config_offline": "true"}
    pack = [str(NPM), "pack", str(CLIENT), "--pack-destination", str(folder), "--loglevel=error"]
    subprocess.run(pack, check=True, cwd=folder, env=quiet, capture_output=True)
    (packed,) = folder.glob("*.tgz")
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    add = [str(NPM), "install", str(packed), "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(add, check=True, cwd=folder, env=quiet, capture_output=True)
    (folder / "a.gpx").write_text(as_gpx(life(1, 48.86, 2.33)))
    return folder


def check_built(answer: dict[str, Any], file: Path, traces: Path) -> None:
    """Check that Python accepts the file, and that the loss is that of `wh.optimal`."""
    certificate = wh.audit_file(file)
    assert certificate["places"] == answer["places"] == 50
    assert certificate["gap"] <= 2e-6
    _, prior = wh.load_mechanism(file)
    person = personal_profile(open_traces(traces)).profile
    assert np.allclose(prior, person.prior, rtol=0, atol=1e-12)
    best = wh.optimal(person, 1.07)
    loss = wh.quality_loss(best, person.prior)
    assert answer["built"]["lossKm"] == pytest.approx(loss, rel=1e-6)
    assert answer["built"]["accuracyKm"] == pytest.approx(wh.report_radius(best, person.prior))
    assert len(answer["report"]) == 2


def test_the_package_has_all_it_needs_and_nothing_else(installed: Path) -> None:
    package = installed / "node_modules" / "whereish"
    found = {file.relative_to(package).as_posix() for file in package.rglob("*") if file.is_file()}
    modules = {
        file.relative_to(CLIENT).as_posix()
        for folder in ("", "map", *PARTS)
        for file in (CLIENT / folder).glob("*.js")
    }
    types = {f"{part}.d.ts" for part in PARTS} | {"map/background.d.ts"}
    others = {"README.md", "LICENSE", "package.json", "dist/whereish.wasm", "dist/licences.txt"}
    assert found == modules | types | others
    assert (package / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    about = json.loads((package / "package.json").read_text())
    assert about["version"].replace("-rc.", "rc") == wh.__version__
    assert "dependencies" not in about


def test_it_builds_in_node(installed: Path) -> None:
    (installed / "run.js").write_text(_IN_NODE)
    done = subprocess.run(
        [str(NODE), "run.js"], cwd=installed, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["fetched"]
    check_built(answer, installed / "k.whereish", installed / "a.gpx")
    for part, names in answer["names"].items():  # every public name has a type
        told = (CLIENT / f"{part}.d.ts").read_text()
        for name in names:
            assert re.search(rf"export .*\b{name}\b", told), f"{part}.d.ts: {name}"


@needs_chromium
@pytest.mark.thorough
def test_it_builds_in_chromium_without_a_network(installed: Path, tmp_path: Path) -> None:
    """No request leaves the machine. Offline, a worker cannot be loaded: it builds in the page."""
    gpx = (installed / "a.gpx").read_text()
    with site(package=installed / "node_modules" / "whereish") as address, chromium() as browser:
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.route(lambda url: not url.startswith(address), lambda route: route.abort())
        page.goto(address)
        answer = page.evaluate(_IN_PAGE, [gpx, False])
        page.context.set_offline(True)
        offline = page.evaluate(_IN_PAGE, [gpx, True])
        page.close()
    assert all(url.startswith(address) for url in asked)
    for one in (answer, offline):
        file = tmp_path / "k.whereish"
        file.write_bytes(base64.b64decode(one["file"]))
        check_built(one, file, installed / "a.gpx")
