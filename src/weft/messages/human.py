"""What a person says."""

from __future__ import annotations

from typing import Literal

from weft.messages.base import BaseMessage, BaseMessageChunk

__all__ = ["HumanMessage", "HumanMessageChunk"]


class HumanMessage(BaseMessage):
    """A message from the user.

    ```python
    from weft.messages import HumanMessage

    print(HumanMessage("What is machine learning?").type)
    #> human
    ```
    """

    type: Literal["human"] = "human"


class HumanMessageChunk(HumanMessage, BaseMessageChunk):
    """A piece of a human message."""

    type: Literal["HumanMessageChunk"] = "HumanMessageChunk"  # type: ignore[assignment]
