"""A coroutine that runs in a copy of the context, without a task: its caller does not see what it sets."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextvars import copy_context
from typing import Any

__all__ = ["CopiedContext"]


class CopiedContext:
    """Awaits a coroutine in a copy of the context in which this was made.

    A task would do the same, but begins later: who is cancelled before that would never have run it.
    """

    __slots__ = ("_body", "_context")

    def __init__(self, body: Coroutine[Any, Any, Any]) -> None:
        self._body = body
        self._context = copy_context()

    def __await__(self) -> Generator[Any, Any, Any]:
        """Pass on what the coroutine waits for, and what comes back."""
        step, value = self._body.send, None
        while True:
            try:
                awaited = self._context.run(step, value)
            except StopIteration as done:
                return done.value
            try:
                step, value = self._body.send, (yield awaited)
            except BaseException as error:  # noqa: BLE001  the coroutine decides what becomes of it
                step, value = self._body.throw, error
