"""Parses comma-separated values while they arrive, as Python's `csv` does with `skipinitialspace`."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["CsvReader"]

SPACES = re.compile(r" *+")
PLAIN = re.compile(r"[^,\r\n]*+")
QUOTED = re.compile(r'[^"]*+')


class CsvReader:
    """Parses text piece by piece; yields complete values. A quote opens a value only at its beginning."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._state = "start"
        self._is_row_open = False

    def feed(self, text: str) -> Iterator[str]:
        """Parse the next piece; yield the values that it completes."""
        position = 0
        while position < len(text):
            if self._state == "start":
                position = self._start(text, position)
            elif self._state == "quoted":
                position = self._take(QUOTED, text, position)
                if position < len(text):
                    self._state, position = "quote", position + 1
            elif self._state == "quote" and text[position] == '"':
                self._pieces.append('"')  # a doubled quote is a quote
                self._state, position = "quoted", position + 1
            else:
                self._state = "plain"
                position = self._take(PLAIN, text, position)
                if position < len(text):
                    yield self._value()
                    self._is_row_open = text[position] == ","
                    position += 1

    def finish(self) -> Iterator[str]:
        """Return the last value, if there is one."""
        if self._is_row_open or self._state != "start":
            yield self._value()
            self._is_row_open = False

    def _start(self, text: str, position: int) -> int:
        spaces = SPACES.match(text, position)
        position = spaces.end() if spaces else position
        self._is_row_open = self._is_row_open or bool(spaces and spaces[0])
        if position == len(text):
            return position
        if text[position] in "\r\n" and not self._is_row_open:
            return position + 1  # an empty line is no value
        self._state = "plain"
        self._is_row_open = True
        if text[position] == '"':
            self._state, position = "quoted", position + 1
        return position

    def _take(self, pattern: re.Pattern[str], text: str, position: int) -> int:
        match = pattern.match(text, position)
        if match is None:
            return position
        self._pieces.append(match[0])
        return match.end()

    def _value(self) -> str:
        value = "".join(self._pieces)
        self._pieces = []
        self._state = "start"
        return value
