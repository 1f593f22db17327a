"""Tracers: handlers that record runs in memory, on a terminal, in SQLite or PostgreSQL, in OpenTelemetry, in LangSmith.

Every model imports the markers of `_streaming`; the recorders themselves are loaded when asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.tracers._streaming import StreamingHandler, V2StreamingHandler
    from foldline.tracers.base import AsyncBaseTracer, BaseTracer
    from foldline.tracers.langchain import LangChainTracer
    from foldline.tracers.log_stream import LogStreamCallbackHandler, RunLog, RunLogPatch
    from foldline.tracers.otel import OpenTelemetryTracer
    from foldline.tracers.postgres import PostgresTracer
    from foldline.tracers.run_collector import RunCollectorCallbackHandler
    from foldline.tracers.schemas import Run
    from foldline.tracers.sqlite import SQLiteTracer
    from foldline.tracers.stdout import ConsoleCallbackHandler
    from foldline.tracers.store import TraceFilters, TraceStore

__all__ = [
    "AsyncBaseTracer",
    "BaseTracer",
    "ConsoleCallbackHandler",
    "LangChainTracer",
    "LogStreamCallbackHandler",
    "OpenTelemetryTracer",
    "PostgresTracer",
    "Run",
    "RunCollectorCallbackHandler",
    "RunLog",
    "RunLogPatch",
    "SQLiteTracer",
    "StreamingHandler",
    "TraceFilters",
    "TraceStore",
    "V2StreamingHandler",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        "._streaming": "StreamingHandler V2StreamingHandler",
        ".base": "AsyncBaseTracer BaseTracer",
        ".langchain": "LangChainTracer",
        ".log_stream": "LogStreamCallbackHandler RunLog RunLogPatch",
        ".otel": "OpenTelemetryTracer",
        ".postgres": "PostgresTracer",
        ".run_collector": "RunCollectorCallbackHandler",
        ".schemas": "Run",
        ".sqlite": "SQLiteTracer",
        ".stdout": "ConsoleCallbackHandler",
        ".store": "TraceFilters TraceStore",
    },
)
