"""Reads the long beginning of a JSON document with the C parser, instead of step by step.

The text up to the last complete element is closed with brackets and parsed; the result is the state that `PartialJson`
would have at that point. For unusual text it is None, and `PartialJson` reads the text from its start.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, NamedTuple

from foldline.utils._json_strict import parse_float, parse_int, refuse_constant
from foldline.utils._surrogates import mend_value

MARKS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|([\[\]{},])', re.DOTALL)
CLOSING = {"[": "]", "{": "}"}
FILLERS = {"[": "0", "{": '"\\u0000filler":0'}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object; one with equal names is left to `PartialJson`."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name occurs twice")
    return value


def _decoder(*, strict: bool) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_object,
        parse_float=parse_float,
        parse_int=parse_int,
        parse_constant=refuse_constant,
        strict=strict,
    )


DECODERS = {strict: _decoder(strict=strict) for strict in (True, False)}


class Prefix(NamedTuple):
    """The state after reading: the open containers and their names, up to `end`, just after `mark`."""

    stack: list[Any]
    keys: list[str]
    mark: str
    end: int


def read_prefix(text: str, *, max_depth: int, strict: bool) -> Prefix | None:
    """Read the part that is certainly complete; an error in the text makes it shorter."""
    decoder = DECODERS[strict]
    try:
        return _read(text, max_depth, decoder)
    except json.JSONDecodeError as error:
        shorter = text[: error.pos]
    except ValueError:
        return None
    try:
        return _read(shorter, max_depth, decoder)
    except ValueError:
        return None


def _read(text: str, max_depth: int, decoder: json.JSONDecoder) -> Prefix | None:
    marks = MARKS.findall(text)
    opened, mark_index = _open_brackets(marks, max_depth)
    if not opened:
        return None
    mark = marks[mark_index]
    end = _position(text, mark, mark_index, is_last=mark_index == len(marks) - 1) + 1
    # A comma needs a value on both sides: add one, and remove it afterwards.
    filler = FILLERS[opened[-1]] if mark == "," else ""
    closing = "".join(CLOSING[bracket] for bracket in reversed(opened))
    value = decoder.decode(text[:end] + filler + closing)
    if "\\ud" in text or "\\uD" in text:
        value = mend_value(value)
    stack, keys = _split_open(value, len(opened))
    if filler:
        stack[-1].pop() if isinstance(stack[-1], list) else stack[-1].popitem()
    return Prefix(stack, keys, mark, end)


def _position(text: str, mark: str, number: int, *, is_last: bool) -> int:
    if is_last:  # after the last mark there is no string that could hold such a character
        return text.rindex(mark)
    return next(islice(MARKS.finditer(text), number, None)).start()


def _split_open(value: dict[str, Any] | list[Any], depth: int) -> tuple[list[Any], list[str]]:
    """Remove each open container from its parent, where it is the last item."""
    stack: list[Any] = [value]
    keys = [""]
    for _ in range(depth - 1):
        if isinstance(value, list):
            value = value.pop()
        else:
            keys[-1] = next(reversed(value))
            value = value.pop(keys[-1])
        stack.append(value)
        keys.append("")
    return stack, keys


def _open_brackets(marks: list[str], max_depth: int) -> tuple[str, int]:
    """Return the open brackets, and the last mark, which is always inside the innermost of them.

    Pairs are removed from the inside, one level per round: a Python loop would take ten times as long.
    """
    brackets, previous, levels = "".join(marks).replace(",", ""), "", 0
    while brackets != previous and levels < max_depth:
        previous, levels = brackets, levels + 1
        brackets = brackets.replace("[]", "").replace("{}", "")
    # Text that may be nested too deep, or closes more than it opens, is left to `PartialJson`.
    if levels + len(brackets) > max_depth or "]" in brackets or "}" in brackets:
        return "", 0
    last = next((index for index in range(len(marks) - 1, -1, -1) if marks[index]), 0)
    return brackets, last
