"""Draw the first run of the extension as a film strip: ``python tools/extension_strip.py``.

It writes docs/images/extension-first-run.png. It needs Debian's Chromium and ``make core``.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
os.environ["TZ"] = "Europe/Paris"

from extensions import browser, built  # noqa: E402
from first_run import SHOP, FirstRun  # noqa: E402
from littlesite import site  # noqa: E402

HEIGHT = 440
GAP = 24
CAPTION = 44
PAPER, INK = "#fbfaf7", "#17202b"


def strip(pictures: list[tuple[str, bytes]]) -> Image.Image:
    """Put the pictures next to each other in two rows, each with its caption."""
    font = ImageFont.truetype("DejaVuSans.ttf", 17)
    shown = []
    for number, (words, png) in enumerate(pictures, 1):
        image = Image.open(io.BytesIO(png)).convert("RGB")
        width = round(image.width * HEIGHT / image.height)
        shown.append(
            (f"{number}. {words}", image.resize((width, HEIGHT), Image.Resampling.LANCZOS))
        )
    rows = [shown[:2], shown[2:]]
    widths = [sum(image.width + GAP for _, image in row) + GAP for row in rows]
    made = Image.new("RGB", (max(widths), len(rows) * (HEIGHT + CAPTION + GAP) + GAP), PAPER)
    pen = ImageDraw.Draw(made)
    for k, row in enumerate(rows):
        x, y = GAP, GAP + k * (HEIGHT + CAPTION + GAP)
        for words, image in row:
            made.paste(image, (x, y + CAPTION))
            pen.rectangle(
                (x - 1, y + CAPTION - 1, x + image.width, y + CAPTION + HEIGHT), outline=INK
            )
            lines, line = [], ""
            for word in words.split():
                if font.getlength(f"{line} {word}") > image.width and line:
                    lines.append(line)
                    line = word
                else:
                    line = f"{line} {word}".strip()
            for i, text in enumerate([*lines, line]):
                pen.text((x, y + CAPTION - 4 - 20 * (len(lines) + 1 - i)), text, INK, font)
            x += image.width + GAP
    return made


def main() -> None:
    """Do the first run, and draw it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "shop.html").write_text(SHOP)
        with site(files=place) as address, browser(built(place / "built")) as chromium:
            run = FirstRun(chromium, f"{address}files/shop.html")
            run.popup(run.run())
            into = ROOT / "docs" / "images" / "extension-first-run.png"
            strip(run.pictures).quantize(128).save(into, optimize=True)
            sys.stdout.write(f"{into.name}: {run.clicks} clicks\n")


if __name__ == "__main__":
    main()
