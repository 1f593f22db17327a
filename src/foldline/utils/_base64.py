"""Base64 that comes in slices. Pure.

Some vendors cut one text of base64 anywhere; others encode each slice by itself, so that padding stands in the middle,
where decoders stop without a word. Both become one text.
"""

from __future__ import annotations

from base64 import b64decode, b64encode

__all__ = ["Base64Joiner"]


class Base64Joiner:
    """Joins slices: what it gives, one after another, is one text of base64."""

    __slots__ = ("_bytes", "_offset", "_text")

    def __init__(self) -> None:
        self._offset = 0
        """Characters said of a group of four that is not whole yet: the text is one that is cut anywhere."""
        self._text = ""
        self._bytes = b""
        """What is held back after padding: bytes that are no group of three, characters that are no group of four."""

    def feed(self, text: str) -> str:
        """Return what can be said now."""
        if not self._bytes and not self._text and (self._offset or "=" not in text):
            self._offset = (self._offset + len(text)) % 4
            return text
        text = self._text + text
        whole = len(text) // 4 * 4
        text, self._text = text[:whole], text[whole:]
        self._bytes += _decoded(text)
        whole = len(self._bytes) // 3 * 3
        now, self._bytes = self._bytes[:whole], self._bytes[whole:]
        return b64encode(now).decode()

    def end(self) -> str:
        """Return the rest, padded where it must be."""
        text, self._text = self._text, ""
        if not self._bytes:
            return text
        rest, self._bytes = self._bytes + _decoded(text + "=" * (-len(text) % 4)), b""
        return b64encode(rest).decode()


def _decoded(text: str) -> bytes:
    """Decode groups of four, each of which may be padded."""
    pieces, start = [], 0
    while (pad := text.find("=", start)) >= 0:
        end = pad // 4 * 4 + 4
        pieces.append(b64decode(text[start:end]))
        start = end
    return b"".join([*pieces, b64decode(text[start:])])
