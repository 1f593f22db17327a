"""Halves of UTF-16 pairs, which JSON escapes can carry and UTF-8 cannot.

A pair split over two deltas is one character once joined; a half that stays alone is kept as its escape (`\\ud83d`, six
plain characters), so that the text can be stored and sent.
"""

from __future__ import annotations

import re
from typing import Any

PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
LONE = re.compile("[\ud800-\udfff]")


def has_surrogates(text: str) -> bool:
    """Say whether the text cannot be encoded as UTF-8."""
    return not text.isascii() and LONE.search(text) is not None


def mend_surrogates(text: str) -> str:
    """Join pairs to their character and spell lone halves as their escape."""
    if text.isascii() or LONE.search(text) is None:
        return text
    return LONE.sub(_spell, PAIR.sub(_join, text))


def mend_value(value: object) -> Any:  # noqa: ANN401  JSON in, JSON out
    """Mend every string of a JSON value, keys included; the value itself is left alone."""
    if isinstance(value, str):
        return mend_surrogates(value)
    if isinstance(value, list):
        return [mend_value(item) for item in value]
    if isinstance(value, dict):
        return {mend_value(key): mend_value(item) for key, item in value.items()}
    return value


class SurrogateJoiner:
    """Mends a text that comes in slices: a trailing first half waits for the next slice."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting = ""

    def feed(self, text: str) -> str:
        """Return what can be said now."""
        if not self._waiting and text.isascii():
            return text
        text = self._waiting + text
        self._waiting = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._waiting = text[-1]
            text = text[:-1]
        return mend_surrogates(text)

    def end(self) -> str:
        """Return the half that stayed alone, spelled as its escape, or nothing."""
        rest, self._waiting = self._waiting, ""
        return mend_surrogates(rest)


def _join(match: re.Match[str]) -> str:
    return match.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _spell(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"
