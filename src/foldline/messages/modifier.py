"""Messages that change a list of messages instead of standing in it."""

from __future__ import annotations

from typing import Any, Literal

from foldline.exceptions import UsageError
from foldline.messages.base import BaseMessage

__all__ = ["RemoveMessage"]


class RemoveMessage(BaseMessage):
    """Asks whoever keeps the messages to forget the one with this id.

    ```python
    from foldline.messages import RemoveMessage

    print(RemoveMessage("msg_1").id)
    #> msg_1
    ```
    """

    type: Literal["remove"] = "remove"

    def __init__(self, id: str, **kwargs: Any) -> None:
        """Name the message to remove."""
        if kwargs.pop("content", None):
            raise UsageError("RemoveMessage says nothing: leave out `content`")
        super().__init__("", id=id, **kwargs)
