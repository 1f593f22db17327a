"""Converts names between `snake_case` (Python) and `camelCase` (JSON from TypeScript). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foldline.exceptions import UsageError

__all__ = ["in_snake_case", "snake_case", "snake_keys"]


def snake_case(name: str) -> str:
    """Return a camelCase name in snake_case; a snake_case name is returned unchanged.

    ```python
    from foldline.utils._spelling import snake_case

    print(snake_case("toolCallId"), snake_case("tool_call_id"))
    #> tool_call_id tool_call_id
    ```
    """
    if name.islower():
        return name
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)


def snake_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with its own keys in snake_case; its values are unchanged."""
    return {snake_case(str(key)): value for key, value in values.items()}


def in_snake_case(fields: Mapping[str, Any], values: object) -> Any:  # noqa: ANN401  as a validator gets it
    """Return the arguments of a constructor, with camelCase names replaced by those of the fields."""
    if not isinstance(values, dict) or all(map(str.islower, values)):
        return values
    renamed: dict[str, Any] = {}
    for name, value in values.items():
        spelled = snake_case(name)
        field_name = spelled if name not in fields and spelled in fields else name
        if field_name in renamed:
            raise UsageError(f"{name} and {field_name} mean the same: give one")
        renamed[field_name] = value
    return renamed
