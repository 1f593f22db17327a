"""Runnables that fail a given number of times, for tests of retries and fallbacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from foldline.language_models.chat_models import BaseChatModel
from foldline.messages import AIMessage, BaseMessage
from foldline.outputs import ChatGeneration, ChatResult
from foldline.runnables import RunnableGenerator, RunnableLambda


class Flaky:
    """A function that fails `failures` times for each input, then answers."""

    def __init__(self, failures: int, error: Exception | None = None) -> None:
        self.failures = failures
        self.error = error or ValueError("not yet")
        self.calls: list[Any] = []

    def __call__(self, value: Any) -> Any:
        self.calls.append(value)
        if self.calls.count(value) <= self.failures:
            raise self.error
        return value

    def runnable(self) -> Any:
        return RunnableLambda(self, name="flaky")


def stream_failing(times: int, at: int, pieces: list[str]) -> tuple[Any, list[list[Any]]]:
    """Return a runnable that streams `pieces`, the first `times` times only up to `at`; and a list of its inputs."""
    attempts: list[list[Any]] = []

    def speak(inputs: Iterator[Any]) -> Iterator[str]:
        read: list[Any] = []
        attempts.append(read)
        number = len(attempts)
        for place, piece in enumerate(pieces):
            read.extend(item for item in [next(inputs, None)] if item is not None)
            if number <= times and place == at:
                raise ValueError(f"broken at {at}")
            yield piece

    return RunnableGenerator(speak), attempts


class Model(BaseChatModel):
    """A model that raises the given errors, one for each request, and then answers."""

    errors: list[Any] = Field(default_factory=list)
    requests: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "failing"

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        self.requests.append(messages[-1].text)
        if len(self.requests) <= len(self.errors):
            raise self.errors[len(self.requests) - 1]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("answer"))])
