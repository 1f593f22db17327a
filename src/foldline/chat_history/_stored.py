"""The base of stored histories: reads rows, and reports damaged ones."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence

from foldline._io import ASYNC
from foldline.chat_history._values import ReadMessages, pack, unpack_all
from foldline.chat_history.base import BaseChatMessageHistory
from foldline.exceptions import UsageError
from foldline.messages import BaseMessage

logger: logging.Logger = logging.getLogger("foldline.chat_history")


class StoredChatMessageHistory(BaseChatMessageHistory):
    """A conversation in a file or a database: the rows of one session, in the order they were added."""

    def __init__(self, session_id: str) -> None:
        if not session_id:
            raise UsageError(f"session_id is a text that is not empty, not {session_id!r}")
        self.session_id = session_id
        self._session = _spelled(session_id)

    @abstractmethod
    def _rows(self) -> list[tuple[str | bytes, str]]:
        """Return (text, place) of every message, the oldest first."""

    @abstractmethod
    def _append(self, texts: list[str]) -> None:
        """Add rows, all or none, and return when they are stored."""

    def read(self) -> ReadMessages:
        """Return the messages, with the damaged rows in `.reports`."""
        return unpack_all(self._rows())

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages, the oldest first; a damaged row is omitted and logged."""
        readable = self.read()
        for report in readable.reports:
            logger.warning("%s", report)
        return list(readable)

    @messages.setter
    def messages(self, messages: list[BaseMessage]) -> None:
        raise UsageError(
            "a stored history is changed by add_messages() and clear(), not by assigning to it"
        )

    async def aget_messages(self) -> list[BaseMessage]:
        """Return the messages, oldest first."""
        messages: list[BaseMessage] = await ASYNC.call(lambda: self.messages)
        return messages

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages, all or none; they are stored when this returns."""
        if messages:
            self._append([pack(message) for message in messages])


def _spelled(session_id: str) -> str:
    """Encode a session's name without NUL and lone surrogates, so that every store can hold it; unambiguous."""
    escaped = session_id.replace("\\", "\\\\").replace("\0", "\\0")
    return escaped.encode("utf-8", "backslashreplace").decode()
