"""Renders inline Markdown: code, emphasis, links; an image becomes its alternative text. Pure, and safe by escaping.

Every pattern reads a bounded number of characters, so the time is linear in the text.
"""

from __future__ import annotations

import re
from html import escape

__all__ = ["link", "render_inline"]

LONGEST = 20_000
"""A longer paragraph is shown as plain text."""
DEEPEST = 4
INLINE = re.compile(
    r"""
      \\(?P<literal>[\\`*_{}\[\]()\#+\-.!|>~<])
    | (?P<ticks>`{1,3})(?!`)(?P<code>[^`]{1,2000})(?P=ticks)(?!`)
    | !\[(?P<alt>[^\[\]]{0,300})\]\((?P<source>[^()\s]{0,4000})[^()]{0,200}\)
    | \[(?P<label>[^\[\]]{1,500})\]\((?P<address>[^()\s]{1,2000}(?:\([^()\s]{0,200}\))?)(?:\s[^()]{0,200})?\)
    | (?P<url>https?://[^\s<>"'`*()\[\]]{1,2000})
    | \*\*(?=[^\s*])(?P<strong>(?:[^*]|\*(?!\*)){1,500}?)(?<=\S)\*\*
    | (?<!\w)__(?=[^\s_])(?P<strong2>(?:[^_]|_(?!_)){1,500}?)(?<=\S)__(?!\w)
    | \*(?=[^\s*])(?P<em>[^*]{1,500}?)(?<=\S)\*
    | (?<!\w)_(?=[^\s_])(?P<em2>[^_]{1,500}?)(?<=\S)_(?!\w)
    | ~~(?=\S)(?P<gone>[^~]{1,500}?)(?<=\S)~~
    | (?P<line>\n)
    """,
    re.VERBOSE,
)
TAGS = {"strong": "strong", "strong2": "strong", "em": "em", "em2": "em", "gone": "del"}
LINKS = frozenset({"url", "source", "address"})
CODE = "background:rgba(128,128,128,.15);border-radius:3px;padding:0 .25em"


def render_inline(text: str, depth: int = 0) -> str:
    """Return safe HTML of a text without blocks."""
    if depth >= DEEPEST or len(text) > LONGEST:
        return escape(text).replace("\n", "<br>")
    parts: list[str] = []
    at = 0
    for match in INLINE.finditer(text):
        parts += (escape(text[at : match.start()]), _render(match, depth))
        at = match.end()
    return "".join([*parts, escape(text[at:])])


def _render(match: re.Match[str], depth: int) -> str:
    kind = match.lastgroup or ""
    text = match[kind]
    if kind in TAGS:
        return f"<{TAGS[kind]}>{render_inline(text, depth + 1)}</{TAGS[kind]}>"
    if kind in LINKS:
        return _link(match, depth)
    if kind == "code":
        return f'<code style="{CODE}">{escape(text)}</code>'
    return "<br>" if kind == "line" else escape(text)


def _link(match: re.Match[str], depth: int) -> str:
    if (url := match["url"]) is not None:
        address = url.rstrip(".,;:!?")
        return link(address, escape(address)) + escape(url[len(address) :])
    if (source := match["source"]) is not None:
        return link(source, f"[image: {escape(match['alt']) or 'without a name'}]")
    return link(match["address"], render_inline(match["label"], depth + 1))


def link(address: str, label: str) -> str:
    """Return a link that opens only by a click; URLs other than web and mail are omitted."""
    if not address.lower().startswith(("https://", "http://", "mailto:")):
        return label
    return f'<a href="{escape(address)}" target="_blank" rel="noopener noreferrer nofollow">{label}</a>'
