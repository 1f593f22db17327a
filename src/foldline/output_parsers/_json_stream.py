"""The JSON in a text that is still arriving: alone, in a code fence, or in the middle of prose. Linear in the text.

Three states. *Whole*: the text so far may be one JSON value. *Searching*: it was not; look for an object, skip arrays.
*Found*: an object in prose is complete; a code fence further on would still be preferred. The end result is the one
`parse_json_markdown` gives for the whole text.
"""

from __future__ import annotations

import re
from typing import Any, Final

from foldline.utils._json_partial import MISSING
from foldline.utils.json import PartialJson, parse_json_markdown

__all__ = ["JsonStream"]

LEAD = re.compile(r"[\s`]*+")
OPENING = re.compile(r'\{(?=\s*+(?:["}]|\Z))|\[')
FENCED = re.compile(r"```[ \t]*+[A-Za-z0-9_+-]*+\s*+\Z")
MOST_TRIES = 10_000
"""Braces in prose that may turn out not to be JSON before the search is given up."""
LOOK_BACK = 80
"""Characters before a brace that can hold the opening of its fence."""


class _Candidate:
    """A container that began somewhere in the text."""

    def __init__(self, begin: int, *, is_live: bool, is_fenced: bool) -> None:
        self.parser: Final = PartialJson()
        self.begin = begin
        self.is_live = is_live
        self.is_fenced = is_fenced


class JsonStream:
    """Fed text; `value` is the best guess so far, None while there is none."""

    def __init__(self) -> None:
        self.value: Any = None
        self.has_value = False
        self._pieces: list[str] = []
        self._length = 0
        self._whole: PartialJson | None = PartialJson()
        self._is_lead = True
        self._candidate: _Candidate | None = None
        self._is_found = False
        self._is_done = False
        self._before = ""
        self._tries = 0

    @property
    def text(self) -> str:
        """All the text so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def feed(self, text: str) -> None:
        """Read on."""
        if not text:
            return
        self._pieces.append(text)
        if self._whole is not None:
            self._read_whole(self._whole, text)
        elif not self._is_done:
            self._search(text, self._length)
        self._length += len(text)

    def finish(self) -> object:
        """Return the result for the whole text; `JsonError` if there is no JSON in it."""
        if self._whole is not None and self._whole.error is None and self._whole.has_value:
            return self._whole.value()
        return parse_json_markdown(self.text)

    def _read_whole(self, parser: PartialJson, text: str) -> None:
        start = 0
        if self._is_lead:
            start = LEAD.match(text).end()  # type: ignore[union-attr]
            if start == len(text):
                return
            self._is_lead = False
        parser.feed(text, start)
        if parser.error is None:
            self._see(parser)
        elif not parser._stack and parser._root is not MISSING:
            self._see(parser)
            self._whole, self._is_done = None, True
        else:
            self.value, self.has_value, self._whole = None, False, None
            whole = self.text
            self._search(whole, 0)

    def _see(self, parser: PartialJson) -> None:
        value = parser._snapshot()
        if value is not MISSING:
            self.value, self.has_value = value, True

    def _search(self, text: str, offset: int) -> None:
        """Read a stretch of text whose first character is number `offset` of the whole."""
        position = 0
        while position < len(text) and not self._is_done:
            if self._candidate is None:
                opening = OPENING.search(text, position)
                if opening is None:
                    break
                position = opening.start()
                self._open(text, position, offset)
                if self._candidate is None:
                    position += 1
                    continue
            position = self._continue(self._candidate, text, position, offset)
        self._before = (self._before + text[-LOOK_BACK:])[-LOOK_BACK:]

    def _open(self, text: str, position: int, offset: int) -> None:
        before = text[max(0, position - LOOK_BACK) : position]
        if position < LOOK_BACK:
            before = self._before + before
        is_fenced = FENCED.search(before[-LOOK_BACK:]) is not None
        if self._is_found and not is_fenced:
            return
        is_live = is_fenced or text[position] == "{"
        self._candidate = _Candidate(offset + position, is_live=is_live, is_fenced=is_fenced)

    def _continue(self, candidate: _Candidate, text: str, position: int, offset: int) -> int:
        parser = candidate.parser
        parser.feed(text, position)
        if parser.error is None:
            if candidate.is_live:
                self._see(parser)
            return len(text)
        stopped = candidate.begin + parser.error.position - offset
        self._candidate = None
        self._tries += 1
        self._is_done = self._tries > MOST_TRIES
        if not parser._stack and candidate.is_live:
            self._see(parser)
            self._is_found = True
            self._is_done = self._is_done or candidate.is_fenced
        return max(stopped, position + 1 if candidate.begin - offset == position else position)
