"""The built extension: a manifest for each browser, every import leads to a file, no addresses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from extensions import ROOT, built
from test_extension import WASM

pytestmark = pytest.mark.skipif(not WASM.exists(), reason="the solver is not built: make core")


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("built"), request.param, granted=False)


def test_every_import_leads_to_a_file(folder: Path) -> None:
    count = 0
    for file in folder.rglob("*.js"):
        for name in re.findall(r'(?:from|import|import\()\s*"(\.[^"]+)"', file.read_text()):
            count += 1
            assert (file.parent / name).is_file(), f"{file.name} imports {name}"
    assert count > 100
    for page in folder.glob("*.html"):
        for name in re.findall(r'(?:src|href)="([^"#]+)"', page.read_text()):
            assert (folder / name).is_file(), f"{page.name} loads {name}"


def test_the_manifest_asks_for_no_site_at_the_installation(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    assert "host_permissions" not in manifest
    assert "content_scripts" not in manifest
    assert "web_accessible_resources" not in manifest
    assert "externally_connectable" not in manifest
    assert manifest["optional_host_permissions"] == ["http://*/*", "https://*/*"]
    rules = manifest["content_security_policy"]["extension_pages"]
    assert "default-src 'none'" in rules
    assert "connect-src 'self'" in rules
    chromium = folder.name.endswith("chromium")
    assert ("contentSettings" in manifest["permissions"]) == chromium
    assert ("service_worker" in manifest["background"]) == chromium
    for icon in manifest["icons"].values():
        assert (folder / icon).read_bytes().startswith(b"\x89PNG")


def test_no_address_of_a_host_is_in_our_files(folder: Path) -> None:
    source = ROOT / "clients" / "extension"
    for file in source.rglob("*"):
        if file.suffix in (".js", ".html", ".css", ".json"):
            hosts = re.findall(r"(?:https?|wss?)://[a-z0-9-]+\.[a-z]", file.read_text())
            assert hosts == [], file.name


def test_the_script_of_the_page_is_one_classic_script(folder: Path) -> None:
    text = (folder / "page.js").read_text()
    assert not re.search(r"^\s*(import|export)\b", text, re.MULTILINE)
    assert text.rstrip().endswith("//# sourceURL=<anonymous>")
