"""Check a built site: every link and anchor leads somewhere, and no page asks another host for anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["broken_links"]

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
"""Tag -> the attribute that a browser fetches without being asked."""
FETCHING_RELATIONS = {"stylesheet", "preconnect", "preload", "prefetch", "icon", "dns-prefetch"}


@dataclass
class Page(HTMLParser):
    """The links and anchors of one page."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Begin to read."""
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag links to or loads, and what it is called."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag == "link" and FETCHING_RELATIONS & set(values.get("rel", "").split()):
            self.loads.append(values.get("href", ""))
        elif tag in LOADED and values.get(LOADED[tag]):
            self.loads.append(values[LOADED[tag]])


def broken_links(site: Path) -> list[str]:
    """Return a line for each link that leads nowhere and each thing that would be fetched from elsewhere."""
    pages = {file.resolve(): _read(file) for file in site.rglob("*.html")}
    return sorted(
        f"{file.relative_to(site.resolve())}: {complaint}"
        for file, page in pages.items()
        if file.name != "404.html"  # shown at any address, so its links are absolute
        for complaint in _complaints(file, page, pages, site.resolve())
    )


def _read(file: Path) -> Page:
    page = Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page


def _complaints(file: Path, page: Page, pages: dict[Path, Page], site: Path) -> Iterator[str]:
    for load in page.loads:
        if urlsplit(load).netloc:
            yield f"loads {load} from another host"
        elif not load.startswith("data:") and not _goal(file, load).exists():
            yield f"loads {load}, which is not there"
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        goal = _goal(file, link)
        if not goal.exists() or not goal.is_relative_to(site):
            yield f"links to {link}, which is not there"
        elif parts.fragment and goal in pages and not _has(pages[goal], parts.fragment):
            yield f"links to {link}, which has no such heading"


def _has(page: Page, fragment: str) -> bool:
    return fragment.startswith("__") or unquote(fragment) in page.anchors


def _goal(file: Path, link: str) -> Path:
    path = unquote(urlsplit(link).path)
    goal = (file.parent / path).resolve() if path else file
    return goal / "index.html" if goal.is_dir() else goal
