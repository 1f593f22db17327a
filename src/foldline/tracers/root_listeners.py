"""Tracers behind `with_listeners`: call a function when the root run starts, ends or fails."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from foldline._config import RunnableConfig
from foldline.tracers.base import AsyncBaseTracer, BaseTracer
from foldline.tracers.schemas import Run

__all__ = [
    "AsyncRootListenersTracer",
    "RootListenersTracer",
]

Result = TypeVar("Result")
Listener = Callable[[Run], None] | Callable[[Run, RunnableConfig], None]
AsyncListener = Callable[[Run], Awaitable[None]] | Callable[[Run, RunnableConfig], Awaitable[None]]


def _call(listener: Callable[..., Result], run: Run, config: RunnableConfig) -> Result:
    """Call a listener with the run, and with the config if it has a second parameter or one of that name."""
    try:
        parameters = inspect.signature(listener).parameters
    except (TypeError, ValueError):  # written in C
        return listener(run)
    if "config" in parameters:
        return listener(run, config=config)
    places = [
        p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    required = [p for p in places if p.default is p.empty]
    return listener(run, config) if len(required) > 1 else listener(run)


class RootListenersTracer(BaseTracer):
    """Calls listeners for the first run that starts."""

    log_missing_parent = False

    def __init__(
        self,
        *,
        config: RunnableConfig,
        on_start: Listener | None = None,
        on_end: Listener | None = None,
        on_error: Listener | None = None,
    ) -> None:
        super().__init__(_schema_format="original+chat")
        self.config = config
        self._arg_on_start, self._arg_on_end, self._arg_on_error = on_start, on_end, on_error
        self.root_id: UUID | None = None

    def _persist_run(self, run: Run) -> None:
        """The listeners decide what is kept."""

    def _on_run_create(self, run: Run) -> None:
        if self.root_id is not None:
            return
        self.root_id = run.id
        if self._arg_on_start is not None:
            _call(self._arg_on_start, run, self.config)

    def _on_run_update(self, run: Run) -> None:
        if run.id != self.root_id:
            return
        listener = self._arg_on_end if run.error is None else self._arg_on_error
        if listener is not None:
            _call(listener, run, self.config)


class AsyncRootListenersTracer(AsyncBaseTracer):
    """Awaits listeners for the first run that starts."""

    log_missing_parent = False

    def __init__(
        self,
        *,
        config: RunnableConfig,
        on_start: AsyncListener | None = None,
        on_end: AsyncListener | None = None,
        on_error: AsyncListener | None = None,
    ) -> None:
        super().__init__(_schema_format="original+chat")
        self.config = config
        self._arg_on_start, self._arg_on_end, self._arg_on_error = on_start, on_end, on_error
        self.root_id: UUID | None = None

    async def _persist_run(self, run: Run) -> None:
        """The listeners decide what is kept."""

    async def _on_run_create(self, run: Run) -> None:
        if self.root_id is not None:
            return
        self.root_id = run.id
        if self._arg_on_start is not None:
            await _call(self._arg_on_start, run, self.config)

    async def _on_run_update(self, run: Run) -> None:
        if run.id != self.root_id:
            return
        listener = self._arg_on_end if run.error is None else self._arg_on_error
        if listener is not None:
            await _call(listener, run, self.config)
