"""What a wrong value of each option of a tracer, and of the functions of `foldline.tracing`, does."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from foldline import tracing
from foldline.tracers import (
    BaseTracer,
    ConsoleCallbackHandler,
    LangChainTracer,
    LogStreamCallbackHandler,
    OpenTelemetryTracer,
    PostgresTracer,
    RunCollectorCallbackHandler,
    SQLiteTracer,
    TraceStore,
)
from foldline.tracers._database_tracer import TracerOptions
from tests.options.matrix import Row, Target, options_of

OPTIONS = frozenset(TracerOptions.__annotations__)
URL = "postgresql://nobody@127.0.0.1:9/none"


def place() -> Path:
    return Path(tempfile.mkdtemp()) / "traces.db"


class Collecting(BaseTracer):
    """A tracer of a program."""

    def _persist_run(self, run: Any) -> None:
        """Keep nothing."""


def enable(**options: Any) -> None:
    tracing.enable(**{"path": place(), **options})
    tracing.disable()


TARGETS = {
    "SQLiteTracer": Target(
        OPTIONS | {"path"}, build=lambda **options: SQLiteTracer(**{"path": place(), **options})
    ),
    "PostgresTracer": Target(
        OPTIONS | {"url"}, build=lambda **options: PostgresTracer(**{"url": URL, **options})
    ),
    "tracing.enable": Target(OPTIONS | {"path"}, build=enable),
    "OpenTelemetryTracer": Target(options_of(OpenTelemetryTracer), build=OpenTelemetryTracer),
    "LangChainTracer": Target(options_of(LangChainTracer), build=LangChainTracer),
    "BaseTracer": Target(options_of(BaseTracer, without=["_schema_format"]), build=Collecting),
    "ConsoleCallbackHandler": Target(
        options_of(ConsoleCallbackHandler), build=ConsoleCallbackHandler
    ),
    "RunCollectorCallbackHandler": Target(
        options_of(RunCollectorCallbackHandler), build=RunCollectorCallbackHandler
    ),
    "LogStreamCallbackHandler": Target(
        options_of(LogStreamCallbackHandler, without=["_schema_format"]),
        build=LogStreamCallbackHandler,
    ),
    "TraceStore": Target(options_of(TraceStore), build=TraceStore),
    "tracing.prune": Target(
        options_of(tracing.prune),
        build=lambda **options: tracing.prune(**{"path": place(), **options}),
    ),
    "tracing.forget": Target(
        options_of(tracing.forget),
        build=lambda **options: tracing.forget(**{"user": "ada", "traces": place(), **options}),
    ),
}

ERROR = "error at construction"
DATABASE: list[tuple[str, Any, str]] = [
    ("limit", 0, "limit"),
    ("limit", "many", "limit"),
    ("overflow", "explode", '"wait" or "drop"'),
    ("trace_wait", -1, "trace_wait"),
    ("trace_wait", "long", "trace_wait"),
    ("secrets", "sk-1", "a list of texts"),
    ("redact", 3, "redact is a function"),
    ("config_keys", "tenant", "a list of texts"),
    ("revision", 3, "revision is a text"),
    ("nonsense", 3, "no option"),
]

ROWS = [
    *(
        Row(target, option, value, ERROR, match)
        for target in ("SQLiteTracer", "PostgresTracer", "tracing.enable")
        for option, value, match in DATABASE
    ),
    Row("SQLiteTracer", "path", 3, ERROR, "path"),
    Row("SQLiteTracer", "path", URL, ERROR, "PostgresTracer"),
    Row("PostgresTracer", "url", 3, ERROR, "url"),
    Row("PostgresTracer", "url", "traces.db", ERROR, "postgresql://"),
    Row("tracing.enable", "path", 3, ERROR, "path"),
    Row("OpenTelemetryTracer", "tracer_provider", 3, ERROR, "tracer_provider"),
    Row("OpenTelemetryTracer", "capture_content", "yes", ERROR, "must be bool"),
    Row("OpenTelemetryTracer", "nonsense", 3, ERROR, "nonsense"),
    Row("LangChainTracer", "example_id", 3, ERROR, "example_id"),
    Row("LangChainTracer", "project_name", 3, ERROR, "project_name"),
    Row("LangChainTracer", "client", 3, ERROR, "client"),
    Row("LangChainTracer", "tags", "a", ERROR, "tags"),
    Row("LangChainTracer", "metadata", 3, ERROR, "metadata"),
    Row("LangChainTracer", "secrets", "sk-1", ERROR, "secrets"),
    Row("LangChainTracer", "nonsense", 3, ERROR, "nonsense"),
    Row("BaseTracer", "run_map", 3, ERROR, "must be dict"),
    Row("BaseTracer", "nonsense", 3, ERROR, "no option"),
    Row("ConsoleCallbackHandler", "nonsense", 3, ERROR, "no option"),
    Row("RunCollectorCallbackHandler", "example_id", 3, ERROR, "example_id"),
    Row("RunCollectorCallbackHandler", "nonsense", 3, ERROR, "no option"),
    Row("LogStreamCallbackHandler", "send", 3, ERROR, "send"),
    Row("LogStreamCallbackHandler", "auto_close", "yes", ERROR, "must be bool"),
    Row("LogStreamCallbackHandler", "nonsense", 3, ERROR, "nonsense"),
    Row("TraceStore", "path", 3, ERROR, "path"),
    Row("TraceStore", "nonsense", 3, ERROR, "nonsense"),
    Row("tracing.prune", "max_age", -1, ERROR, "max_age"),
    Row("tracing.prune", "max_bytes", -1, ERROR, "max_bytes"),
    Row("tracing.prune", "path", 3, ERROR, "path"),
    Row("tracing.prune", "nonsense", 3, ERROR, "nonsense"),
    Row("tracing.forget", "trace", 3, ERROR, "trace"),
    Row("tracing.forget", "thread", 3, ERROR, "thread"),
    Row("tracing.forget", "user", 3, ERROR, "user"),
    Row("tracing.forget", "traces", 3, ERROR, "traces"),
    Row("tracing.forget", "histories", "a.db", ERROR, "histories"),
    Row("tracing.forget", "checkpoints", "a.db", ERROR, "checkpoints"),
    Row("tracing.forget", "run_logs", "a.db", ERROR, "run_logs"),
    Row("tracing.forget", "nonsense", 3, ERROR, "nonsense"),
]
