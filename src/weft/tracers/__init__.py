"""Tracers: handlers that record runs, in memory, on a terminal, as streams of events, in SQLite, in OpenTelemetry.

Every model imports the markers of `_streaming`; the recorders themselves are loaded when asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazily

if TYPE_CHECKING:
    from weft.tracers.base import AsyncBaseTracer, BaseTracer
    from weft.tracers.log_stream import LogStreamCallbackHandler, RunLog, RunLogPatch
    from weft.tracers.otel import OpenTelemetryTracer
    from weft.tracers.run_collector import RunCollectorCallbackHandler
    from weft.tracers.schemas import Run
    from weft.tracers.sqlite import SQLiteTracer
    from weft.tracers.stdout import ConsoleCallbackHandler
    from weft.tracers.store import TraceStore

__all__ = [
    "AsyncBaseTracer",
    "BaseTracer",
    "ConsoleCallbackHandler",
    "LogStreamCallbackHandler",
    "OpenTelemetryTracer",
    "Run",
    "RunCollectorCallbackHandler",
    "RunLog",
    "RunLogPatch",
    "SQLiteTracer",
    "TraceStore",
]

__getattr__ = lazily(
    __name__,
    {
        ".base": "AsyncBaseTracer BaseTracer",
        ".log_stream": "LogStreamCallbackHandler RunLog RunLogPatch",
        ".otel": "OpenTelemetryTracer",
        ".run_collector": "RunCollectorCallbackHandler",
        ".schemas": "Run",
        ".sqlite": "SQLiteTracer",
        ".stdout": "ConsoleCallbackHandler",
        ".store": "TraceStore",
    },
)
