"""`Tool`: a function of one string as a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Self

from pydantic import BaseModel

from foldline.exceptions import ToolException, UsageError
from foldline.tools._schema import make_model
from foldline.tools.base import ArgsSchema
from foldline.tools.structured import StructuredTool

__all__ = ["Tool"]

SINGLE_INPUT = "__arg1"
"""The name of the argument in the schema for the model."""


class Tool(StructuredTool):
    """A function of one string as a tool.

    ```python
    from foldline.tools import Tool

    print(Tool("shout", str.upper, "Say it louder.").invoke("hello"))
    #> HELLO
    ```
    """

    def __init__(
        self,
        name: str,
        func: Callable[..., Any] | None = None,
        description: str = "",
        **kwargs: object,
    ) -> None:
        """Make a tool of a function."""
        super().__init__(name=name, func=func, description=description, **kwargs)

    @property
    def args(self) -> dict[str, Any]:
        """The arguments that a model may pass: those of the schema, else one string."""
        return {"tool_input": {"type": "string"}} if self.args_schema is None else super().args

    def _takes_names(self) -> bool:
        return False

    def _schemaless(self) -> type[BaseModel]:
        return make_model(self.name, {SINGLE_INPUT: (str, ...)})

    def _to_args_and_kwargs(
        self, tool_input: object, tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if self.args_schema is None:
            values = [tool_input] if not isinstance(tool_input, dict) else list(tool_input.values())
        else:
            values = list(self._parse_input(tool_input, tool_call_id).values())
        if len(values) != 1:
            raise ToolException(
                f"{self.name} takes one input, and {len(values)} were passed ({values!r:.200}): pass one, or make it "
                "a StructuredTool"
            )
        return (values[0],), {}

    @classmethod
    def from_function(  # type: ignore[override]  # LangChain's signature
        cls,
        func: Callable[..., Any] | None,
        name: str,
        description: str,
        return_direct: bool = False,  # noqa: FBT001, FBT002
        args_schema: ArgsSchema | None = None,
        coroutine: Callable[..., Awaitable[Any]] | None = None,
        **kwargs: object,
    ) -> Self:
        """Make a tool of a function of one string."""
        if func is None and coroutine is None:
            raise UsageError("a tool needs a function: pass func, coroutine or both")
        return cls(
            name=name,
            func=func,
            coroutine=coroutine,
            description=description,
            return_direct=return_direct,
            args_schema=args_schema,
            **kwargs,
        )
