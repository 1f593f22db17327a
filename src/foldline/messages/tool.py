"""Tool results (`ToolMessage`), and functions that create tool calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import UUID

from pydantic import ConfigDict, Field, model_validator, with_config

from foldline.exceptions import UsageError
from foldline.messages._calls import parse_calls
from foldline.messages.base import BaseMessage, BaseMessageChunk, Content
from foldline.protocol.blocks import ContentBlock, InvalidToolCall, ToolCall, ToolCallChunk

__all__ = [
    "InvalidToolCall",
    "ToolCall",
    "ToolCallChunk",
    "ToolMessage",
    "ToolMessageChunk",
    "ToolOutputMixin",
    "default_tool_chunk_parser",
    "default_tool_parser",
    "invalid_tool_call",
    "tool_call",
    "tool_call_chunk",
]

# By default Pydantic silently drops unknown keys of a TypedDict; a provider's extra keys must be kept.
for _shape in (ToolCall, ToolCallChunk, InvalidToolCall):
    with_config(ConfigDict(extra="allow"))(_shape)


class ToolOutputMixin:
    """The base of values that a tool may return directly; others are wrapped in a `ToolMessage`."""

    __slots__ = ()


class ToolMessage(BaseMessage, ToolOutputMixin):
    """The result of a tool for the model.

    ```python
    from foldline.messages import ToolMessage

    print(ToolMessage("Sunny, 72°F", tool_call_id="call_123").status)
    #> success
    ```
    """

    tool_call_id: str
    """The id of the call that this answers."""
    type: Literal["tool"] = "tool"
    artifact: Any = None
    """Further output for the program, which is not sent to the model."""
    status: Literal["success", "error"] = "success"
    """Whether the tool succeeded."""
    additional_kwargs: dict[Any, Any] = Field(default_factory=dict, repr=False)
    response_metadata: dict[Any, Any] = Field(default_factory=dict, repr=False)

    if TYPE_CHECKING:  # type checkers generate an `__init__` for a model that has none

        def __init__(
            self,
            content: Content | None = None,
            content_blocks: Sequence[ContentBlock] | None = None,
            *,
            tool_call_id: str,
            **kwargs: object,
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _coerce(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        values = {**values, "content": _tool_content(values.get("content"))}
        if isinstance(values.get("tool_call_id"), UUID | int | float):
            values["tool_call_id"] = str(values["tool_call_id"])
        return values


class ToolMessageChunk(ToolMessage, BaseMessageChunk):
    """A piece of a tool message; chunks of different calls cannot be added."""

    type: Literal["ToolMessageChunk"] = "ToolMessageChunk"  # type: ignore[assignment]

    if TYPE_CHECKING:  # type checkers generate an `__init__` for a model that has none

        def __init__(
            self,
            content: Content | None = None,
            content_blocks: Sequence[ContentBlock] | None = None,
            *,
            tool_call_id: str,
            **kwargs: object,
        ) -> None: ...

    def _concat(self, other: BaseMessageChunk) -> Self:
        total = super()._concat(other)
        if not isinstance(other, ToolMessageChunk):
            return total
        if other.tool_call_id != self.tool_call_id:
            raise UsageError(
                f"cannot join results of the calls {self.tool_call_id!r} and {other.tool_call_id!r}:"
                " keep them apart"
            )
        is_failed = "error" in (self.status, other.status)
        artifact = other.artifact if self.artifact is None else self.artifact
        if isinstance(self.artifact, dict) and isinstance(other.artifact, dict):
            artifact = {**self.artifact, **other.artifact}
        return total.model_copy(
            update={"artifact": artifact, "status": "error" if is_failed else "success"}
        )


def tool_call(*, name: str, args: dict[str, Any], id: str | None) -> ToolCall:
    """Return a tool call."""
    return ToolCall(name=name, args=args, id=id, type="tool_call")


def tool_call_chunk(
    *,
    name: str | None = None,
    args: str | None = None,
    id: str | None = None,
    index: int | str | None = None,
) -> ToolCallChunk:
    """Return a slice of a tool call."""
    return ToolCallChunk(name=name, args=args, id=id, index=index, type="tool_call_chunk")


def invalid_tool_call(
    *,
    name: str | None = None,
    args: str | None = None,
    id: str | None = None,
    error: str | None = None,
) -> InvalidToolCall:
    """Return a call that did not parse."""
    return InvalidToolCall(name=name, args=args, id=id, error=error, type="invalid_tool_call")


def default_tool_parser(
    raw_tool_calls: Sequence[Mapping[str, Any]],
) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """Return calls from OpenAI's format; one with arguments that are not an object becomes an invalid call."""
    slices = [
        tool_call_chunk(name=function.get("name"), args=function.get("arguments"), id=raw.get("id"))
        for raw in raw_tool_calls
        if isinstance(function := raw.get("function"), Mapping)
    ]
    return parse_calls(slices)


def default_tool_chunk_parser(raw_tool_calls: Sequence[Mapping[str, Any]]) -> list[ToolCallChunk]:
    """Return slices of calls from OpenAI's format."""
    return [
        tool_call_chunk(
            name=(raw.get("function") or {}).get("name"),
            args=(raw.get("function") or {}).get("arguments"),
            id=raw.get("id"),
            index=raw.get("index"),
        )
        for raw in raw_tool_calls
    ]


def _tool_content(content: object) -> object:
    """Return a tool's result as content: a string, or a list of strings and blocks."""
    if isinstance(content, str) or content is None:
        return content
    if not isinstance(content, list | tuple):
        return str(content)
    return [item if isinstance(item, str | dict) else str(item) for item in content]
