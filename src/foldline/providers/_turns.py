"""A conversation as turns of two roles and a separate system prompt, the form of Anthropic's and Google's APIs. Pure.

A vendor encodes the blocks; roles, merging of adjacent turns, and omissions are the same for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from foldline.exceptions import UsageError
from foldline.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from foldline.providers._foreign_messages import ForeignBlocks, add_note
from foldline.providers._wire import answered_ids

__all__ = ["TurnEncoder"]

Block = dict[str, Any]

USERS: Final = ("user", "human")
ASSISTANTS: Final = ("assistant", "ai", "model")


class TurnEncoder:
    """Encodes a conversation."""

    vendor: ClassVar[str]
    assistant: ClassVar[str]
    """The role of the model."""
    content: ClassVar[str]
    """The key of a turn that holds its blocks."""

    def __init__(self, providers: frozenset[str], policy: ForeignBlocks, notes: list[str]) -> None:
        self._providers = providers
        self._policy = policy
        self._notes = notes
        self._answered: set[str] = set()
        """Ids of the calls that have a result."""

    # -- what a vendor writes

    def _encode_user(self, message: BaseMessage) -> list[Block]:
        """Encode the blocks of a user or system message."""
        raise NotImplementedError

    def _encode_assistant(self, message: AIMessage) -> list[Block]:
        """Encode the blocks of an assistant message."""
        raise NotImplementedError

    def _result(self, message: ToolMessage) -> list[Block]:
        raise NotImplementedError

    # -- the same for all

    def _conversation(self, messages: Sequence[BaseMessage]) -> tuple[list[Block], list[Block]]:
        """Return the system prompt and the turns, each with a list of blocks."""
        system: list[Block] = []
        turns: list[Block] = []
        self._answered = answered_ids(messages)
        for message in messages:
            if not turns and isinstance(message, SystemMessage):
                system += self._encode_user(message)
                continue
            role, blocks = self._turn(message, after=turns[-1]["role"] if turns else None)
            if not blocks:
                if not (isinstance(message, AIMessage) and message is messages[-1]):
                    self._note("an empty message was left out")
            elif turns and turns[-1]["role"] == role:
                turns[-1][self.content] += blocks
            else:
                turns.append({"role": role, self.content: blocks})
        if not turns:
            raise UsageError(
                f"{self.vendor} needs at least one message that says something besides the system message"
            )
        return system, turns

    def _turn(self, message: BaseMessage, *, after: str | None) -> tuple[str, list[Block]]:
        if type(message) is HumanMessage:  # as many are, and quickly seen
            return "user", self._encode_user(message)
        if isinstance(message, AIMessage):
            return self.assistant, self._encode_assistant(message)
        if isinstance(message, ToolMessage):
            return "user", self._result(message)
        if isinstance(message, SystemMessage):
            return self._late_system(message, after)
        role = message.role if isinstance(message, ChatMessage) else ""
        if isinstance(message, HumanMessage) or role in USERS:
            return "user", self._encode_user(message)
        if role in ASSISTANTS:
            return self.assistant, self._encode_user(message)
        raise UsageError(
            f"{self.vendor} has no place for a message of the type {message.type!r}: use HumanMessage, AIMessage, "
            "SystemMessage or ToolMessage"
        )

    def _late_system(self, message: BaseMessage, after: str | None) -> tuple[str, list[Block]]:
        """Encode a system message in mid-conversation, where the API has no role for it."""
        self._note("a system message in mid-conversation was sent as a user's, in <system> tags")
        blocks = [block for block in self._encode_user(message) if "text" in block]
        return "user", [
            {**block, "text": f"<system>\n{block['text']}\n</system>"} for block in blocks
        ]

    def _note(self, note: str) -> None:
        add_note(self._notes, note)
