"""One self-contained HTML page of a study: its style, and tables."""

from __future__ import annotations

import base64
import html
from typing import Any

_STYLE = """
body{font:16px/1.55 system-ui,sans-serif;color:#22303c;background:#fbfaf7;margin:0}
main{max-width:62rem;margin:0 auto;padding:2rem 1.2rem 4rem}
h1{font-size:1.9rem;margin:.2em 0}
h2{font-size:1.3rem;margin:2.4em 0 .4em;border-top:1px solid #d5d0c4;padding-top:1em}
table{border-collapse:collapse;margin:1em 0;font-size:.93rem;display:block;overflow-x:auto}
td,th{white-space:nowrap}td.words,th.words{white-space:normal}
th,td{padding:.3em .8em;border-bottom:1px solid #e4e0d6;text-align:right;vertical-align:top}
th{font-weight:600;border-bottom:2px solid #b8b2a4}
td:first-child,th:first-child,td.words,th.words{text-align:left}
img{max-width:100%;height:auto;background:#fff;border:1px solid #e4e0d6;border-radius:4px}
.ours{background:#e6f0f8;font-weight:600}.no{color:#a33;font-weight:600}.yes{color:#06654d;font-weight:600}
.narrow{font-size:.8rem}.narrow th{white-space:normal}.narrow th,.narrow td{padding:.3em .45em}
.wide{overflow-x:auto}.wide img{max-width:none;width:100%;min-width:44rem}
td.words{min-width:9rem}
.small{font-size:.88rem;color:#5a6672}
code{background:#f0ece2;padding:.1em .3em;border-radius:3px;overflow-wrap:anywhere}
"""


def page(title: str, parts: list[str]) -> str:
    """Return a page of parts that are HTML."""
    body = "\n".join(parts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{text(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def picture(png: bytes, alt: str, *, wide: bool = False) -> str:
    """Return a picture that is a part of the page; a wide one scrolls on a small screen."""
    data = base64.b64encode(png).decode()
    image = f'<img alt="{text(alt)}" src="data:image/png;base64,{data}">'
    return f"<div class=wide>{image}</div>" if wide else image


def table(
    heads: list[str],
    rows: list[list[str]],
    words: tuple[int, ...] = (),
    raw: tuple[int, ...] = (),
    first: str = "",
    kind: str = "",
) -> str:
    """Return a table; `words` columns wrap, `raw` columns are HTML.

    `first` is the CSS class of the first row, `kind` that of the table.
    """

    def row(cells: list[str], tag: str, kind_of_row: str = "") -> str:
        written = []
        for number, cell in enumerate(cells):
            wraps = " class=words" if number in words else ""
            inside = cell if number in raw and tag == "td" else text(cell)
            written.append(f"<{tag}{wraps}>{inside}</{tag}>")
        return f"<tr{kind_of_row}>{''.join(written)}</tr>"

    return (
        f"<table{f' class={kind}' if kind else ''}><thead>{row(heads, 'th')}</thead><tbody>"
        + "".join(
            row(cells, "td", f" class={first}" if first and number == 0 else "")
            for number, cells in enumerate(rows)
        )
        + "</tbody></table>"
    )


def text(value: Any) -> str:
    """Return a value as text of a page."""
    return html.escape(str(value))
