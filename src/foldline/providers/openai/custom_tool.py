"""`custom_tool`: a tool that takes free text, which OpenAI's models write without JSON around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, overload

from foldline.tools.base import BaseTool
from foldline.tools.convert import tool

__all__ = ["custom_tool"]


@overload
def custom_tool(function: Callable[..., Any], /) -> BaseTool: ...
@overload
def custom_tool(
    *, format: Mapping[str, Any] | None = None, **options: Any
) -> Callable[[Callable[..., Any]], BaseTool]: ...
def custom_tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    format: Mapping[str, Any] | None = None,
    **options: Any,
) -> BaseTool | Callable[[Callable[..., Any]], BaseTool]:
    """Make a tool of a function of one text; `format` is a grammar that the text must follow.

    ```python
    from foldline.providers.openai import custom_tool


    @custom_tool
    def execute_code(code: str) -> str:
        "Execute Python code."
        return "27"


    print(execute_code.invoke("3 ** 3"))
    #> 27
    ```
    """

    def make(function: Callable[..., Any]) -> BaseTool:
        text_tool: BaseTool = tool(infer_schema=False, **options)(function)
        grammar = {} if format is None else {"format": format}
        text_tool.metadata = {"type": "custom_tool", **grammar}
        return text_tool

    return make if function is None else make(function)
