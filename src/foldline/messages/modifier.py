"""Messages that modify a list of messages."""

from __future__ import annotations

from typing import Any, Literal

from foldline.exceptions import UsageError
from foldline.messages.base import BaseMessage

__all__ = ["RemoveMessage"]


class RemoveMessage(BaseMessage):
    """Removes the message with this id from a stored conversation.

    ```python
    from foldline.messages import RemoveMessage

    print(RemoveMessage("msg_1").id)
    #> msg_1
    ```
    """

    type: Literal["remove"] = "remove"

    def __init__(self, id: str, **kwargs: Any) -> None:
        """Create the removal of the message with this id."""
        if kwargs.pop("content", None):
            raise UsageError("RemoveMessage says nothing: leave out `content`")
        super().__init__("", id=id, **kwargs)
