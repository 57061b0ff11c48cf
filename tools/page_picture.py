"""Take the picture of the page in the README: the city, and what a report tells.

It starts a service on this machine and opens its page in Debian's chromium. It needs the extra
``dev`` and the page's vendor folder (``python hatch_build.py``).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from browsing import FLAGS, Visit  # noqa: E402
from serving import serving  # noqa: E402

FILE = ROOT / "docs" / "images" / "page.png"


def main() -> None:
    """Write the picture."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder)) as served,
        sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
        seen = Visit(page, f"{served.url}/").open()
        page.click("#conclude")
        seen.wait_text("#conclusion-words", "of the time")
        page.wait_for_timeout(1500)  # the map draws
        page.screenshot(path=FILE)
        browser.close()


if __name__ == "__main__":
    main()
