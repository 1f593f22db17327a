"""Validates a value against a JSON Schema, with limits of depth and time. The keywords are in `_schema_rules`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from foldline.exceptions import MissingKeyError, UsageError
from foldline.utils._schema_rules import MAX_ISSUES, RULES, Issue

MAX_DEPTH = 200
MAX_STEPS = 300_000


def validate(value: object, schema: Any) -> list[Issue]:  # noqa: ANN401  JSON Schema: a dict, or true and false
    """Return the issues of a value, at most 100; an empty list means that it is valid."""
    issues: list[Issue] = []
    try:
        issues.extend(islice(_Validation(schema).check(value, schema, "$"), MAX_ISSUES))
    except _TooLong:
        issues.append(Issue("$", f"takes more than {MAX_STEPS} steps to check", MAX_STEPS, "$ref"))
    return issues


class _TooLong(Exception):
    """The schema has too many combinations of alternatives to check."""


def resolve_ref(ref: object, root: object) -> object:
    """Return the target of a reference into the same document."""
    if not isinstance(ref, str) or not ref.startswith("#"):
        raise UsageError(
            f"$ref {ref!r}: ref paths are expected to be URI fragments, meaning they should start with '#': "
            "only references into the same schema are followed"
        )
    target = root
    for step in ref[1:].split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict) and key in target:
            target = target[key]
        elif isinstance(target, dict) and key.isdecimal() and int(key) in target:
            target = target[int(key)]  # a schema written in Python may have numbers for keys
        elif isinstance(target, list) and key.isdecimal() and int(key) < len(target):
            target = target[int(key)]
        else:
            raise MissingKeyError(f"$ref {ref!r}: Reference {ref!r} not found in the schema")
    return target


class _Validation:
    """One validation: the root for references, and the current depth."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._depth = 0
        self._steps = 0

    def check(self, value: object, schema: Any, path: str) -> Iterator[Issue]:  # noqa: ANN401  JSON Schema: a dict, or true and false
        if schema is True or schema == {}:
            return
        if schema is False:
            yield Issue(path, "no value is allowed here", expected=schema, keyword="false")
            return
        if not isinstance(schema, dict):
            raise UsageError(f"{path}: a schema is an object or a boolean, not {schema!r:.80}")
        if value is None and schema.get("nullable") is True:
            return
        if self._depth >= MAX_DEPTH:
            yield Issue(path, f"nested deeper than {MAX_DEPTH} levels", MAX_DEPTH, "$ref")
            return
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise _TooLong
        self._depth += 1
        try:
            for keyword, expected in schema.items():
                rule = RULES.get(keyword)
                if rule is not None:
                    yield from rule(self, value, expected, schema, path)
        finally:
            self._depth -= 1

    def fits(self, value: object, schema: object) -> bool:
        return next(self.check(value, schema, "$"), None) is None

    def resolve(self, ref: object) -> object:
        return resolve_ref(ref, self._root)
