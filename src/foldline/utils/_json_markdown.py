"""Finds the JSON in the text of a model: cut off, in a code fence, or inside a sentence. Linear in the text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from foldline.exceptions import OutputParserException
from foldline.utils._json_partial import PartialJson
from foldline.utils._json_strict import MAX_DEPTH, Json, JsonError, parse_strict
from foldline.utils._surrogates import mend_value

FENCE = re.compile(r"```[ \t]*+(?:[A-Za-z0-9_+-]*+)")
OPENING = re.compile(r'\{(?=\s*+(?:["}]|\Z))|\[')  # `{` before anything else begins no object
MOST_TRIES = (
    10_000  # brackets in prose that may turn out not to be JSON before the search is given up
)
FENCED_VALUE = re.compile(r'\s*+(true|false|null|-?\d[\d.eE+-]*+|"[^"\n]*+")\s*+```')
OPENING_HERE = re.compile(r"\s*+[{\[]")


def parse_partial_json(s: str, *, strict: bool = False, max_depth: int = MAX_DEPTH) -> Json:
    """Parse JSON that may have been cut off at any point.

    `strict` refuses raw control characters inside strings and text after the value. Text that is wrong rather than
    unfinished raises `JsonError` (a `json.JSONDecodeError`).
    """
    if s.rstrip()[-1:] in ("}", "]"):
        try:
            value: Json = mend_value(parse_strict(s, max_depth=max_depth))
            return value  # whole: several times faster
        except JsonError:
            pass
    parser = PartialJson(max_depth=max_depth, strict=strict)
    parser.feed(s)
    if parser.error is not None and (strict or parser._stack or not parser.has_value):
        raise JsonError(parser.error.reason, s, parser.error.position)
    if not parser.has_value:
        raise JsonError("expected a value, found nothing", s, len(s))
    return parser.value()


def parse_json_markdown(
    json_string: str, *, parser: Callable[[str], Json] = parse_partial_json
) -> Json:
    """Parse JSON that may be in a code fence or in prose, and may be cut off.

    The complete text is tried first, then the first fence that holds JSON, then the first object in the prose (an array
    if there is no object). Raises `JsonError` if there is none.
    """
    text = json_string.strip().strip("`").strip()
    try:
        return parser(text)
    except ValueError as error:
        whole_error = error
    for start, end in _places(json_string):
        piece = json_string[start:end].strip()
        try:
            return parser(piece)
        except ValueError:
            continue
    raise whole_error


def parse_and_check_json_markdown(text: str, expected_keys: list[str]) -> dict[str, Json]:
    """Parse as `parse_json_markdown`, and check that the value is an object with these keys."""
    try:
        value = parse_json_markdown(text)
    except ValueError as error:
        raise OutputParserException(
            f"Got invalid JSON object. Error: {error}", llm_output=text
        ) from error
    if not isinstance(value, dict):
        raise OutputParserException(
            f"Expected JSON object (dict), but got: {type(value).__name__}", llm_output=text
        )
    for key in expected_keys:
        if key not in value:
            raise OutputParserException(
                f"expected the key {key!r} in the JSON object, got {sorted(value)}", llm_output=text
            )
    return value


def _places(text: str) -> Iterator[tuple[int, int]]:
    """Return the spans worth parsing, best first, at most one fenced and one in prose."""
    for fence in FENCE.finditer(text):
        span = find_json(text, fence.end(), only_here=True)
        if span is None and (value := FENCED_VALUE.match(text, fence.end())):
            span = value.span(1)
        if span is None and OPENING_HERE.match(text, fence.end()):
            end = text.find("```", fence.end())
            span = None if end < 0 else (fence.end(), end)  # cut off, but the fence is closed
        if span is not None:
            yield span
            break
    span = find_json(text, 0)
    if span is not None:
        yield span


def find_json(text: str, start: int, *, only_here: bool = False) -> tuple[int, int] | None:
    """Find where a JSON object (failing that, an array) begins and ends in prose.

    A failed attempt is continued after the place where it failed, so the search is linear.
    `only_here` allows nothing but space before it.
    """
    if only_here:
        opening = OPENING_HERE.match(text, start)
        if opening is None:
            return None
        end, is_value = _read_container(text, opening.end() - 1)
        return (opening.end() - 1, end) if is_value else None
    fallback: tuple[int, int] | None = None
    for _ in range(MOST_TRIES):
        match = OPENING.search(text, start)
        if match is None:
            break
        begin = match.start()
        end, is_value = _read_container(text, begin)
        if is_value:
            if text[begin] == "{":
                return begin, end
            fallback = fallback or (begin, end)
        start = max(end, begin + 1)
    return fallback


def _read_container(text: str, begin: int) -> tuple[int, bool]:
    """Read a container from `begin`; return where it ends (or fails), and whether it is one, perhaps cut off."""
    parser = PartialJson()
    parser.feed(text, begin)
    if parser.error is None:
        return len(text), True
    return begin + parser.error.position, not parser._stack
