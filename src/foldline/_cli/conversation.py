"""A conversation, in memory or under a name in the user's SQLite file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from foldline._cli import places
from foldline._cli.logs import newest_messages
from foldline.chat_history import SQLiteChatMessageHistory
from foldline.exceptions import UsageError
from foldline.messages import BaseMessage, SystemMessage

__all__ = ["Conversation", "list_sessions", "open_history"]


def open_history(name: str) -> SQLiteChatMessageHistory:
    """Open a stored conversation."""
    return SQLiteChatMessageHistory(name, places.make_folder_of(places.sessions_file()))


def list_sessions() -> list[tuple[str, int, float]]:
    """Return (name, number of messages, time of the last) of every stored conversation, the newest first."""
    if not places.sessions_file().exists():
        return []
    history = open_history("any")  # `sessions` lists all of the file
    try:
        return history.sessions()
    finally:
        history.close()


class Conversation:
    """The messages so far."""

    def __init__(self, name: str | None, system: str | None) -> None:
        self.name = name
        self._history: Any = open_history(name) if name else None
        self._messages: list[BaseMessage] = list(self._history.messages) if self._history else []
        self._unsaved: list[BaseMessage] = []
        if system is not None:
            self.system = system

    @classmethod
    def open(
        cls, name: str | None, *, resume: bool, is_kept: bool, system: str | None
    ) -> Conversation:
        """Open a conversation; a stored one without a name is named after the time."""
        if resume and name is None:
            sessions = list_sessions()
            messages, when, _ = newest_messages()
            if messages and (not sessions or when > sessions[0][2]):
                return cls._of_messages(messages, is_kept=is_kept, system=system)
            if not sessions:
                raise UsageError(
                    "there is no session to continue, and nothing in the log: start one with --session NAME"
                )
            name = sessions[0][0]
        return cls(name or (_new_name() if is_kept else None), system)

    @classmethod
    def _of_messages(
        cls, messages: list[BaseMessage], *, is_kept: bool, system: str | None
    ) -> Conversation:
        """Continue with messages of the log; a stored conversation begins with them."""
        conversation = cls(_new_name() if is_kept else None, None)
        conversation._messages = list(messages)
        conversation._unsaved = list(messages)
        if system is not None:
            conversation.system = system
        return conversation

    @property
    def is_kept(self) -> bool:
        """Whether the conversation is stored."""
        return self._history is not None

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages, the system message first."""
        return list(self._messages)

    @property
    def system(self) -> str | None:
        """The system message."""
        first = self._messages[0] if self._messages else None
        return str(first.text) if isinstance(first, SystemMessage) else None

    @system.setter
    def system(self, text: str) -> None:
        messages = self._messages[1:] if self.system is not None else self._messages
        is_new = not messages
        self._messages = [SystemMessage(text), *messages]
        # In a stored conversation, another system message applies to this run only.
        if is_new:
            self._unsaved = [self._messages[0]]

    def add(self, human: BaseMessage, answers: Sequence[BaseMessage]) -> None:
        """Store a question and its answers together; a question without an answer is not stored."""
        if not answers:
            return
        self._messages += [human, *answers]
        if self._history is not None:
            self._history.add_messages([*self._unsaved, human, *answers])
            self._unsaved = []

    def begin_anew(self) -> None:
        """Start another conversation; the old one keeps its name."""
        system = self.system
        self.close()
        self.__init__(_new_name(), system)  # type: ignore[misc]

    def close(self) -> None:
        """Close the file."""
        if self._history is not None:
            self._history.close()


def _new_name() -> str:
    return time.strftime("%Y-%m-%d-%H%M%S")
