"""Matches untrusted regular expressions so that no pattern can hang the program.

pydantic-core has Rust's regex engine, which is linear in the text. Patterns that it does not support (look-around,
back-references) go to Python's engine, if they have no nested repetitions, and only for short texts.
"""

from __future__ import annotations

import re
import re._parser as sre  # type: ignore[import-not-found]  # the parse tree; no stubs
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

from foldline.exceptions import UsageError

MAX_PATTERN = 10_000
MAX_TEXT = 10_000
REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


def pattern_matches(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere in the text, as in JSON Schema."""
    matcher = _matcher(pattern)
    if isinstance(matcher, SchemaValidator):
        return matcher.isinstance_python(text)
    if len(text) > MAX_TEXT:
        raise UsageError(
            f"text of {len(text)} characters is too long to check against {pattern[:80]!r}"
        )
    return matcher.search(text) is not None


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> SchemaValidator | re.Pattern[str]:
    if len(pattern) > MAX_PATTERN:
        raise UsageError(f"not a usable pattern: {pattern!r:.80}")
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        pass
    try:
        if _nests_repeats(sre.parse(pattern), in_repeat=False):
            raise UsageError(f"pattern {pattern[:80]!r} cannot be checked in bounded time")
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"pattern {pattern[:80]!r} is not a regular expression: {error}") from None


def _nests_repeats(node: object, *, in_repeat: bool) -> bool:
    if isinstance(node, sre.SubPattern | list):
        return any(_nests_repeats(part, in_repeat=in_repeat) for part in node)
    if not isinstance(node, tuple):
        return False
    if len(node) == 2 and str(node[0]) in REPEATS:
        is_long = node[1][1] > 1
        return (in_repeat and is_long) or _nests_repeats(node[1][2], in_repeat=in_repeat or is_long)
    return any(_nests_repeats(part, in_repeat=in_repeat) for part in node)
