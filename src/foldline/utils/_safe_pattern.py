"""Regular expressions from outside, matched so that no pattern can hang the program.

pydantic-core carries Rust's regex engine, which is linear in the text. What it does not know (look-around, back-
references) goes to Python's engine only if no repetition stands inside a repetition, and only for short texts.
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
    """Say whether the pattern is found anywhere in the text, as JSON Schema means it."""
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
        if _nests_repeats(sre.parse(pattern), inside=False):
            raise UsageError(f"pattern {pattern[:80]!r} cannot be checked in bounded time")
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"pattern {pattern[:80]!r} is not a regular expression: {error}") from None


def _nests_repeats(node: object, *, inside: bool) -> bool:
    if isinstance(node, sre.SubPattern | list):
        return any(_nests_repeats(part, inside=inside) for part in node)
    if not isinstance(node, tuple):
        return False
    if len(node) == 2 and str(node[0]) in REPEATS:
        is_long = node[1][1] > 1
        return (inside and is_long) or _nests_repeats(node[1][2], inside=inside or is_long)
    return any(_nests_repeats(part, inside=inside) for part in node)
