"""`BaseChatMessageHistory`: the messages of one conversation. An author writes at least the sync methods.

A backend implements `messages`, `clear` and `add_messages` (or only `add_message`). One that is async itself overrides
the async methods too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from foldline._io import ASYNC
from foldline._traceback import entry_point
from foldline.messages import AIMessage, BaseMessage, HumanMessage, get_buffer_string
from foldline.utils._short_repr import short_repr

__all__ = ["BaseChatMessageHistory"]


class BaseChatMessageHistory(ABC):
    """The messages of one conversation.

    ```python
    from foldline.chat_history import BaseChatMessageHistory


    class Notebook(BaseChatMessageHistory):
        def __init__(self):
            self.messages = []

        def add_messages(self, messages):
            self.messages.extend(messages)

        def clear(self):
            self.messages = []


    notebook = Notebook()
    notebook.add_user_message("hi")
    print(notebook)
    #> Human: hi
    ```
    """

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        from foldline._display.messages import conversation_html  # noqa: PLC0415  for notebooks only

        return conversation_html(self.messages)

    messages: list[BaseMessage]
    """The messages, the oldest first; a property in stored histories."""

    async def aget_messages(self) -> list[BaseMessage]:
        """Return the messages, oldest first."""
        messages: list[BaseMessage] = await ASYNC.call(lambda: self.messages)
        return messages

    def add_user_message(self, message: HumanMessage | str) -> None:
        """Add a message of the user."""
        self.add_message(
            message if isinstance(message, HumanMessage) else HumanMessage(content=message)
        )

    def add_ai_message(self, message: AIMessage | str) -> None:
        """Add a message of the model."""
        self.add_message(message if isinstance(message, AIMessage) else AIMessage(content=message))

    @entry_point
    def add_message(self, message: BaseMessage) -> None:
        """Add one message."""
        if type(self).add_messages is BaseChatMessageHistory.add_messages:
            raise NotImplementedError(
                f"{type(self).__name__} implements neither `add_messages` nor `add_message`: write one of them"
            )
        self.add_messages([message])

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages, all or none where the backend can."""
        for message in messages:
            self.add_message(message)

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages, all or none where the backend can."""
        await ASYNC.call(self.add_messages, messages)

    @abstractmethod
    def clear(self) -> None:
        """Delete all messages."""

    async def aclear(self) -> None:
        """Delete all messages."""
        await ASYNC.call(self.clear)

    def drop_oldest(self, count: int) -> None:
        """Delete the oldest messages; foldline's own histories do it in one step, safe with other writers."""
        newer = list(self.messages)[count:]
        self.clear()
        if newer:
            self.add_messages(newer)

    async def adrop_oldest(self, count: int) -> None:
        """Delete the oldest messages; foldline's own histories do it in one step, safe with other writers."""
        if type(self).drop_oldest is not BaseChatMessageHistory.drop_oldest:
            await ASYNC.call(self.drop_oldest, count)
            return
        newer = list(await self.aget_messages())[count:]
        await self.aclear()
        if newer:
            await self.aadd_messages(newer)

    def __str__(self) -> str:
        return get_buffer_string(self.messages)
