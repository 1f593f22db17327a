"""Tracers that are added to every run of a context."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from foldline.callbacks.base import BaseCallbackHandler
from foldline.callbacks.hooks import register_configure_hook
from foldline.tracers.run_collector import RunCollectorCallbackHandler

if TYPE_CHECKING:
    from uuid import UUID

    from langsmith import Client

    from foldline.tracers.langchain import LangChainTracer

__all__ = ["collect_runs", "register_configure_hook", "tracing_v2_enabled"]

_collecting: ContextVar[RunCollectorCallbackHandler | None] = ContextVar(
    "run_collector", default=None
)
register_configure_hook(_collecting, inheritable=True)
_tracing: ContextVar[BaseCallbackHandler | None] = ContextVar("tracing_v2", default=None)
register_configure_hook(_tracing, inheritable=True)


@contextmanager
def collect_runs() -> Generator[RunCollectorCallbackHandler, None, None]:
    """Collect every trace that begins inside the block.

    ```python
    from foldline.runnables import RunnableLambda
    from foldline.tracers.context import collect_runs

    with collect_runs() as runs:
        RunnableLambda(lambda x: x + 1).invoke(1)
    print(len(runs.traced_runs))
    #> 1
    ```
    """
    collector = RunCollectorCallbackHandler()
    token = _collecting.set(collector)
    try:
        yield collector
    finally:
        _collecting.reset(token)


@contextmanager
def tracing_v2_enabled(
    project_name: str | None = None,
    *,
    example_id: UUID | str | None = None,
    tags: list[str] | None = None,
    client: Client | None = None,
) -> Generator[LangChainTracer, None, None]:
    """Send every trace that begins inside the block to LangSmith (extra `langsmith`)."""
    from foldline.tracers.langchain import LangChainTracer  # noqa: PLC0415  an extra

    tracer = LangChainTracer(
        example_id=example_id, project_name=project_name, tags=tags, client=client
    )
    token = _tracing.set(tracer)
    try:
        yield tracer
    finally:
        _tracing.reset(token)
