"""Joins base64 that arrives in slices. Pure.

Some vendors cut one base64 text anywhere; others encode each slice by itself, so that padding is in the middle, where
decoders stop silently. Both become one text.
"""

from __future__ import annotations

from base64 import b64decode, b64encode

__all__ = ["Base64Joiner"]


class Base64Joiner:
    """Joins slices: its outputs together are one base64 text."""

    __slots__ = ("_bytes", "_offset", "_text")

    def __init__(self) -> None:
        self._offset = 0
        """Characters of an incomplete group of four that are out already: the text is one that is cut anywhere."""
        self._text = ""
        self._bytes = b""
        """Held back after padding: bytes of an incomplete group of three, characters of an incomplete group of four."""

    def feed(self, text: str) -> str:
        """Return the text that is complete now."""
        if not self._bytes and not self._text and (self._offset or "=" not in text):
            self._offset = (self._offset + len(text)) % 4
            return text
        text = self._text + text
        length = len(text) // 4 * 4
        text, self._text = text[:length], text[length:]
        self._bytes += _decoded(text)
        size = len(self._bytes) // 3 * 3
        complete, self._bytes = self._bytes[:size], self._bytes[size:]
        return b64encode(complete).decode()

    def end(self) -> str:
        """Return the remaining text, padded where needed."""
        text, self._text = self._text, ""
        if not self._bytes:
            return text
        remaining, self._bytes = self._bytes + _decoded(text + "=" * (-len(text) % 4)), b""
        return b64encode(remaining).decode()


def _decoded(text: str) -> bytes:
    """Decode groups of four, each of which may be padded."""
    pieces, start = [], 0
    while (pad := text.find("=", start)) >= 0:
        end = pad // 4 * 4 + 4
        pieces.append(b64decode(text[start:end]))
        start = end
    return b"".join([*pieces, b64decode(text[start:])])
