"""Tracers: handlers that record runs in memory, on a terminal, in SQLite or PostgreSQL, in OpenTelemetry, in LangSmith.

Every model imports the markers of `_streaming`; the recorders themselves are loaded when asked for.
"""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.tracers._streaming import (
        StreamingHandler as StreamingHandler,
        V2StreamingHandler as V2StreamingHandler,
    )
    from foldline.tracers.base import AsyncBaseTracer as AsyncBaseTracer, BaseTracer as BaseTracer
    from foldline.tracers.langchain import LangChainTracer as LangChainTracer
    from foldline.tracers.log_stream import (
        LogStreamCallbackHandler as LogStreamCallbackHandler,
        RunLog as RunLog,
        RunLogPatch as RunLogPatch,
    )
    from foldline.tracers.otel import OpenTelemetryTracer as OpenTelemetryTracer
    from foldline.tracers.postgres import PostgresTracer as PostgresTracer
    from foldline.tracers.run_collector import (
        RunCollectorCallbackHandler as RunCollectorCallbackHandler,
    )
    from foldline.tracers.schemas import Run as Run
    from foldline.tracers.sqlite import SQLiteTracer as SQLiteTracer
    from foldline.tracers.stdout import ConsoleCallbackHandler as ConsoleCallbackHandler
    from foldline.tracers.store import TraceFilters as TraceFilters, TraceStore as TraceStore
