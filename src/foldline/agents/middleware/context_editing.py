"""`ContextEditingMiddleware`: removes old tool results from long requests; the state keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from foldline._run import Run
from foldline.agents.middleware.base import AgentMiddleware, ModelHandler
from foldline.agents.requests import ModelRequest, ModelResponse
from foldline.messages import AIMessage, BaseMessage, ToolMessage
from foldline.messages.count import count_tokens_approximately
from foldline.utils._options import check_fields, check_options

__all__ = [
    "ClearToolUsesEdit",
    "ContextEditingMiddleware",
]

Counter = Callable[[Iterable[BaseMessage]], int]


@runtime_checkable
class ContextEdit(Protocol):
    """Shortens the messages of a request."""

    def apply(self, messages: list[BaseMessage], *, count_tokens: Counter) -> list[BaseMessage]:
        """Return the messages, shortened if they are too long."""


@dataclass(slots=True)
class ClearToolUsesEdit:
    """Remove the results of the oldest tool calls if the request has more than `trigger` tokens."""

    trigger: int = 100_000
    clear_at_least: int = 0
    keep: int = 3
    clear_tool_inputs: bool = False
    exclude_tools: Sequence[str] = ()
    """Tools whose results stay; a result without a name is found by the id of its call."""
    placeholder: str = "[cleared]"

    def __post_init__(self) -> None:
        check_fields(self, at_least={"trigger": 0, "clear_at_least": 0, "keep": 0})

    def apply(self, messages: list[BaseMessage], *, count_tokens: Counter) -> list[BaseMessage]:
        """Return the messages, shortened if they are too long."""
        token_count = count_tokens(messages)
        if token_count <= self.trigger:
            return messages
        indexes = [
            index for index, message in enumerate(messages) if isinstance(message, ToolMessage)
        ]
        edited = list(messages)
        names = _result_names(messages) if self.exclude_tools else {}
        for index in indexes[: -self.keep] if self.keep else indexes:
            message = messages[index]
            if names.get(index) in self.exclude_tools or message.content == self.placeholder:
                continue
            edited[index] = message.model_copy(
                update={"content": self.placeholder, "artifact": None}
            )
            if self.clear_tool_inputs:
                self._clear_input(edited, index)
            if self.clear_at_least and token_count - count_tokens(edited) >= self.clear_at_least:
                break
        return edited

    def _clear_input(self, messages: list[BaseMessage], index: int) -> None:
        call_id = getattr(messages[index], "tool_call_id", None)
        for earlier in range(index - 1, -1, -1):
            message = messages[earlier]
            if isinstance(message, AIMessage) and any(
                call["id"] == call_id for call in message.tool_calls
            ):
                calls = [
                    {**call, "args": {}} if call["id"] == call_id else call
                    for call in message.tool_calls
                ]
                messages[earlier] = message.model_copy(update={"tool_calls": calls})
                return


def _result_names(messages: Sequence[BaseMessage]) -> dict[int, str]:
    """Return the tools of the results, by index: a result without a name has that of the last call with its id."""
    names_by_id: dict[str | None, str] = {}
    names: dict[int, str] = {}
    for index, message in enumerate(messages):
        if isinstance(message, AIMessage):
            calls = (*message.tool_calls, *message.invalid_tool_calls)
            names_by_id |= {call.get("id"): call.get("name") or "" for call in calls}
        elif isinstance(message, ToolMessage):
            names[index] = message.name or names_by_id.get(message.tool_call_id, "")
    return names


class ContextEditingMiddleware(AgentMiddleware):
    """Shorten long requests by a list of edits."""

    @check_options()
    def __init__(
        self, *, edits: Iterable[ContextEdit] | None = None, token_counter: Counter | None = None
    ) -> None:
        """Set the edits; by default the results of old tool calls are removed."""
        self.edits: list[ContextEdit] = list(edits) if edits is not None else [ClearToolUsesEdit()]
        self.token_counter = token_counter or count_tokens_approximately

    async def _around_model(
        self, request: ModelRequest, handler: ModelHandler, run: Run
    ) -> ModelResponse:
        messages = request.messages
        for edit in self.edits:
            messages = edit.apply(messages, count_tokens=self.token_counter)
        return await handler(
            request if messages is request.messages else request.override(messages=messages)
        )
