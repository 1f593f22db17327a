"""Tracers: handlers that keep a `Run` of every run, sync and async from one table.

A subclass says what becomes of a finished trace (`_persist_run`) and may override the hooks: `_on_run_create`,
`_on_run_update`, `_on_chain_start`, ... The blocking and the awaited class differ only in who waits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from foldline.callbacks.base import AsyncCallbackHandler, BaseCallbackHandler
from foldline.callbacks.dispatch import inline
from foldline.tracers.core import _TracerCore
from foldline.tracers.schemas import Run

if TYPE_CHECKING:
    from foldline.protocol.events import Event

__all__ = ["AsyncBaseTracer", "BaseTracer"]


class RunStep(NamedTuple):
    """What an event does to its run: which method of the core, which hook, and whether it begins or ends it."""

    make: str
    hook: str
    phase: str


STEPS = {
    "on_chat_model_start": RunStep("_create_chat_model_run", "_on_chat_model_start", "start"),
    "on_llm_start": RunStep("_create_llm_run", "_on_llm_start", "start"),
    "on_llm_end": RunStep("_complete_llm_run", "_on_llm_end", "end"),
    "on_llm_error": RunStep("_errored_llm_run", "_on_llm_error", "end"),
    "on_chain_start": RunStep("_create_chain_run", "_on_chain_start", "start"),
    "on_chain_end": RunStep("_complete_chain_run", "_on_chain_end", "end"),
    "on_chain_error": RunStep("_errored_chain_run", "_on_chain_error", "end"),
    "on_tool_start": RunStep("_create_tool_run", "_on_tool_start", "start"),
    "on_tool_end": RunStep("_complete_tool_run", "_on_tool_end", "end"),
    "on_tool_error": RunStep("_errored_tool_run", "_on_tool_error", "end"),
    "on_retriever_start": RunStep("_create_retrieval_run", "_on_retriever_start", "start"),
    "on_retriever_end": RunStep("_complete_retrieval_run", "_on_retriever_end", "end"),
    "on_retriever_error": RunStep("_errored_retrieval_run", "_on_retriever_error", "end"),
}
"""Event -> what it does."""


class BaseTracer(_TracerCore, BaseCallbackHandler, ABC):
    """Keeps a `Run` of every run; `_persist_run` gets each finished trace."""

    @abstractmethod
    def _persist_run(self, run: Run) -> None:
        """Keep a finished trace: its root, children below."""

    def _start_trace(self, run: Run) -> None:
        self._enter(run)
        self._on_run_create(run)

    def _end_trace(self, run: Run) -> None:
        if run.parent_run is None:
            self._persist_run(run)
        self._leave(run)
        self._on_run_update(run)

    def on_llm_new_token(
        self, token: object, *, run_id: UUID, chunk: object = None, **kwargs: object
    ) -> Run:
        """Note a token."""
        run = self._llm_run_with_token_event(token, run_id, chunk)
        self._on_llm_new_token(run, token, chunk)
        return run

    @inline
    def on_stream_event(self, event: Event, *, run_id: UUID, **kwargs: object) -> None:
        """Note when the first content arrived."""
        self._note_stream_event(event, run_id)

    def on_retry(self, retry_state: object, *, run_id: UUID, **kwargs: object) -> Run:
        """Note another try."""
        return self._run_with_retry_event(retry_state, run_id)

    def _on_run_create(self, run: Run) -> None:
        """A run began."""

    def _on_run_update(self, run: Run) -> None:
        """A run ended."""

    def _on_llm_new_token(self, run: Run, token: object, chunk: object) -> None:
        """A token arrived."""


class AsyncBaseTracer(_TracerCore, AsyncCallbackHandler, ABC):
    """Keeps a `Run` of every run; its hooks are awaited."""

    @abstractmethod
    async def _persist_run(self, run: Run) -> None:
        """Keep a finished trace: its root, children below."""

    async def _start_trace(self, run: Run) -> None:
        self._enter(run)
        await self._on_run_create(run)

    async def _end_trace(self, run: Run) -> None:
        if run.parent_run is None:
            await self._persist_run(run)
        self._leave(run)
        await self._on_run_update(run)

    async def on_llm_new_token(
        self, token: object, *, run_id: UUID, chunk: object = None, **kwargs: object
    ) -> None:
        """Note a token."""
        run = self._llm_run_with_token_event(token, run_id, chunk)
        await self._on_llm_new_token(run, token, chunk)

    @inline
    def on_stream_event(self, event: Event, *, run_id: UUID, **kwargs: object) -> None:
        """Note when the first content arrived."""
        self._note_stream_event(event, run_id)

    async def on_retry(self, retry_state: object, *, run_id: UUID, **kwargs: object) -> None:
        """Note another try."""
        self._run_with_retry_event(retry_state, run_id)

    async def _on_run_create(self, run: Run) -> None:
        """A run began."""

    async def _on_run_update(self, run: Run) -> None:
        """A run ended."""

    async def _on_llm_new_token(self, run: Run, token: object, chunk: object) -> None:
        """A token arrived."""


def _as_text(
    core: _TracerCore, step: RunStep, args: tuple[Any, ...]
) -> tuple[RunStep, tuple[Any, ...]]:
    """Messages become text for a tracer of the original format, as they do for a handler of text models."""
    if step.make != "_create_chat_model_run" or core._schema_format != "original":
        return step, args
    from foldline.messages import get_buffer_string  # noqa: PLC0415

    serialized, messages = args
    return STEPS["on_llm_start"], (
        serialized,
        [get_buffer_string(conversation) for conversation in messages],
    )


def _hook_of(step: RunStep) -> Callable[..., Run]:
    begins = step.phase == "start"

    def handle(self: BaseTracer, *args: object, **kwargs: object) -> Run:
        run_step, step_args = _as_text(self, step, args) if begins else (step, args)
        run: Run = getattr(self, run_step.make)(*step_args, **kwargs)
        if begins:
            self._start_trace(run)
        else:
            self._end_trace(run)
        getattr(self, run_step.hook)(run)
        return run

    return handle


def _async_hook_of(step: RunStep) -> Callable[..., Coroutine[Any, Any, Run]]:
    async def handle(self: AsyncBaseTracer, *args: object, **kwargs: object) -> Run:
        run_step, step_args = _as_text(self, step, args)
        run: Run = getattr(self, run_step.make)(*step_args, **kwargs)
        await (self._start_trace if step.phase == "start" else self._end_trace)(run)
        await getattr(self, run_step.hook)(run)
        return run

    return handle


def _hook(self: BaseTracer, run: Run) -> None:
    """Nothing to do."""


async def _awaited_hook(self: AsyncBaseTracer, run: Run) -> None:
    """Nothing to do."""


for _event, _step in STEPS.items():
    setattr(BaseTracer, _event, _hook_of(_step))
    setattr(AsyncBaseTracer, _event, _async_hook_of(_step))
    setattr(BaseTracer, _step.hook, _hook)
    setattr(AsyncBaseTracer, _step.hook, _awaited_hook)
