"""Errors of tools, and the text of an invalid call for the model."""

from __future__ import annotations

from pydantic import ValidationError

from foldline.exceptions import ToolException, UsageError

__all__ = [
    "SchemaAnnotationError",
    "ToolException",
    "ToolTimeoutError",
    "describe_validation_error",
]

MAX_PROBLEMS = 10


class SchemaAnnotationError(UsageError, TypeError):
    """`args_schema` has an annotation that is not the type of a class."""


class ToolTimeoutError(ToolException, TimeoutError):
    """A tool took longer than its `timeout`."""


def describe_validation_error(error: ValidationError) -> str:
    """Return a text for the model about its invalid arguments; use it as `handle_validation_error`.

    ```python
    from foldline.tools import describe_validation_error, tool

    @tool
    def double(number: int) -> int:
        "Double a number."
        return 2 * number

    double.handle_validation_error = describe_validation_error
    print(double.invoke({}))
    #> The arguments do not fit. number: Field required
    ```
    """
    problems = error.errors(include_url=False)
    lines = [
        f"{_location_prefix(problem['loc'])}{problem['msg']}" for problem in problems[:MAX_PROBLEMS]
    ]
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"and {len(problems) - MAX_PROBLEMS} more")
    return f"The arguments do not fit. {'; '.join(lines)}"


def _location_prefix(location: tuple[int | str, ...]) -> str:
    return f"{'.'.join(str(part) for part in location)}: " if location else ""
