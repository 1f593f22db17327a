"""Finds links in HTML without parsing it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urljoin, urlparse

__all__ = ["PREFIXES_TO_IGNORE", "SUFFIXES_TO_IGNORE", "extract_sub_links", "find_all_links"]

PREFIXES_TO_IGNORE = ("javascript:", "mailto:", "#")
SUFFIXES_TO_IGNORE = (
    *(".css", ".js", ".ico", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".csv", ".bz2", ".zip"),
    *(".epub", ".webp", ".woff", ".woff2", ".ttf"),
)
HREF = re.compile(r"""href=["']([^"'#][^"']*)["']""", re.IGNORECASE)


def find_all_links(raw_html: str, *, pattern: str | re.Pattern[str] | None = None) -> list[str]:
    """List the links, each once, in order; scripts, mail addresses and assets are left out."""
    links = dict.fromkeys(re.findall(pattern or HREF, raw_html))
    return [link for link in links if pattern is not None or _is_page(link)]


def extract_sub_links(
    raw_html: str,
    url: str,
    *,
    base_url: str | None = None,
    pattern: str | re.Pattern[str] | None = None,
    prevent_outside: bool = True,
    exclude_prefixes: Sequence[str] = (),
    continue_on_failure: bool = False,
) -> list[str]:
    """List the links as absolute addresses, by default only those below `base_url` (or `url`)."""
    base = base_url or url
    addresses: dict[str, None] = {}
    for link in find_all_links(raw_html, pattern=pattern):
        try:
            address = urljoin(url, link.strip())
            is_inside = _is_below(address, base)
        except ValueError:
            if continue_on_failure:
                continue
            raise
        if not address.startswith(tuple(exclude_prefixes)) and (is_inside or not prevent_outside):
            addresses[address] = None
    return list(addresses)


def _is_page(link: str) -> bool:
    path = link.partition("#")[0].partition("?")[0]
    return not (link.startswith(PREFIXES_TO_IGNORE) or path.lower().endswith(SUFFIXES_TO_IGNORE))


def _is_below(address: str, base: str) -> bool:
    """Compare host and path, not text: https://x.y.evil is not below https://x.y."""
    is_same_host = urlparse(address).netloc == urlparse(base).netloc
    return is_same_host and address.startswith(base)
