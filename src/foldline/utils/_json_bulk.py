"""A long beginning of a JSON document, read by the C parser in one go instead of step by step.

All but the element still open can be closed with brackets and parsed; what comes back is the state in which
`PartialJson` would be at that point. Whatever is odd gives None, and the steps read it from the start.
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


def _last_is_last(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object; of equal names the last wins, and the last name read is the last of the dict."""
    value = dict(pairs)
    if len(value) != len(pairs):
        name = pairs[-1][0]
        value[name] = value.pop(name)
    return value


def _decoder(*, strict: bool) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_last_is_last,
        parse_float=parse_float,
        parse_int=parse_int,
        parse_constant=refuse_constant,
        strict=strict,
    )


DECODERS = {strict: _decoder(strict=strict) for strict in (True, False)}


class Prefix(NamedTuple):
    """What was read: the open containers and their names, up to `end`, just behind `mark`."""

    stack: list[Any]
    keys: list[str]
    mark: str
    end: int


def read_prefix(text: str, *, max_depth: int, strict: bool) -> Prefix | None:
    """Read as much as is surely finished; an error in the text shortens what is read."""
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
    opened, cut = _open_brackets(marks, max_depth)
    if not opened:
        return None
    mark = marks[cut]
    end = _position(text, mark, cut, is_last=cut == len(marks) - 1) + 1
    # A comma wants a value before and behind it: give it one, and take it away again.
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
    if is_last:  # behind the last mark is no string that could hold such a character
        return text.rindex(mark)
    return next(islice(MARKS.finditer(text), number, None)).start()


def _split_open(value: dict[str, Any] | list[Any], depth: int) -> tuple[list[Any], list[str]]:
    """Take each open container out of the one above it, where it is the last item."""
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
    """Return the brackets still open, and the last mark, which is always inside the innermost of them.

    Pairs are struck out from the inside, a level a round: Python's loops would take ten times as long.
    """
    brackets, before, levels = "".join(marks).replace(",", ""), "", 0
    while brackets != before and levels < max_depth:
        before, levels = brackets, levels + 1
        brackets = brackets.replace("[]", "").replace("{}", "")
    # What may be nested too deep is left to the steps, and so is what closes more than it opens.
    if levels + len(brackets) > max_depth or "]" in brackets or "}" in brackets:
        return "", 0
    last = next((back for back in range(len(marks) - 1, -1, -1) if marks[back]), 0)
    return brackets, last
