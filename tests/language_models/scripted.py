"""Models that say what a test tells them to, and remember what they were asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, ClassVar

from pydantic import Field

from foldline._run import Run
from foldline.language_models import BaseChatModel, ChatRequest, RetryPolicy
from foldline.messages import AIMessage, BaseMessage
from foldline.outputs import ChatGeneration, ChatResult
from foldline.protocol.events import Event
from foldline.protocol.writer import EventWriter

AT_ONCE = RetryPolicy(max_retries=3, initial=0.0, jitter=False)


class Scripted(BaseChatModel):
    """Answers in turn: a message, text, an error to raise, or a function of the request that gives one of these."""

    answers: list[Any] = Field(default_factory=list, exclude=True)
    requests: list[ChatRequest] = Field(default_factory=list, exclude=True)
    retry_on_error: Any = Field(default=AT_ONCE, exclude=True)
    closed: int = Field(default=0, exclude=True)

    def take(self, request: ChatRequest) -> AIMessage:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        return AIMessage(content=answer) if isinstance(answer, str) else answer


class Speaking(Scripted):
    """Streams events, word by word."""

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Event, None]:
        answer = self.take(request)
        writer = EventWriter(answer.id)
        try:
            for block in answer.content_blocks:
                if block["type"] == "text":
                    for word in block["text"].split(" "):
                        for event in writer.text(word + " "):
                            yield event
                else:
                    for event in writer.block(block, is_complete=True):
                        yield event
            for event in writer.finish(
                answer.finish_reason or "stop",
                usage=answer.usage_metadata,
                metadata=answer.response_metadata,
            ):
                yield event
        finally:
            self.closed += 1


class GenerateOnly(Scripted):
    """Returns answers without streaming."""

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        answer = self.take(ChatRequest(messages, stop, kwargs))
        return ChatResult(generations=[ChatGeneration(message=answer)])


KINDS = [Speaking, GenerateOnly]


class Narrow(Speaking):
    """Takes few characters in a tool's name, as most providers do."""

    _tool_name_pattern: ClassVar[str | None] = "[A-Za-z0-9_-]"


def calls(*pairs: tuple[str, dict[str, Any]], text: str = "", **fields: Any) -> AIMessage:
    tool_calls = [
        {"id": f"call_{place}", "name": name, "args": args}
        for place, (name, args) in enumerate(pairs)
    ]
    return AIMessage(content=text, tool_calls=tool_calls, finish_reason="tool_use", **fields)


def usage(input_tokens: int, output_tokens: int, **details: int) -> dict[str, Any]:
    usage_metadata: dict[str, Any] = {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
    }
    return {**usage_metadata, "input_token_details": details} if details else usage_metadata


def read(stream: Any) -> tuple[list[Any], Exception | None]:
    """Read a stream to its end; return its items and its error."""
    items: list[Any] = []
    try:
        for item in stream:
            items.append(item)  # noqa: PERF402  what came before an error counts
    except Exception as error:  # noqa: BLE001
        return items, error
    return items, None
