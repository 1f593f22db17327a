"""Messages of the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from foldline.messages.base import BaseMessage, BaseMessageChunk, Content

if TYPE_CHECKING:
    from foldline.protocol.blocks import ContentBlock

__all__ = ["HumanMessage", "HumanMessageChunk"]


class HumanMessage(BaseMessage):
    """A message from the user.

    ```python
    from foldline.messages import HumanMessage

    print(HumanMessage("What is machine learning?").type)
    #> human
    ```
    """

    type: Literal["human"] = "human"

    if TYPE_CHECKING:  # type checkers generate an `__init__` for a model that has none

        def __init__(
            self,
            content: Content | None = None,
            content_blocks: Sequence[ContentBlock] | None = None,
            **kwargs: object,
        ) -> None: ...


class HumanMessageChunk(HumanMessage, BaseMessageChunk):
    """A piece of a human message."""

    type: Literal["HumanMessageChunk"] = "HumanMessageChunk"  # type: ignore[assignment]

    if TYPE_CHECKING:  # type checkers generate an `__init__` for a model that has none

        def __init__(
            self,
            content: Content | None = None,
            content_blocks: Sequence[ContentBlock] | None = None,
            **kwargs: object,
        ) -> None: ...
