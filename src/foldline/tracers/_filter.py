"""Which runs a stream of events or logs shows: by name, by tag, by type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, cast


class Filters(TypedDict, total=False):
    """What to show (any match) and what to leave out (any match)."""

    include_names: Sequence[str] | None
    include_types: Sequence[str] | None
    include_tags: Sequence[str] | None
    exclude_names: Sequence[str] | None
    exclude_types: Sequence[str] | None
    exclude_tags: Sequence[str] | None


FILTERS = frozenset(Filters.__annotations__)


def take_filters(kwargs: dict[str, Any]) -> Filters:
    """Take the filters out of a call's keyword arguments; the rest is for the runnable."""
    return cast("Filters", {key: kwargs.pop(key) for key in FILTERS & kwargs.keys()})


def shows(filters: Filters, name: str, run_type: str, tags: Sequence[str]) -> bool:
    """Whether a run is to be shown."""
    names, types, marks = (
        filters.get("include_names"),
        filters.get("include_types"),
        filters.get("include_tags"),
    )
    limited = names is not None or types is not None or marks is not None
    if limited and not _matches(names or (), types or (), marks or (), name, run_type, tags):
        return False
    names, types, marks = (
        filters.get("exclude_names"),
        filters.get("exclude_types"),
        filters.get("exclude_tags"),
    )
    return not _matches(names or (), types or (), marks or (), name, run_type, tags)


def _matches(
    names: Sequence[str],
    types: Sequence[str],
    marks: Sequence[str],
    name: str,
    run_type: str,
    tags: Sequence[str],
) -> bool:
    return name in names or run_type in types or any(tag in marks for tag in tags)
