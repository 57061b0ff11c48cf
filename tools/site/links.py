"""Check the built site: every link and anchor leads somewhere, and no other host is asked."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("source", "src"),
           ("iframe", "src"), ("video", "src"), ("audio", "src")}  # fmt: skip


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: list[tuple[str, str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value is not None:
                self.links.append((tag, name, value))


def problems(folder: Path) -> list[str]:
    """Return what is wrong with the links of a folder of HTML files, in words."""
    pages = {
        file.resolve(): _Page(file.read_text())
        for file in sorted(folder.rglob("*.html"))
        if file.name != "404.html"  # its links are from the root of the host
    }
    found = []
    for file, page in pages.items():
        name = file.relative_to(folder.resolve())
        for tag, attribute, link in page.links:
            address = urlsplit(link)
            if address.scheme in ("http", "https") or address.netloc:
                if (tag, attribute) in _LOADED:
                    found.append(f"{name} loads {link} from another host")
                continue
            if address.scheme in ("mailto", "data", "javascript"):
                continue
            if address.path.startswith("/"):
                found.append(f"{name} links to {link}, from the root of the host")
                continue
            target = (file.parent / unquote(address.path)).resolve() if address.path else file
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                found.append(f"{name} links to {link}, which is not there")
            elif target in pages and unquote(address.fragment) not in pages[target].anchors:
                found.append(f"{name} links to {link}, which has no such anchor")
    for style in sorted(folder.rglob("*.css")):
        text = style.read_text(errors="replace")
        if "url(http" in text or "url(//" in text or "@import" in text:
            found.append(f"{style.relative_to(folder)} loads from another address")
    return found
