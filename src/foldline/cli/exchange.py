"""One prompt and all that comes of it: answers, tool calls, their results, until the model is done.

What came so far is in `messages` at every moment, so that a Ctrl-C or a broken connection keeps it: an answer that was
cut is marked `incomplete`, and a call that nobody answered gets a result saying so, because providers demand one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from foldline.exceptions import BudgetExceeded, ModelError
from foldline.messages import AIMessage, BaseMessage, ToolMessage
from foldline.protocol.events import Event
from foldline.runnables import Runnable, RunnableLambda

__all__ = ["Approve", "Exchange", "Show"]

Approve = Callable[[Mapping[str, Any]], str | None]
"""Asked before each call of a tool: None lets it run, a text is what the model is told instead."""

MOST_TURNS = 20
"""Answers to one prompt, after which a model that only calls tools is stopped."""
RESENDABLE_BLOCKS = ("text", "reasoning", "image", "audio", "file")
"""Blocks of a cut answer that can be sent back; half a tool call cannot."""


class Show(Protocol):
    """Somebody who is told what happens."""

    def event(self, event: Event) -> None:
        """The model said something."""

    def result(self, message: ToolMessage) -> None:
        """A tool answered."""

    def end(self, message: AIMessage | None) -> None:
        """An answer is over; None where it broke off."""


class Exchange:
    """What a model says to one list of messages, with tools."""

    def __init__(
        self,
        model: Any,
        tools: Sequence[Any],
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
        """The last thing the model said."""
        answers = [message for message in self.messages if isinstance(message, AIMessage)]
        return answers[-1] if answers else None

    def run(self, messages: Sequence[BaseMessage], callbacks: Sequence[Any] = ()) -> AIMessage:
        """Talk until the model calls no more tools."""
        # One run around all of it, so that a trace is one tree.
        exchange: Runnable[Any, Any] = RunnableLambda(self._talk).with_config(
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

    def _talk(self, messages: list[BaseMessage], config: object) -> AIMessage:
        for _ in range(MOST_TURNS):
            answer = self._listen([*messages, *self.messages], config)
            self.messages.append(answer)
            self._show.end(answer)
            if not answer.tool_calls or not self._tools:
                return answer
            for call in answer.tool_calls:
                result = self._call(call, config)
                self.messages.append(result)
                self._show.result(result)
        raise BudgetExceeded(
            f"the model called tools in {MOST_TURNS} answers and gave none: ask for less, or give other tools"
        )

    def _listen(self, messages: list[BaseMessage], config: Any) -> AIMessage:
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

    def _keep(self, partial: Any) -> None:
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

    def _call(self, call: Mapping[str, Any], config: object) -> ToolMessage:
        tool = self._tools.get(call["name"])
        if tool is None:
            return _failed(call, f"there is no tool {call['name']!r}: use {', '.join(self._tools)}")
        if self._approve is not None and (refusal := self._approve(call)) is not None:
            return _failed(call, refusal)
        try:
            result = tool.invoke({**call, "type": "tool_call"}, config)
        except Exception as error:  # noqa: BLE001  the model is told, and may try otherwise
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


def _failed(call: Mapping[str, Any], why: str) -> ToolMessage:
    return ToolMessage(why, tool_call_id=call["id"] or "", name=call["name"], status="error")
