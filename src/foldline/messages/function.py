"""The result of a function call, the predecessor of tool calls; new programs use `ToolMessage`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

from foldline.exceptions import UsageError
from foldline.messages.base import BaseMessage, BaseMessageChunk, Content

if TYPE_CHECKING:
    from foldline.protocol.blocks import ContentBlock

__all__ = ["FunctionMessage", "FunctionMessageChunk"]


class FunctionMessage(BaseMessage):
    """The result of a function for the model.

    ```python
    from foldline.messages import FunctionMessage

    print(FunctionMessage("22 degrees", name="get_weather").name)
    #> get_weather
    ```
    """

    name: str
    """The function that was called."""
    type: Literal["function"] = "function"

    if TYPE_CHECKING:  # type checkers generate an `__init__` for a model that has none

        def __init__(
            self,
            content: Content | None = None,
            content_blocks: Sequence[ContentBlock] | None = None,
            *,
            name: str,
            **kwargs: object,
        ) -> None: ...


class FunctionMessageChunk(FunctionMessage, BaseMessageChunk):
    """A piece of a function message; chunks of different functions cannot be added."""

    type: Literal["FunctionMessageChunk"] = "FunctionMessageChunk"  # type: ignore[assignment]

    if TYPE_CHECKING:  # type checkers generate an `__init__` for a model that has none

        def __init__(
            self,
            content: Content | None = None,
            content_blocks: Sequence[ContentBlock] | None = None,
            *,
            name: str,
            **kwargs: object,
        ) -> None: ...

    def _concat(self, other: BaseMessageChunk) -> Self:
        if isinstance(other, FunctionMessageChunk) and other.name != self.name:
            raise UsageError(
                f"Cannot concatenate FunctionMessageChunks with different names: {self.name!r} and {other.name!r}"
            )
        return super()._concat(other)
