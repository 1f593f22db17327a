"""The headers that pass the trace of a served run on to providers and tools.

Nothing is sent outside of a server: a program that calls a model decides itself what leaves it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from foldline._config import var_child_runnable_config
from foldline.callbacks._observers import RunObserver
from foldline.utils._trace_context import TRACE

__all__ = ["current_trace_headers", "trace_headers"]


def trace_headers(handlers: Iterable[object], run_id: UUID | None) -> dict[str, str]:
    """Return the headers for a request of a run: its own span if a tracer has one, else the span of the caller."""
    trace = TRACE.get()
    if trace is None or not trace.is_sent:
        return {}
    for handler in handlers:
        if run_id is not None and isinstance(handler, RunObserver):
            span = handler.trace_context(run_id)
            if span is not None:
                return span.headers()
    return trace.parent.headers() if trace.parent is not None else {}


def current_trace_headers() -> dict[str, str]:
    """Return the headers for a request of the run that is going on."""
    if TRACE.get() is None:
        return {}
    manager: Any = (var_child_runnable_config.get() or {}).get("callbacks")
    handlers = getattr(manager, "handlers", None) or ()
    return trace_headers(handlers, getattr(manager, "parent_run_id", None))
