"""`ModelHooks`: functions that may replace a call's request, its result or its error. Callbacks only observe.

Each is called once per outcome: `before` once per call, then either `after` or `on_error`, however many attempts there
were. They may be sync or async; an async one needs an async call.

A value that `settings` holds and checks when a model is made, so it lies below the policy that runs it (`hooks`): every
policy imports `policy`, which imports `settings`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from foldline._io import IO
from foldline._lazy import publish
from foldline.exceptions import UsageError
from foldline.language_models._call.request import ChatRequest
from foldline.messages import AIMessage

__all__ = ["ModelHooks"]


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModelHooks:
    """Functions that may replace parts of a call: each returns the replacement, or None to change nothing."""

    before: Callable[[ChatRequest], Any] | None = None
    """request -> another request"""
    after: Callable[[ChatRequest, AIMessage], Any] | None = None
    """request, answer -> another answer. The chunks of a stream are delivered already: see `guards`."""
    on_error: Callable[[ChatRequest, Exception], Any] | None = None
    """request, error -> another error to raise, or an answer to return instead"""

    @classmethod
    def of(cls, value: object) -> ModelHooks | None:
        """Return the hooks for the setting `hooks`: hooks, or a dict of them."""
        if value is None or isinstance(value, ModelHooks):
            return value
        names = [hook_field.name for hook_field in fields(cls)]
        if not isinstance(value, Mapping) or value.keys() - set(names):
            raise UsageError(f"hooks={value!r}: ModelHooks(...), or a dict of {', '.join(names)}")
        return cls(**value)

    async def run_before(self, request: ChatRequest, io: IO) -> ChatRequest:
        """Run the hook on the request; return the request to send."""
        if self.before is None:
            return request
        outcome = await io.call(self.before, request)
        return _replacement(outcome, request, ChatRequest, "before")

    async def run_after(self, request: ChatRequest, message: AIMessage, io: IO) -> AIMessage:
        """Run the hook on the answer; return the answer to return."""
        if self.after is None:
            return message
        outcome = await io.call(self.after, request, message)
        return _replacement(outcome, message, AIMessage, "after")

    async def run_on_error(
        self, request: ChatRequest, error: Exception, io: IO
    ) -> Exception | AIMessage:
        """Run the hook on the error; return the error to raise or the answer to return."""
        if self.on_error is None:
            return error
        outcome = await io.call(self.on_error, request, error)
        if isinstance(outcome, AIMessage):
            return outcome
        return _replacement(outcome, error, Exception, "on_error")


def _replacement(value: object, default: T, kind: type[T], name: str) -> T:
    if value is None:
        return default
    if not isinstance(value, kind):
        raise UsageError(
            f"ModelHooks({name}=…) returned {type(value).__name__}: return a replacement of its kind, or None"
        )
    return value


publish("foldline.language_models", ModelHooks)
