"""Strict JSON parsing: errors say what is wrong and where, and nothing is guessed.

`parse_strict` is for text of a model that a program acts on (tool arguments, structured output): duplicate keys, NaN,
overflowing numbers, depth and trailing text are errors. `parse_wire` is for text of a vendor's server: several times
faster, and without checks for duplicate keys, NaN and overflow.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate, repeat
from typing import Any, NoReturn, TypeAlias, Union

import pydantic_core

from foldline.exceptions import FoldlineError

Json: TypeAlias = Union[  # noqa: UP007  its own name in quotes cannot stand beside `|`
    dict[str, "Json"], list["Json"], str, int, float, bool, None
]
"""A JSON value. The only definition of that name."""

MAX_DEPTH = 200
# Compiled at first use; most programs never use them.
TOKEN = r'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[{}\[\]:,]|[^\s{}\[\]:,"]++'
BRACKETS = r'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|([\[\]{}])'
STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}
INFINITE = (float("inf"), float("-inf"))
WIRE_CONSTANTS = {name: float(name) for name in ("NaN", "Infinity", "-Infinity")}
"""What servers in Python write where they have no number (a log probability): always the same objects, because an index
that is NaN is found only as the same object.
"""


class JsonError(FoldlineError, json.JSONDecodeError):
    """The text is not the JSON it should be; `reason` says what is wrong, `position` where."""

    def __init__(self, reason: str, text: str = "", position: int = 0) -> None:
        json.JSONDecodeError.__init__(self, reason, text, position)

    @property
    def reason(self) -> str:
        """What is wrong, without the position."""
        return self.msg

    @property
    def position(self) -> int:
        """The offset of the error in characters."""
        return self.pos


class _Refused(ValueError):
    """Raised inside the C scanner, which has no position; it is found afterwards."""


def parse_strict(
    text: str | bytes, *, max_depth: int = MAX_DEPTH, max_bytes: int | None = None
) -> Json:
    """Parse one JSON document, or raise `JsonError`.

    Integers are exact. Escaped lone surrogates stay lone surrogates (their other half may come
    in the next delta): see `mend_surrogates`.
    """
    if max_bytes is not None:
        _check_size(text, max_bytes)
    if not isinstance(text, str):
        text = _decode(text)
    _check_depth(text, max_depth)
    try:
        value: Json = _DECODER.decode(text)
        return value
    except json.JSONDecodeError as error:
        raise JsonError(error.msg, text, error.pos) from None
    except _Refused as error:
        raise _located(text, str(error)) from None
    except (RecursionError, ValueError) as error:  # a deep max_depth; an int beyond 4,300 digits
        raise JsonError(str(error), text) from None


def parse_wire(data: str | bytes, *, max_depth: int = MAX_DEPTH) -> Json:
    """Parse a vendor's JSON fast: as `parse_strict`, with three exceptions.

    The last of two equal keys wins, NaN and the infinities are numbers, and a byte order mark is skipped.
    """
    try:
        if isinstance(data, str):
            shallow = data.count("[") + data.count("{") <= max_depth
        else:
            shallow = data.count(b"[") + data.count(b"{") <= max_depth
        if shallow:
            quickly_read: Json = pydantic_core.from_json(data, allow_inf_nan=False)
            return quickly_read
    except ValueError:
        pass
    text = data if isinstance(data, str) else _decode(data).removeprefix("\ufeff")
    _check_depth(text, max_depth)
    try:
        value: Json = _WIRE_DECODER.decode(text)
        return value
    except json.JSONDecodeError as error:
        raise JsonError(error.msg, text, error.pos) from None
    except (_Refused, RecursionError, ValueError) as error:
        raise JsonError(str(error), text) from None


def nesting_depth(text: str) -> int:
    """Return how deep the brackets of a JSON text nest, without parsing it."""
    steps = map(STEPS.get, re.findall(BRACKETS, text), repeat(0))
    return max(accumulate(steps, initial=0))


def parse_int(digits: str) -> int:
    """Convert an integer exactly; raise a `JsonError` with a reason where Python cannot."""
    try:
        return int(digits)
    except ValueError:
        raise _Refused(f"integer of {len(digits)} digits is too long") from None


def parse_float(digits: str) -> float:
    """Convert a number; raise where it would become infinite."""
    number = float(digits)
    if number in INFINITE:
        raise _Refused(f"number {digits[:40]} is out of range")
    return number


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object; raise where it has two equal names."""
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Refused(f"duplicate key {key[:80]!r}")
            seen.add(key)
    return value


def refuse_constant(name: str) -> NoReturn:
    """Raise for NaN and the infinities."""
    raise _Refused(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=unique_keys,
    parse_float=parse_float,
    parse_int=parse_int,
    parse_constant=refuse_constant,
)
_WIRE_DECODER = json.JSONDecoder(parse_constant=WIRE_CONSTANTS.__getitem__)


def _check_size(text: str | bytes, max_bytes: int) -> None:
    size = len(text)
    if isinstance(text, str) and size <= max_bytes < size * 4 and not text.isascii():
        size = len(text.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        raise JsonError(f"{size} bytes of JSON are more than the {max_bytes} allowed")


def _decode(data: bytes) -> str:
    try:
        return bytes(data).decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonError(f"not UTF-8: {error.reason} at byte {error.start}") from None


def _check_depth(text: str, max_depth: int) -> None:
    # Up to max_depth brackets cannot nest deeper than max_depth: two counts in C spare most texts the scan.
    if text.count("[") + text.count("{") <= max_depth or nesting_depth(text) <= max_depth:
        return
    depth = 0
    for match in re.finditer(BRACKETS, text):
        depth += STEPS.get(match[1], 0)
        if depth > max_depth:
            raise JsonError(f"nested deeper than {max_depth} levels", text, match.start())


def _located(text: str, reason: str) -> JsonError:
    """Find the position of an error."""
    keys: list[set[str] | None] = []
    previous = ""
    for match in re.finditer(TOKEN, text):
        mark = match.group()
        if mark == "{":
            keys.append(set())
        elif mark == "[":
            keys.append(None)
        elif mark in ("}", "]"):
            if keys:
                keys.pop()
        elif _is_refused(mark, previous, keys[-1] if keys else None):
            return JsonError(reason, text, match.start())
        previous = mark
    return JsonError(reason, text)


def _is_refused(mark: str, previous: str, keys: set[str] | None) -> bool:
    if mark[0] != '"':
        return not _is_plain(mark)
    if keys is None or previous not in ("{", ","):
        return False
    key = json.loads(mark, strict=False)
    repeated = key in keys
    keys.add(key)
    return repeated


def _is_plain(mark: str) -> bool:
    if mark in (",", ":", "true", "false", "null"):
        return True
    try:
        return parse_int(mark) is not None
    except _Refused:
        pass
    try:
        return mark.lstrip("-")[:1].isdigit() and parse_float(mark) is not None
    except ValueError:
        return False
