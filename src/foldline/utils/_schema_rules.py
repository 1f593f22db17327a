"""The keywords of JSON Schema: one function per keyword, which yields the issues of a value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from foldline.exceptions import UsageError
from foldline.utils._safe_pattern import pattern_matches

__all__ = ["MAX_ISSUES", "RULES", "Issue"]

MAX_ISSUES = 100


class Issue(NamedTuple):
    """A place where a value does not fit the schema: the path, the message, and what was expected."""

    path: str
    message: str
    expected: Any
    keyword: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Validation(Protocol):
    """The validation that a keyword belongs to."""

    def check(self, value: object, schema: Any, path: str) -> Iterator[Issue]:  # noqa: ANN401  JSON Schema: a dict, or true and false
        """Yield the issues of a value."""

    def fits(self, value: object, schema: object) -> bool:
        """Whether a value fits."""

    def resolve(self, ref: object) -> object:
        """Return the target of a reference."""


Rule = Callable[[Validation, Any, Any, dict[str, Any], str], Iterator[Issue]]


def is_type(value: object, name: object) -> bool:
    """Whether a value has a JSON Schema type: 1.0 is an integer, true is not a number."""
    if name == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if name == "integer":
        if isinstance(value, float):
            return value.is_integer()
        return isinstance(value, int) and not isinstance(value, bool)
    kinds = {"string": str, "boolean": bool, "null": type(None), "object": dict, "array": list}
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        raise UsageError(f"{name!r} is not a type of JSON Schema")
    return isinstance(value, kind)


def is_equal(first: object, second: object) -> bool:
    """Compare as JSON: 1 equals 1.0, and neither equals true."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(is_equal, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(
            is_equal(first[key], second[key]) for key in first
        )
    return bool(first == second)


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _type(
    run: Validation,
    value: object,
    expected: str | list[str],
    schema: dict[str, Any],
    path: str,
) -> Iterator[Issue]:
    names = expected if isinstance(expected, list) else [expected]
    if not any(is_type(value, name) for name in names):
        yield Issue(path, f"expected {' or '.join(names)}, got {_show(value)}", expected, "type")


def _enum(
    run: Validation,
    value: object,
    expected: Sequence[Any],
    schema: dict[str, Any],
    path: str,
) -> Iterator[Issue]:
    if not any(is_equal(value, item) for item in expected):
        yield Issue(
            path, f"expected one of {_show(expected)}, got {_show(value)}", expected, "enum"
        )


def _const(
    run: Validation, value: object, expected: object, schema: dict[str, Any], path: str
) -> Iterator[Issue]:
    if not is_equal(value, expected):
        yield Issue(path, f"expected {_show(expected)}, got {_show(value)}", expected, "const")


def _ref(
    run: Validation, value: object, expected: object, schema: dict[str, Any], path: str
) -> Iterator[Issue]:
    yield from run.check(value, run.resolve(expected), path)


def _required(
    run: Validation,
    value: object,
    expected: Sequence[str],
    schema: dict[str, Any],
    path: str,
) -> Iterator[Issue]:
    if isinstance(value, dict):
        for name in expected:
            if name not in value:
                yield Issue(path, f"the property {name!r} is missing", expected, "required")


def _properties(
    run: Validation,
    value: object,
    expected: Mapping[str, Any],
    schema: dict[str, Any],
    path: str,
) -> Iterator[Issue]:
    if isinstance(value, dict):
        for name, part in expected.items():
            if name in value:
                yield from run.check(value[name], part, _join(path, name))


def _pattern_properties(
    run: Validation,
    value: object,
    expected: Mapping[str, Any],
    schema: dict[str, Any],
    path: str,
) -> Iterator[Issue]:
    if isinstance(value, dict):
        for pattern, part in expected.items():
            for name, item in value.items():
                if pattern_matches(pattern, name):
                    yield from run.check(item, part, _join(path, name))


def _additional(
    run: Validation, value: object, expected: object, schema: dict[str, Any], path: str
) -> Iterator[Issue]:
    if not isinstance(value, dict):
        return
    properties = schema.get("properties") or {}
    patterns = schema.get("patternProperties") or {}
    for name, item in value.items():
        if name in properties or any(pattern_matches(pattern, name) for pattern in patterns):
            continue
        if expected is False:
            yield Issue(
                _join(path, name),
                "this property is not allowed",
                sorted(properties),
                "additionalProperties",
            )
        else:
            yield from run.check(item, expected, _join(path, name))


def _property_names(
    run: Validation, value: object, expected: object, schema: dict[str, Any], path: str
) -> Iterator[Issue]:
    if isinstance(value, dict):
        for name in value:
            yield from run.check(name, expected, _join(path, name))


def _dependent(
    run: Validation,
    value: object,
    expected: Mapping[str, Sequence[str]],
    schema: dict[str, Any],
    path: str,
) -> Iterator[Issue]:
    if isinstance(value, dict):
        for name, needed_names in expected.items():
            for needed in needed_names if name in value else ():
                if needed not in value:
                    yield Issue(
                        path,
                        f"{name!r} is given without {needed!r}",
                        needed_names,
                        "dependentRequired",
                    )


def _items(
    run: Validation, value: object, expected: object, schema: dict[str, Any], path: str
) -> Iterator[Issue]:
    if isinstance(value, list):
        start = len(schema.get("prefixItems") or ())
        for index in range(start, len(value)):
            yield from run.check(value[index], expected, f"{path}[{index}]")


def _prefix_items(
    run: Validation,
    value: object,
    expected: Sequence[Any],
    schema: dict[str, Any],
    path: str,
) -> Iterator[Issue]:
    if isinstance(value, list):
        for index, (item, part) in enumerate(zip(value, expected, strict=False)):
            yield from run.check(item, part, f"{path}[{index}]")


def _contains(
    run: Validation, value: object, expected: object, schema: dict[str, Any], path: str
) -> Iterator[Issue]:
    if isinstance(value, list):
        count = sum(run.fits(item, expected) for item in value)
        low, high = schema.get("minContains", 1), schema.get("maxContains", math.inf)
        if not low <= count <= high:
            yield Issue(
                path,
                f"{count} items fit `contains`, expected {low} to {high}",
                expected,
                "contains",
            )


def _unique(
    run: Validation, value: object, expected: object, schema: dict[str, Any], path: str
) -> Iterator[Issue]:
    if expected is not True or not isinstance(value, list):
        return
    seen: dict[str, int] = {}
    for index, item in enumerate(value):
        key = _key(item)
        if key in seen:
            yield Issue(
                f"{path}[{index}]", f"the same as item {seen[key]}", expected, "uniqueItems"
            )
            return
        seen[key] = index


def _key(value: object) -> str:
    """Return a text that is equal for values that are equal as JSON."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, list):
        return "[" + ",".join(map(_key, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{name!r}:{_key(value[name])}" for name in sorted(value)) + "}"
    return repr(value)


def _pattern(
    run: Validation,
    value: object,
    expected: str,
    schema: dict[str, Any],
    path: str,
) -> Iterator[Issue]:
    if isinstance(value, str):
        try:
            matches = pattern_matches(expected, value)
        except UsageError as error:
            yield Issue(path, str(error), expected, "pattern")
            return
        if not matches:
            yield Issue(
                path, f"expected text like {expected!r}, got {_show(value)}", expected, "pattern"
            )


def _multiple_of(
    run: Validation,
    value: object,
    expected: float,
    schema: dict[str, Any],
    path: str,
) -> Iterator[Issue]:
    if not isinstance(value, int | float) or not is_type(value, "number"):
        return
    if isinstance(value, int) and isinstance(expected, int):
        is_multiple = value % expected == 0
    else:
        quotient = value / expected
        is_multiple = math.isfinite(quotient) and int(quotient) == quotient
    if not is_multiple:
        yield Issue(
            path, f"expected a multiple of {expected}, got {_show(value)}", expected, "multipleOf"
        )


def _alternatives(
    run: Validation, value: object, parts: Sequence[Any], path: str
) -> tuple[int, list[Issue]]:
    """Return how many alternatives fit, and the issues of the closest that does not."""
    fit_count, closest = 0, list[Issue]()
    for part in parts:
        issues = list(islice(run.check(value, part, path), MAX_ISSUES))
        if not issues:
            fit_count += 1
        elif not closest or _distance(issues, path) < _distance(closest, path):
            closest = issues
    return fit_count, closest


def _any_of(
    run: Validation, value: object, expected: Sequence[Any], schema: dict[str, Any], path: str
) -> Iterator[Issue]:
    fit_count, closest = _alternatives(run, value, expected, path)
    if not fit_count:
        yield from _none_fits(value, expected, path, closest, "anyOf")


def _none_fits(
    value: object,
    expected: Sequence[Any],
    path: str,
    closest: list[Issue],
    keyword: str,
) -> Iterator[Issue]:
    count = len(expected)
    yield Issue(path, f"fits none of {count} alternatives, got {_show(value)}", expected, keyword)
    # The issues of the closest alternative help a model more than "none of them".
    yield from closest


def _distance(issues: list[Issue], path: str) -> tuple[bool, int]:
    return any(
        issue.path == path and issue.keyword in ("type", "const", "enum") for issue in issues
    ), len(issues)


def _one_of(
    run: Validation, value: object, expected: Sequence[Any], schema: dict[str, Any], path: str
) -> Iterator[Issue]:
    fit_count, closest = _alternatives(run, value, expected, path)
    if fit_count == 0:
        yield from _none_fits(value, expected, path, closest, "oneOf")
    elif fit_count > 1:
        yield Issue(path, f"fits {fit_count} alternatives, expected exactly one", expected, "oneOf")


def _all_of(
    run: Validation,
    value: object,
    expected: Sequence[Any],
    schema: dict[str, Any],
    path: str,
) -> Iterator[Issue]:
    for part in expected:
        yield from run.check(value, part, path)


def _not(
    run: Validation, value: object, expected: object, schema: dict[str, Any], path: str
) -> Iterator[Issue]:
    if run.fits(value, expected):
        yield Issue(path, f"{_show(value)} is excluded", expected, "not")


def _if(
    run: Validation, value: object, expected: object, schema: dict[str, Any], path: str
) -> Iterator[Issue]:
    branch = schema.get("then" if run.fits(value, expected) else "else", True)
    yield from run.check(value, branch, path)


def _bound(kind: str, is_within: Callable[[float, float], bool], phrase: str) -> Rule:
    def rule(
        run: Validation,
        value: object,
        expected: float,
        schema: dict[str, Any],
        path: str,
    ) -> Iterator[Issue]:
        if (
            isinstance(value, int | float)
            and is_type(value, "number")
            and not is_within(value, expected)
        ):
            yield Issue(path, f"expected {phrase} {expected}, got {_show(value)}", expected, kind)

    return rule


def _size(kind: str, holder: type, sign: int, phrase: str) -> Rule:
    def rule(
        run: Validation,
        value: object,
        expected: int,
        schema: dict[str, Any],
        path: str,
    ) -> Iterator[Issue]:
        if isinstance(value, holder):
            size = len(value)  # type: ignore[arg-type]
            if size * sign > expected * sign:
                yield Issue(path, f"expected {phrase.format(expected)}, got {size}", expected, kind)

    return rule


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if re.fullmatch(r"[A-Za-z_]\w*", name) else f"{path}[{name!r}]"


RULES: dict[str, Rule] = {
    "$ref": _ref,
    "type": _type,
    "enum": _enum,
    "const": _const,
    "required": _required,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "propertyNames": _property_names,
    "dependentRequired": _dependent,
    "prefixItems": _prefix_items,
    "items": _items,
    "contains": _contains,
    "uniqueItems": _unique,
    "pattern": _pattern,
    "multipleOf": _multiple_of,
    "minimum": _bound("minimum", lambda value, bound: value >= bound, "at least"),
    "maximum": _bound("maximum", lambda value, bound: value <= bound, "at most"),
    "exclusiveMinimum": _bound("exclusiveMinimum", lambda value, bound: value > bound, "more than"),
    "exclusiveMaximum": _bound("exclusiveMaximum", lambda value, bound: value < bound, "less than"),
    "minLength": _size("minLength", str, -1, "at least {} characters"),
    "maxLength": _size("maxLength", str, 1, "at most {} characters"),
    "minItems": _size("minItems", list, -1, "at least {} items"),
    "maxItems": _size("maxItems", list, 1, "at most {} items"),
    "minProperties": _size("minProperties", dict, -1, "at least {} properties"),
    "maxProperties": _size("maxProperties", dict, 1, "at most {} properties"),
    "anyOf": _any_of,
    "oneOf": _one_of,
    "allOf": _all_of,
    "not": _not,
    "if": _if,
}
