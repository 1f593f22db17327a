"""What goes wrong with tools: the errors of this package, and an invalid call said to the model."""

from __future__ import annotations

from pydantic import ValidationError

from foldline.exceptions import ToolException

__all__ = [
    "SchemaAnnotationError",
    "ToolException",
    "ToolTimeoutError",
    "describe_validation_error",
]

MOST_PROBLEMS = 10


class SchemaAnnotationError(TypeError):
    """`args_schema` is annotated in a way that makes it something else than a class."""


class ToolTimeoutError(ToolException, TimeoutError):
    """A tool took longer than its `timeout`."""


def describe_validation_error(error: ValidationError) -> str:
    """Say to a model what was wrong with its arguments; made for `handle_validation_error`.

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
    lines = [f"{_place(one['loc'])}{one['msg']}" for one in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        lines.append(f"and {len(problems) - MOST_PROBLEMS} more")
    return f"The arguments do not fit. {'; '.join(lines)}"


def _place(location: tuple[int | str, ...]) -> str:
    return f"{'.'.join(str(part) for part in location)}: " if location else ""
