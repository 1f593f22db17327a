"""`JsonStream`: parses the JSON in a text that is still arriving, in linear time.

The JSON may be the whole text, inside a code fence, or inside prose. There are three states. First, the text so far may
be one JSON value. If it is not, the second state searches for an object and skips arrays. In the third, an object in
prose is complete; a code fence that follows is still preferred. The final result is that of `parse_json_markdown`.
"""

from __future__ import annotations

import re
from typing import Any, Final

from foldline.utils._json_partial import MISSING
from foldline.utils.json import PartialJson, parse_json_markdown

__all__ = ["JsonStream"]

LEADING_FENCE = re.compile(r"[\s`]*+")
OPENING = re.compile(r'\{(?=\s*+(?:["}]|\Z))|\[')
FENCE_OPENING = re.compile(r"```[ \t]*+[A-Za-z0-9_+-]*+\s*+\Z")
MAX_CANDIDATES = 10_000
"""Braces in prose that may turn out not to be JSON before the search stops."""
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
    """Parses text piece by piece; `value` is the best result so far, None while there is none."""

    def __init__(self) -> None:
        self.value: Any = None
        self.has_value = False
        self._pieces: list[str] = []
        self._length = 0
        self._document_parser: PartialJson | None = PartialJson()
        self._is_before_document = True
        self._candidate: _Candidate | None = None
        self._has_complete_object = False
        self._is_done = False
        self._previous_text = ""
        self._candidate_count = 0

    @property
    def text(self) -> str:
        """All the text so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def feed(self, text: str) -> None:
        """Parse the next piece of text."""
        if not text:
            return
        self._pieces.append(text)
        if self._document_parser is not None:
            self._feed_document(self._document_parser, text)
        elif not self._is_done:
            self._search(text, self._length)
        self._length += len(text)

    def finish(self) -> object:
        """Return the result for the whole text; raise `JsonError` if it has no JSON."""
        if (
            self._document_parser is not None
            and self._document_parser.error is None
            and self._document_parser.has_value
        ):
            return self._document_parser.value()
        return parse_json_markdown(self.text)

    def _feed_document(self, parser: PartialJson, text: str) -> None:
        start = 0
        if self._is_before_document:
            start = LEADING_FENCE.match(text).end()  # type: ignore[union-attr]
            if start == len(text):
                return
            self._is_before_document = False
        parser.feed(text, start)
        if parser.error is None:
            self._update_value(parser)
        elif not parser._stack and parser._root is not MISSING:
            self._update_value(parser)
            self._document_parser, self._is_done = None, True
        else:
            self.value, self.has_value, self._document_parser = None, False, None
            self._search(self.text, 0)

    def _update_value(self, parser: PartialJson) -> None:
        value = parser._snapshot()
        if value is not MISSING:
            self.value, self.has_value = value, True

    def _search(self, text: str, offset: int) -> None:
        """Search a piece of text that begins at index `offset` of the whole text."""
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
        self._previous_text = (self._previous_text + text[-LOOK_BACK:])[-LOOK_BACK:]

    def _open(self, text: str, position: int, offset: int) -> None:
        before = text[max(0, position - LOOK_BACK) : position]
        if position < LOOK_BACK:
            before = self._previous_text + before
        is_fenced = FENCE_OPENING.search(before[-LOOK_BACK:]) is not None
        if self._has_complete_object and not is_fenced:
            return
        is_live = is_fenced or text[position] == "{"
        self._candidate = _Candidate(offset + position, is_live=is_live, is_fenced=is_fenced)

    def _continue(self, candidate: _Candidate, text: str, position: int, offset: int) -> int:
        parser = candidate.parser
        parser.feed(text, position)
        if parser.error is None:
            if candidate.is_live:
                self._update_value(parser)
            return len(text)
        error_position = candidate.begin + parser.error.position - offset
        self._candidate = None
        self._candidate_count += 1
        self._is_done = self._candidate_count > MAX_CANDIDATES
        if not parser._stack and candidate.is_live:
            self._update_value(parser)
            self._has_complete_object = True
            self._is_done = self._is_done or candidate.is_fenced
        return max(
            error_position, position + 1 if candidate.begin - offset == position else position
        )
