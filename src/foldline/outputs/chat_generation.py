"""`ChatGeneration`: one answer of a chat model, which is a message; its text is the message's."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, SerializeAsAny, model_validator

from foldline.messages import AIMessageChunk, BaseMessage, BaseMessageChunk, messages_from_dict
from foldline.messages._lazy import LazyFields, set_real_fields
from foldline.outputs.generation import Generation, Info, join_info
from foldline.utils._trusted import bare, build_trusted

__all__ = ["ChatGeneration", "ChatGenerationChunk", "merge_chat_generation_chunks"]


def _revive(value: object) -> object:
    """Rebuild the message of a `model_dump`, as the class of its `type`."""
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        return messages_from_dict([{"type": value["type"], "data": value}])[0]
    return value


class ChatGeneration(Generation):
    """One answer, as a message.

    ```python
    from foldline.messages import AIMessage
    from foldline.outputs import ChatGeneration

    print(ChatGeneration(message=AIMessage("hello")).text)
    #> hello
    ```
    """

    text: str = ""
    """The text of the message; a value that is passed is replaced by it."""
    message: Annotated[SerializeAsAny[BaseMessage], BeforeValidator(_revive)]
    """The answer."""
    type: Literal["ChatGeneration"] = "ChatGeneration"  # type: ignore[assignment]
    _kind: ClassVar[str] = "ChatGeneration"

    @model_validator(mode="after")
    def _set_text(self) -> Self:
        self.__dict__["text"] = _text(self.message)
        return self

    @classmethod
    def _trusted(cls, message: BaseMessage, generation_info: Info = None) -> Self:
        content = message.content
        fields = {
            "text": content if type(content) is str else str(message.text),
            "generation_info": generation_info,
            "type": cls._kind,
            "message": message,
        }
        return build_trusted(cls, fields)


class ChatGenerationChunk(LazyFields, ChatGeneration):
    """A chunk of an answer; chunks add up with `+`."""

    message: Annotated[SerializeAsAny[BaseMessageChunk], BeforeValidator(_revive)]
    """The chunk of the message."""
    type: Literal["ChatGenerationChunk"] = "ChatGenerationChunk"  # type: ignore[assignment]
    _kind: ClassVar[str] = "ChatGenerationChunk"

    def __init__(self, **fields: object) -> None:
        """Set the fields; a message alone, as a streaming model passes for every delta, is not validated."""
        message = fields.get("message")
        if (
            len(fields) == 1
            and type(message) is AIMessageChunk
            and type(self) is ChatGenerationChunk
        ):
            set_real_fields(self, fields)
        else:
            super().__init__(**fields)

    def _lazy_value(self, name: str) -> object:
        return _text(self.message) if name == "text" else super()._lazy_value(name)

    def _lazy_values(self) -> dict[str, Any]:
        return {**super()._lazy_values(), "text": _text(self.message)}

    def _lazy_extra(self) -> None:
        return None

    def __add__(
        self, other: ChatGenerationChunk | list[ChatGenerationChunk]
    ) -> ChatGenerationChunk:
        """Add a chunk, or a list of chunks."""
        others = other if isinstance(other, list) else [other]
        if not all(isinstance(part, ChatGenerationChunk) for part in others):
            return NotImplemented
        return _add_chunks(self, others)


def piece_of(message: AIMessageChunk) -> ChatGenerationChunk:
    """Return a chunk of a message as a generation, without validation; the other fields are computed when read."""
    generation = bare(ChatGenerationChunk)
    set_real_fields(generation, {"message": message})
    return generation


def merge_chat_generation_chunks(chunks: list[ChatGenerationChunk]) -> ChatGenerationChunk | None:
    """Add all chunks in one pass; None if there are none."""
    return _add_chunks(chunks[0], chunks[1:]) if chunks else None


def _add_chunks(
    first: ChatGenerationChunk, others: list[ChatGenerationChunk]
) -> ChatGenerationChunk:
    if not others:
        return first
    message, info = first.message, first.generation_info
    for part in others:
        message = message + part.message
        info = join_info(info, part.generation_info)
    if len(others) == 1 and isinstance(others[0].message.content, str):
        # Plain text is always appended: no need to read the complete message again.
        text = first.text + others[0].text
    else:
        text = _text(message)
    return build_trusted(ChatGenerationChunk, _fields("ChatGenerationChunk", text, message, info))


def _fields(kind: str, text: str, message: BaseMessage, info: Info) -> dict[str, Any]:
    return {"text": text, "generation_info": info, "type": kind, "message": message}


def _text(message: BaseMessage) -> str:
    content = message.content
    if isinstance(content, str):
        return content
    if all(isinstance(item, str) or "type" in item for item in content):
        return str(message.text)
    return "".join(
        item if isinstance(item, str) else str(item.get("text") or "")
        for item in content
        if isinstance(item, str) or item.get("type", "text") == "text"
    )  # a block without a type counts as text in a generation
