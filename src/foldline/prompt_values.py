"""Prompt values: a formatted prompt, which every kind of model can take, as text or messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import SerializeAsAny
from typing_extensions import TypedDict

from foldline.load.serializable import Serializable
from foldline.messages import AnyMessage, BaseMessage, HumanMessage, get_buffer_string

__all__ = [
    "ChatPromptValue",
    "ChatPromptValueConcrete",
    "ImagePromptValue",
    "ImageURL",
    "PromptValue",
    "StringPromptValue",
]


def __dir__() -> list[str]:
    return sorted(__all__)


class PromptValue(Serializable, ABC):
    """A formatted prompt, for any kind of model."""

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether prompt values can be serialized: yes."""
        return True

    @abstractmethod
    def to_string(self) -> str:
        """Return the prompt as text, for models that take text."""

    @abstractmethod
    def to_messages(self) -> list[BaseMessage]:
        """Return the prompt as messages, for models that take messages."""


class StringPromptValue(PromptValue):
    """A prompt that is one text.

    ```python
    from foldline.prompt_values import StringPromptValue

    print(StringPromptValue(text="hello").to_messages()[0].type)
    #> human
    ```
    """

    text: str
    """The prompt."""
    type: Literal["StringPromptValue"] = "StringPromptValue"

    def to_string(self) -> str:
        """Return the text."""
        return self.text

    def to_messages(self) -> list[BaseMessage]:
        """Return the text as one human message."""
        return [HumanMessage(content=self.text)]


class ChatPromptValue(PromptValue):
    """A prompt that is a list of messages."""

    messages: Sequence[SerializeAsAny[BaseMessage]]
    """The prompt."""

    def to_string(self) -> str:
        """Return the messages as a transcript, one `Role: text` after another."""
        return get_buffer_string(self.messages)

    def _repr_html_(self) -> str:
        from foldline._display.messages import conversation_html  # noqa: PLC0415  for notebooks only

        return conversation_html(self.messages)

    def to_messages(self) -> list[BaseMessage]:
        """Return the messages."""
        return list(self.messages)


class ImageURL(TypedDict, total=False):
    """The address of an image, and its level of detail."""

    detail: Literal["auto", "low", "high"]
    """The level of detail for the model."""
    url: str
    """A web address, or the image itself as a `data:` address."""


class ImagePromptValue(PromptValue):
    """A prompt that is one image."""

    image_url: ImageURL
    """The image."""
    type: Literal["ImagePromptValue"] = "ImagePromptValue"

    def to_string(self) -> str:
        """Return the address of the image."""
        return self.image_url.get("url", "")

    def to_messages(self) -> list[BaseMessage]:
        """Return the image as one human message."""
        image: dict[str, Any] = {"type": "image_url", "image_url": dict(self.image_url)}
        return [HumanMessage(content=[image])]


class ChatPromptValueConcrete(ChatPromptValue):
    """A prompt that is a list of messages, with a schema that lists every kind of message."""

    messages: Sequence[AnyMessage]
    """The prompt."""
    type: Literal["ChatPromptValueConcrete"] = "ChatPromptValueConcrete"
