"""Instructions to the model."""

from __future__ import annotations

from typing import Literal

from weft.messages.base import BaseMessage, BaseMessageChunk

__all__ = ["SystemMessage", "SystemMessageChunk"]


class SystemMessage(BaseMessage):
    """How the model should behave; usually the first message.

    ```python
    from weft.messages import SystemMessage

    print(SystemMessage("You are a poetry expert").text)
    #> You are a poetry expert
    ```
    """

    type: Literal["system"] = "system"


class SystemMessageChunk(SystemMessage, BaseMessageChunk):
    """A piece of a system message."""

    type: Literal["SystemMessageChunk"] = "SystemMessageChunk"  # type: ignore[assignment]
