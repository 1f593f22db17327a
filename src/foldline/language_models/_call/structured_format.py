"""`ls_structured_output_format`: an option for traces only; it reaches no author and no wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from foldline.exceptions import FoldlineError
from foldline.utils.function_calling import convert_to_json_schema

__all__ = ["StructuredFormat", "describe_format", "take_format"]

OPTION_NAMES: Final = ("ls_structured_output_format", "structured_output_format")
StructuredFormat = Mapping[str, Any] | None
"""`{"schema": ..., "kwargs": {...}}`, as a provider's `with_structured_output` binds it."""


def take_format(options: dict[str, Any]) -> StructuredFormat:
    """Take the option out of a call's options, under either name."""
    values = [options.pop(name) for name in OPTION_NAMES if name in options]
    return next((value for value in values if value), None)


def describe_format(structured: StructuredFormat) -> dict[str, Any]:
    """Return the option as traces show it, with its schema as JSON Schema; empty if it has none."""
    if not isinstance(structured, Mapping) or "schema" not in structured:
        return {}
    try:
        schema = convert_to_json_schema(structured["schema"])
    except (FoldlineError, TypeError, ValueError):
        return {}
    return {OPTION_NAMES[0]: {"kwargs": structured.get("kwargs", {}), "schema": schema}}
