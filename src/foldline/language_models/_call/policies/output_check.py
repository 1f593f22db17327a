"""The checks of an answer that `bind_tools` and `with_structured_output` bind.

A check returns what is wrong with a finished message, one sentence each. The model is called again with these
sentences, `max_retries` times. Pure.

`settings` holds checks, and structured output writes them, so the protocol lies below the policy that runs them
(`checks`): every policy imports `policy`, which imports `settings`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from foldline.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from foldline.protocol.events import Event

__all__ = ["CHECKS", "AnswerWatch", "OutputCheck", "Verdict", "repair_messages"]

CHECKS = "checks"
"""The call option under which checks are bound; it never reaches a provider."""
REJECTED_TEXT = "Your last answer cannot be used:"
RETRY_TEXT = "Answer again, and correct this."


@dataclass(slots=True)
class Verdict:
    """The result of a check: why the answer was rejected, and what had to be repaired to accept it."""

    issues: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)


class OutputCheck(Protocol):
    """A check of the finished answer."""

    max_retries: int
    """How often the model is called again."""
    gives_up_quietly: bool
    """Whether the last answer is returned although it was rejected, for a caller that checks it itself."""

    def judge(self, message: AIMessage) -> Verdict:
        """Return what is wrong with the answer."""

    def screen(self, call: object) -> str | None:
        """Return what is wrong with one finished tool call, which is then marked invalid; None if nothing is."""

    def key(self) -> object:
        """Return what identifies this check, as JSON: part of the cache key."""

    def watch(self) -> AnswerWatch | None:
        """Return what reads one answer while it streams; None if only the finished answer is checked."""


class AnswerWatch(Protocol):
    """Reads one answer while it streams, and finds out early that it cannot be used."""

    value: object
    """The object so far."""

    def feed(self, batch: Sequence[Event]) -> str | None:
        """Read more of the answer; return what is wrong with it, if nothing that follows can mend it."""


def repair_messages(
    messages: list[BaseMessage], answer: AIMessage, issues: list[str]
) -> list[BaseMessage]:
    """Return the history with the answer and its issues; every call gets a result, as providers require."""
    complaint = "\n".join([REJECTED_TEXT, *(f"- {issue}" for issue in issues), RETRY_TEXT])
    rejected = answer.model_copy(
        update={"invalid_tool_calls": [], "content": _sendable(answer.content)}
    )
    history = [*messages]
    if rejected.content or rejected.tool_calls:
        history.append(rejected)
    if not rejected.tool_calls:
        return [*history, HumanMessage(content=complaint)]
    results = [
        ToolMessage(
            content=complaint, tool_call_id=call.get("id") or "", name=call["name"], status="error"
        )
        for call in rejected.tool_calls
    ]
    return [*history, *results]


def _sendable(content: str | list[Any]) -> str | list[Any]:
    if isinstance(content, str):
        return content
    return [
        block
        for block in content
        if not (isinstance(block, dict) and block.get("type") == "invalid_tool_call")
    ]
