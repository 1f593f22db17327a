"""Lenient JSON for structured output: reads malformed JSON, and reports each repair.

`repair_json` returns the value together with one sentence per kind of repair. No repair invents content; text that
cannot be read as JSON raises `JsonError`.
"""

from __future__ import annotations

import re

from foldline.utils._json_markdown import FENCE
from foldline.utils._json_partial import NUMBER
from foldline.utils._json_strict import (
    MAX_DEPTH,
    Json,
    JsonError,
    parse_float,
    parse_int,
    parse_strict,
)
from foldline.utils._surrogates import mend_surrogates

QUOTES = {'"': '"', "'": "'", "\u201c": "\u201d", "\u2018": "\u2019"}  # “ ” and ‘ ’
SKIP = re.compile(r"(?:\s++|//[^\n]*+|#[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")
WORD = re.compile(r"[A-Za-z_$][\w$.-]*+")
LITERALS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
ESCAPES = {
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "/": "/",
    "\\": "\\",
    '"': '"',
    "'": "'",
}
HEX4 = re.compile(r"[0-9a-fA-F]{4}")
RUN = {quote: re.compile(rf"[^\\\n\r\t{re.escape(end)}]++") for quote, end in QUOTES.items()}


CLOSED_OPEN_END = "closed what was left open at the end"
DROPPED_OPEN_NAME = "dropped a name without a value at the end"
GUESSES = frozenset({CLOSED_OPEN_END, DROPPED_OPEN_NAME})
"""Repairs of a text that ends inside a value: guesses at what was cut off."""


def repair_json(text: str, *, max_depth: int = MAX_DEPTH) -> tuple[Json, list[str]]:
    """Read JSON leniently; return the value and the repairs, an empty list for valid JSON."""
    try:
        value, repairs = parse_strict(text, max_depth=max_depth), list[str]()
    except JsonError as error:
        value, repairs = _Reader(text, max_depth, error).read()
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            inner, more = repair_json(value, max_depth=max_depth)
        except JsonError:
            return value, repairs
        return inner, [*repairs, "took the JSON out of a string", *more]
    return value, repairs


class _Reader:
    """One pass over the text, left to right; `_note` keeps each kind of repair once."""

    def __init__(self, text: str, max_depth: int, error: JsonError) -> None:
        self._text = text
        self._at = 0
        self._depth = max_depth
        self._error = error
        self._repairs: list[str] = []

    def read(self) -> tuple[Json, list[str]]:
        self._at = self._start()
        value = self._value(self._depth)
        self._skip()
        remaining = self._text[self._at :].strip()
        if remaining.strip("`"):
            self._note("dropped the text after the JSON")
        return value, self._repairs

    def _start(self) -> int:
        """Find where the JSON begins: in a fence, at the first bracket, or at the start."""
        fence = FENCE.search(self._text)
        bracket = re.search(r"[{\[]", self._text)
        if fence and (bracket is None or fence.start() < bracket.start()):
            self._note("took the JSON out of a code fence")
            if self._text[: fence.start()].strip():
                self._note("dropped the text before the JSON")
            return fence.end()
        if bracket is None or self._text.lstrip()[:1] in QUOTES:
            return 0
        if self._text[: bracket.start()].strip():
            self._note("dropped the text before the JSON")
        return bracket.start()

    def _note(self, repair: str) -> None:
        if repair not in self._repairs:
            self._repairs.append(repair)

    def _fail(self, reason: str) -> JsonError:
        return JsonError(f"{reason} (strictly read: {self._error.reason})", self._text, self._at)

    def _skip(self) -> str:
        """Skip space and comments, and return the next character ("" at the end)."""
        match = SKIP.match(self._text, self._at)
        if match is not None and match.end() > self._at:
            if match[0].strip():
                self._note("dropped comments")
            self._at = match.end()
        return self._text[self._at : self._at + 1]

    def _value(self, depth: int) -> Json:
        mark = self._skip()
        if depth < 0:
            raise self._fail("nested too deep")
        if mark == "{":
            return self._object(depth - 1)
        if mark == "[":
            return self._array(depth - 1)
        if mark and mark in QUOTES:
            return self._string(mark)
        return self._scalar()

    def _object(self, depth: int) -> dict[str, Json]:
        self._at += 1
        value: dict[str, Json] = {}
        while self._has_next("}", is_first=not value):
            name = self._name()
            if self._skip() != ":":
                if self._at >= len(self._text):
                    self._note(DROPPED_OPEN_NAME)
                    break
                raise self._fail(f"expected ':' after the name {name[:40]!r}")
            self._at += 1
            if not self._skip():
                self._note(DROPPED_OPEN_NAME)
                break
            if name in value:
                self._note(f"kept the last of two values named {name[:40]!r}")
            value[name] = self._value(depth)
        return value

    def _array(self, depth: int) -> list[Json]:
        self._at += 1
        value: list[Json] = []
        while self._has_next("]", is_first=not value):
            value.append(self._value(depth))
        return value

    def _has_next(self, close: str, *, is_first: bool) -> bool:
        """Read up to the next item; return False at the end of the container."""
        mark = self._skip()
        if not is_first and mark == ",":
            self._at += 1
            mark = self._skip()
            if mark == close:
                self._note("dropped a trailing comma")
        elif not is_first and mark and mark not in "]}":
            self._note("put in a missing comma")
        if mark == close:
            self._at += 1
            return False
        if not mark or self._text.startswith("```", self._at):
            self._note(CLOSED_OPEN_END)
            return False
        if mark in "]}":
            raise self._fail(f"expected {close!r}, found {mark!r}")
        return True

    def _name(self) -> str:
        mark = self._text[self._at]
        if mark in QUOTES:
            return self._string(mark)
        match = WORD.match(self._text, self._at)
        if match is None:
            raise self._fail(f"expected a name, found {mark!r}")
        self._at = match.end()
        self._note("put quotes around names")
        return match[0]

    def _scalar(self) -> Json:
        number = NUMBER.match(self._text, self._at)
        literal = number or WORD.match(self._text, self._at)
        if literal is None or (number is None and literal[0] not in LITERALS):
            excerpt = self._text[self._at : self._at + 20]
            raise self._fail(f"expected a value, found {excerpt!r}" if excerpt else "no JSON here")
        self._at = literal.end()
        if number is not None:
            try:
                return parse_int(number[0]) if number.lastindex is None else parse_float(number[0])
            except ValueError as error:
                raise self._fail(str(error)) from None
        if literal[0][0].isupper():
            self._note("wrote Python's True, False and None as JSON")
        return LITERALS[literal[0]]

    def _string(self, quote: str) -> str:
        if quote != '"':
            self._note("took single or curly quotes for double quotes")
        self._at += 1
        pieces: list[str] = []
        while self._at < len(self._text):
            match = RUN[quote].match(self._text, self._at)
            if match is not None:
                pieces.append(match[0])
                self._at = match.end()
                continue
            mark = self._text[self._at]
            self._at += 1
            if mark == QUOTES[quote]:
                return mend_surrogates("".join(pieces))
            pieces.append(self._escape() if mark == "\\" else self._raw(mark))
        self._note(CLOSED_OPEN_END)
        return mend_surrogates("".join(pieces))

    def _raw(self, mark: str) -> str:
        self._note("escaped raw newlines and tabs in strings")
        return mark

    def _escape(self) -> str:
        mark = self._text[self._at : self._at + 1]
        self._at += 1
        if mark == "u" and (digits := HEX4.match(self._text, self._at)):
            self._at += 4
            return chr(int(digits[0], 16))
        if mark in ESCAPES and mark != "'":
            return ESCAPES[mark]
        self._note("took an unknown escape literally")
        return ESCAPES.get(mark, "\\" + mark)
