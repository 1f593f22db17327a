"""Mends surrogates (halves of UTF-16 pairs), which JSON escapes can hold and UTF-8 cannot.

A pair split over two deltas is joined to one character; a lone surrogate becomes its escape (`\\ud83d`, six
plain characters), so that the text can be stored and sent.
"""

from __future__ import annotations

import re
from typing import Any

PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
LONE = re.compile("[\ud800-\udfff]")


def has_surrogates(text: str) -> bool:
    """Whether the text cannot be encoded as UTF-8."""
    return not text.isascii() and LONE.search(text) is not None


def mend_surrogates(text: str) -> str:
    """Join surrogate pairs to one character, and write lone surrogates as their escape."""
    if text.isascii() or LONE.search(text) is None:
        return text
    return LONE.sub(_spell, PAIR.sub(_join, text))


def mend_value(value: object) -> Any:  # noqa: ANN401  JSON in, JSON out
    """Return a JSON value with `mend_surrogates` applied to every string, keys included."""
    if isinstance(value, str):
        return mend_surrogates(value)
    if isinstance(value, list):
        return [mend_value(item) for item in value]
    if isinstance(value, dict):
        return {mend_value(key): mend_value(item) for key, item in value.items()}
    return value


class SurrogateJoiner:
    """Mends a text that comes in slices: a trailing high surrogate waits for the next slice."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting = ""

    def feed(self, text: str) -> str:
        """Return the text that is complete now."""
        if not self._waiting and text.isascii():
            return text
        text = self._waiting + text
        self._waiting = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._waiting = text[-1]
            text = text[:-1]
        return mend_surrogates(text)

    def end(self) -> str:
        """Return the surrogate that stayed alone as its escape, or an empty text."""
        surrogate, self._waiting = self._waiting, ""
        return mend_surrogates(surrogate)


def _join(match: re.Match[str]) -> str:
    return match.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _spell(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"
