"""What an answer must fulfil before a call accepts it: the checks that `bind_tools` and `with_structured_output` bind.

A check looks at a finished message and says what is wrong with it, one sentence each. The model is asked again with
these sentences, `max_retries` times. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from foldline.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

__all__ = ["CHECKS", "OutputCheck", "Verdict", "repair_messages"]

CHECKS = "checks"
"""The call option under which checks are bound; it never reaches a provider."""
AGAIN = "Your last answer cannot be used:"
AND_NOW = "Answer again, and correct this."


@dataclass(slots=True)
class Verdict:
    """What a check found: why the answer cannot be used, and what had to be mended so that it can."""

    issues: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)


class OutputCheck(Protocol):
    """A demand on the finished answer."""

    max_retries: int
    """How often the model is asked again."""
    gives_up_quietly: bool
    """Whether the last answer is returned although it does not fit, for a caller who looks at it himself."""

    def judge(self, message: AIMessage) -> Verdict:
        """Say what is wrong with the answer."""

    def screen(self, call: object) -> str | None:
        """Say what is wrong with one finished tool call that is to be marked invalid, if anything."""

    def key(self) -> object:
        """Return what tells this check from another, as JSON: part of the cache key."""


def repair_messages(
    messages: list[BaseMessage], answer: AIMessage, issues: list[str]
) -> list[BaseMessage]:
    """Return the history with the answer and what was wrong with it: every call answered, as providers demand."""
    complaint = "\n".join([AGAIN, *(f"- {issue}" for issue in issues), AND_NOW])
    kept = answer.model_copy(
        update={"invalid_tool_calls": [], "content": _sendable(answer.content)}
    )
    history = [*messages]
    if kept.content or kept.tool_calls:
        history.append(kept)
    if not kept.tool_calls:
        return [*history, HumanMessage(content=complaint)]
    results = [
        ToolMessage(
            content=complaint, tool_call_id=call.get("id") or "", name=call["name"], status="error"
        )
        for call in kept.tool_calls
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
