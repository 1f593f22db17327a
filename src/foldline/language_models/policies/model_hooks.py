"""`ModelHooks`: functions that may replace a call's request, its result or its error. Callbacks only observe.

Each is called once per outcome: `before` once per call, then either `after` or `on_error`, whatever was tried in
between. They may be blocking or async; an async one needs an async call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from foldline._io import IO
from foldline.exceptions import UsageError
from foldline.language_models.call.request import ChatRequest
from foldline.messages import AIMessage

__all__ = ["ModelHooks"]


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModelHooks:
    """What may be replaced on the way: each function gives the replacement, or None to leave things as they are."""

    before: Callable[[ChatRequest], Any] | None = None
    """request -> another request"""
    after: Callable[[ChatRequest, AIMessage], Any] | None = None
    """request, answer -> another answer. Of a stream that is read, the pieces are out already: see `guards`."""
    on_error: Callable[[ChatRequest, Exception], Any] | None = None
    """request, error -> another error to raise, or an answer to give instead"""

    @classmethod
    def of(cls, value: object) -> ModelHooks | None:
        """Read what `hooks` accepts: hooks, or a dict of them."""
        if value is None or isinstance(value, ModelHooks):
            return value
        names = [one.name for one in fields(cls)]
        if not isinstance(value, Mapping) or value.keys() - set(names):
            raise UsageError(f"hooks={value!r}: ModelHooks(...), or a dict of {', '.join(names)}")
        return cls(**value)

    async def run_before(self, request: ChatRequest, io: IO) -> ChatRequest:
        """Let the hook see the request, and give what is to be sent."""
        if self.before is None:
            return request
        outcome = await io.call(self.before, request)
        return _replacement(outcome, request, ChatRequest, "before")

    async def run_after(self, request: ChatRequest, message: AIMessage, io: IO) -> AIMessage:
        """Let the hook see the answer, and give what is to be returned."""
        if self.after is None:
            return message
        outcome = await io.call(self.after, request, message)
        return _replacement(outcome, message, AIMessage, "after")

    async def run_on_error(
        self, request: ChatRequest, error: Exception, io: IO
    ) -> Exception | AIMessage:
        """Let the hook see the error, and give what is to be raised or returned."""
        if self.on_error is None:
            return error
        outcome = await io.call(self.on_error, request, error)
        if isinstance(outcome, AIMessage):
            return outcome
        return _replacement(outcome, error, Exception, "on_error")


def _replacement(value: object, otherwise: T, kind: type[T], name: str) -> T:
    if value is None:
        return otherwise
    if not isinstance(value, kind):
        raise UsageError(
            f"ModelHooks({name}=…) gave {type(value).__name__}: give a replacement of its kind, or None"
        )
    return value
