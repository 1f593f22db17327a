"""System messages: instructions for the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from foldline.messages.base import BaseMessage, BaseMessageChunk, Content

if TYPE_CHECKING:
    from foldline.protocol.blocks import ContentBlock

__all__ = ["SystemMessage", "SystemMessageChunk"]


class SystemMessage(BaseMessage):
    """Instructions for the model; usually the first message.

    ```python
    from foldline.messages import SystemMessage

    print(SystemMessage("You are a poetry expert").text)
    #> You are a poetry expert
    ```
    """

    type: Literal["system"] = "system"

    if TYPE_CHECKING:  # type checkers generate an `__init__` for a model that has none

        def __init__(
            self,
            content: Content | None = None,
            content_blocks: Sequence[ContentBlock] | None = None,
            **kwargs: object,
        ) -> None: ...


class SystemMessageChunk(SystemMessage, BaseMessageChunk):
    """A piece of a system message."""

    type: Literal["SystemMessageChunk"] = "SystemMessageChunk"  # type: ignore[assignment]

    if TYPE_CHECKING:  # type checkers generate an `__init__` for a model that has none

        def __init__(
            self,
            content: Content | None = None,
            content_blocks: Sequence[ContentBlock] | None = None,
            **kwargs: object,
        ) -> None: ...
