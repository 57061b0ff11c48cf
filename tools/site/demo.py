"""The page without a server, for any static host, and the page "Try it" of the site.

What is served by the service is a file here: the page, its modules, about.json and city.json. One
line of index.html says that there is no service; the page then shows no control that needs one. All
addresses are relative, so the folder may be anywhere on the host.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from sources import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from release import archive

import whereish as wh
from whereish.service.http.middleware import POLICY
from whereish.service.http.site import PAGE, city_document
from whereish.service.limits import Limits

SERVED = '<meta name="whereish-service" content="here">'
ALONE = '<meta name="whereish-service" content="none">'
_FILES = (".js", ".css", ".svg", ".html")
# Files of the page for the HTTP interface of a service.
_SERVICE_ONLY = {"docs.js", "swagger-ui-bundle.js", "swagger-ui.css", "stamp", "index.html"}
_TRY = """# Try it

## In this browser

[Open the page](demo/index.html): a map, a pin, and a mechanism that your browser builds by
WebAssembly. There is no server behind it: nothing is sent, and it works without a network once it
is loaded. You can open your own traces; they stay on your device. [What the page
does](page.md).

[![The page: a city, a pin, and what a report tells](images/page.png)](demo/index.html)

## The browser extension

Sites that ask where you are get reports instead ([how it works](extension.md)).

{archives}

Unpack the archive for Chromium, open `chrome://extensions`, switch on the developer mode, and load
the folder. In Firefox, open `about:debugging` and load the archive as a temporary add-on.
"""


def policy() -> str:
    """Return the content security policy of the service, as far as a page can state it itself."""
    whole = POLICY.format(styles="", tiles="")
    parts = [part.strip() for part in whole.split(";")]
    return "; ".join(part for part in parts if not part.startswith("frame-ancestors"))


def add_page(folder: Path) -> None:
    """Write the page without a server into a folder."""
    if not (PAGE / "vendor" / "stamp").exists():
        raise FileNotFoundError("the page is not built: python hatch_build.py")
    assets = folder / "assets"
    shutil.rmtree(folder, ignore_errors=True)
    assets.mkdir(parents=True)
    for file in sorted(PAGE.iterdir()):
        if file.suffix in _FILES and file.name not in _SERVICE_ONLY:
            shutil.copyfile(file, assets / file.name)
    shutil.copytree(
        PAGE / "vendor", assets / "vendor", ignore=shutil.ignore_patterns(*_SERVICE_ONLY)
    )
    text = (PAGE / "index.html").read_text()
    if text.count(SERVED) != 1:
        raise ValueError("index.html must say once whether there is a service")
    # A link to what is not there would be broken, even if the page takes it out when it runs.
    text = re.sub(r'<a [^>]*data-needs="service"[^>]*>.*?</a>\s*', "", text)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy()}">'
    text = text.replace(SERVED, ALONE).replace(
        '<meta charset="utf-8">', f'<meta charset="utf-8">\n    {meta}', 1
    )
    (folder / "index.html").write_text(text)
    about = {
        "version": wh.__version__, "key_needed": False, "tiles": None,
        "limits": {"places": Limits().places},  # how many the page builds is in its limits.js
    }  # fmt: skip
    (folder / "about.json").write_text(json.dumps(about))
    (folder / "city.json").write_bytes(city_document())


def add(folder: Path) -> None:
    """Add the page and the extension's archives to the sources of the site, in place of try.md."""
    add_page(folder / "demo")
    lines = []
    for browser in archive.BROWSERS:
        made = folder / "downloads" / archive.extension_name(browser, wh.__version__)
        archive.pack(ROOT / "dist" / f"extension-{browser}", made)
        lines.append(f"- [{made.name}](downloads/{made.name}), {made.stat().st_size / 1e6:.1f} MB")
    (folder / "try.md").write_text(_TRY.format(archives="\n".join(lines)))


if __name__ == "__main__":
    if len(sys.argv) != 2 or re.match("-", sys.argv[1]):
        sys.exit("usage: demo.py FOLDER")
    add_page(Path(sys.argv[1]))
