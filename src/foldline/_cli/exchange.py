"""`ChatExchange`: one prompt with the model's answers, tool calls and their results, until the model is done.

`messages` always holds what came so far, so that a Ctrl-C or a broken connection loses nothing: an answer that was cut
is marked `incomplete`, and a tool call without a result gets one that says so, because providers demand one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from foldline.exceptions import BudgetExceeded, ModelError
from foldline.messages import AIMessage, BaseMessage, ToolMessage
from foldline.protocol.events import Event
from foldline.runnables import Runnable, RunnableLambda

if TYPE_CHECKING:
    from foldline._config import RunnableConfig
    from foldline.language_models.base_chat_model import BaseChatModel
    from foldline.tools.base import BaseTool

__all__ = ["Approve", "ChatExchange", "Show"]

Approve = Callable[[Mapping[str, Any]], str | None]
"""Called before each tool call: None lets it run; a text is sent to the model instead of a result."""

MOST_TURNS = 20
"""The most answers to one prompt: a model that only calls tools is stopped then."""
RESENDABLE_BLOCKS = ("text", "reasoning", "refusal", "image", "audio", "file")
"""Blocks of a cut answer that can be sent back; half a tool call cannot."""


class Show(Protocol):
    """Shows an exchange as it happens."""

    def event(self, event: Event) -> None:
        """Show an event of the model's answer."""

    def result(self, message: ToolMessage) -> None:
        """Show the result of a tool."""

    def end(self, message: AIMessage | None) -> None:
        """End the answer; None where it broke off."""


class ChatExchange:
    """Runs a model on a list of messages, with its tool calls, until it has an answer."""

    def __init__(
        self,
        model: BaseChatModel,
        tools: Sequence[BaseTool],
        show: Show,
        *,
        approve: Approve | None = None,
        run_name: str = "foldline chat",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.messages: list[BaseMessage] = []
        self._model = model.bind_tools(list(tools)) if tools else model
        self._tools = {tool.name: tool for tool in tools}
        self._show = show
        self._approve = approve
        self._run_name = run_name
        self._metadata = dict(metadata or {})

    @property
    def answer(self) -> AIMessage | None:
        """The last message of the model."""
        answers = [message for message in self.messages if isinstance(message, AIMessage)]
        return answers[-1] if answers else None

    def run(self, messages: Sequence[BaseMessage], callbacks: Sequence[Any] = ()) -> AIMessage:
        """Run until the model calls no more tools; return its last message."""
        # One parent run, so that the trace is one tree.
        exchange: Runnable[Any, Any] = RunnableLambda(self._run_turns).with_config(
            run_name=self._run_name
        )
        try:
            answer: AIMessage = exchange.invoke(
                list(messages), {"callbacks": list(callbacks), "metadata": self._metadata}
            )
        except BaseException:
            self._show.end(None)
            self._answer_open_calls()
            raise
        return answer

    def _run_turns(self, messages: list[BaseMessage], config: RunnableConfig) -> AIMessage:
        for _ in range(MOST_TURNS):
            answer = self._stream([*messages, *self.messages], config)
            self.messages.append(answer)
            self._show.end(answer)
            if not answer.tool_calls or not self._tools:
                return answer
            for call in answer.tool_calls:
                result = self._call(call, config)
                self.messages.append(result)
                self._show.result(result)
        raise BudgetExceeded(
            f"the model called tools {MOST_TURNS} times without a final answer: ask for less, or pass other tools"
        )

    def _stream(self, messages: list[BaseMessage], config: RunnableConfig) -> AIMessage:
        stream = self._model.stream_v2(messages, config)
        try:
            for event in stream:
                self._show.event(event)
            answer: AIMessage = stream.output
        except BaseException as error:
            stream.close()
            partial = error.partial if isinstance(error, ModelError) else None
            self._keep(partial or stream.partial)
            raise
        return answer

    def _keep(self, partial: AIMessage) -> None:
        blocks = [
            block for block in partial.content_blocks if block.get("type") in RESENDABLE_BLOCKS
        ]
        if blocks:
            self.messages.append(
                AIMessage(
                    content_blocks=blocks,
                    id=partial.id,
                    status="incomplete",
                    response_metadata=partial.response_metadata,
                    usage_metadata=partial.usage_metadata,
                )
            )

    def _call(self, call: Mapping[str, Any], config: RunnableConfig) -> ToolMessage:
        tool = self._tools.get(call["name"])
        if tool is None:
            return _failed(call, f"there is no tool {call['name']!r}: use {', '.join(self._tools)}")
        if self._approve is not None and (refusal := self._approve(call)) is not None:
            return _failed(call, refusal)
        try:
            result = tool.invoke({**call, "type": "tool_call"}, config)
        except Exception as error:  # noqa: BLE001  sent to the model, which may try something else
            return _failed(call, f"{type(error).__name__}: {error}")
        return result if isinstance(result, ToolMessage) else _failed(call, str(result))

    def _answer_open_calls(self) -> None:
        answered = {
            result.tool_call_id for result in self.messages if isinstance(result, ToolMessage)
        }
        for message in list(self.messages):
            for call in message.tool_calls if isinstance(message, AIMessage) else ():
                if call["id"] not in answered:
                    self.messages.append(_failed(call, "stopped before it ran"))


def _failed(call: Mapping[str, Any], reason: str) -> ToolMessage:
    return ToolMessage(reason, tool_call_id=call["id"] or "", name=call["name"], status="error")
