"""All message classes: their union, their types, and the class of each chunk."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import Discriminator, Tag

from foldline.messages.ai_chunk import AIMessageChunk
from foldline.messages.ai_message import AIMessage
from foldline.messages.base import BaseMessage, BaseMessageChunk
from foldline.messages.chat import ChatMessage, ChatMessageChunk
from foldline.messages.function import FunctionMessage, FunctionMessageChunk
from foldline.messages.human import HumanMessage, HumanMessageChunk
from foldline.messages.modifier import RemoveMessage
from foldline.messages.system import SystemMessage, SystemMessageChunk
from foldline.messages.tool import ToolMessage, ToolMessageChunk

__all__ = [
    "CHUNK_TO_MESSAGE",
    "MESSAGE_CLASSES",
    "MESSAGE_TO_CHUNK",
    "AnyMessage",
    "MessageTypes",
    "is_message_type",
]

CHUNK_TO_MESSAGE: dict[type[BaseMessage], type[BaseMessage]] = {
    HumanMessageChunk: HumanMessage,
    AIMessageChunk: AIMessage,
    SystemMessageChunk: SystemMessage,
    ToolMessageChunk: ToolMessage,
    FunctionMessageChunk: FunctionMessage,
    ChatMessageChunk: ChatMessage,
}
MESSAGE_TO_CHUNK: dict[type[BaseMessage], type[BaseMessageChunk]] = {
    message: chunk
    for chunk, message in CHUNK_TO_MESSAGE.items()
    if issubclass(chunk, BaseMessageChunk)
}

_ALL: list[type[BaseMessage]] = [*CHUNK_TO_MESSAGE, *CHUNK_TO_MESSAGE.values(), RemoveMessage]

MESSAGE_CLASSES: dict[str, type[BaseMessage]] = {
    str(cls.model_fields["type"].default): cls for cls in _ALL
}
"""The `type` of a message -> its class."""


def _tag(value: object) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if isinstance(kind, str) else None


AnyMessage: TypeAlias = Annotated[
    Annotated[AIMessage, Tag("ai")]
    | Annotated[HumanMessage, Tag("human")]
    | Annotated[ChatMessage, Tag("chat")]
    | Annotated[SystemMessage, Tag("system")]
    | Annotated[FunctionMessage, Tag("function")]
    | Annotated[ToolMessage, Tag("tool")]
    | Annotated[RemoveMessage, Tag("remove")]
    | Annotated[AIMessageChunk, Tag("AIMessageChunk")]
    | Annotated[HumanMessageChunk, Tag("HumanMessageChunk")]
    | Annotated[ChatMessageChunk, Tag("ChatMessageChunk")]
    | Annotated[SystemMessageChunk, Tag("SystemMessageChunk")]
    | Annotated[FunctionMessageChunk, Tag("FunctionMessageChunk")]
    | Annotated[ToolMessageChunk, Tag("ToolMessageChunk")],
    Discriminator(_tag),
]
"""Any message, discriminated by `type`: the type of a Pydantic field that accepts every message class."""

MessageTypes: TypeAlias = "str | type[BaseMessage] | tuple[Any, ...] | list[Any]"
"""Types of messages: `"human"`, `HumanMessage`, or several of these."""


def is_message_type(message: BaseMessage, types: MessageTypes) -> bool:
    """Whether a message is of one of the types; a chunk counts as its message class."""
    for kind in [types] if isinstance(types, str | type) else types:
        if isinstance(kind, str):
            message_class = CHUNK_TO_MESSAGE.get(type(message), type(message))
            if kind == message.type or kind == message_class.__pydantic_fields__["type"].default:
                return True
        elif isinstance(message, kind):
            return True
    return False
