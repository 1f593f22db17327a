"""`prompt | model | parser` under tracers: ours, one empty handler ("floor"), and the tracer's library alone ("bare").

The bare sides do the least that a tracer can: four spans made with OpenTelemetry's own library, or four ready rows
with their tags and words written into the same tables of SQLite. What that takes no tracer in Python can save.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from benchmarks.scenarios import _listener, _prompt_model_parser

Run = Callable[[], float]
CALLS = 200
TOPIC = {"topic": "bears"}


def chain(side: str, tracer: str) -> Run:
    """Run the chain under a tracer, all it writes included."""
    handler, finish = SIDES[side](tracer)
    runnable, config = _prompt_model_parser("foldline"), {"callbacks": [handler]}

    def run() -> int:
        for _ in range(CALLS):
            runnable.invoke(TOPIC, config)
        finish()
        return CALLS

    return run


Traced = tuple[Any, Callable[[], Any]]
"""A handler, and a function that writes its remaining records."""


def _foldline_traced(tracer: str) -> Traced:
    tracers = import_module("foldline.tracers")
    if tracer == "sqlite":
        handler = tracers.SQLiteTracer(_file())
        return handler, handler.flush
    provider = _provider()
    return tracers.OpenTelemetryTracer(tracer_provider=provider), provider.force_flush


def _empty(tracer: str) -> Traced:
    return _listener("foldline"), lambda: None


def _bare(tracer: str) -> Traced:
    if tracer == "sqlite":
        return _listener("foldline"), _bare_rows()
    provider = _provider()
    return _bare_spans(provider), provider.force_flush


SIDES: dict[str, Callable[[str], Traced]] = {
    "foldline": _foldline_traced,
    "floor": _empty,
    "bare rows": _bare,
    "bare spans": _bare,
}


def _file() -> Path:
    return Path(tempfile.mkdtemp(prefix="foldline-bench-")) / "traces.db"


def _provider() -> Any:
    sdk = import_module("opentelemetry.sdk.trace")
    export = import_module("opentelemetry.sdk.trace.export")

    class Nowhere(export.SpanExporter):  # type: ignore[misc,name-defined]
        def export(self, spans: Any) -> Any:
            return export.SpanExportResult.SUCCESS

    provider = sdk.TracerProvider()
    provider.add_span_processor(export.BatchSpanProcessor(Nowhere()))
    return provider


def _bare_spans(provider: Any) -> Any:
    trace = import_module("opentelemetry.trace")
    tracer = provider.get_tracer("bare")

    class Spans(import_module("foldline.callbacks").BaseCallbackHandler):  # type: ignore[misc]
        def __init__(self) -> None:
            self.spans: dict[UUID, Any] = {}

        def on_chain_start(
            self, serialized: Any, inputs: Any, *, run_id: UUID, name: str, **kwargs: Any
        ) -> None:
            parent = self.spans.get(kwargs["parent_run_id"])
            self.spans[run_id] = tracer.start_span(
                name,
                context=None if parent is None else trace.set_span_in_context(parent),
                attributes={"run.id": str(run_id), "run.type": kwargs.get("run_type", "chain")},
            )

        on_chat_model_start = on_chain_start

        def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
            self.spans.pop(run_id).end()

        on_llm_end = on_chain_end

    return Spans()


def _bare_rows() -> Callable[[], None]:
    """Return what writes the rows of so many calls; they are those that our tracer wrote of one."""
    columns = import_module("foldline.tracers._columns")
    index = import_module("foldline.tracers._index")
    statements = import_module("foldline._storage.sqlite_database").SqliteConnection
    path = _file()
    with import_module("foldline.tracers").SQLiteTracer(path) as tracer:
        _prompt_model_parser("foldline").invoke(TOPIC, {"callbacks": [tracer]})
    file = sqlite3.connect(path, isolation_level=None)
    rows = file.execute(
        f"SELECT {', '.join(columns.COLUMNS)} FROM foldline_runs ORDER BY seq"
    ).fetchall()
    tags = dict(file.execute("SELECT run_id, tag FROM foldline_run_tags"))
    words = [text for _, text in index._read_texts(statements(file), [1, 2, 3, 4])]
    names, marks = ", ".join(columns.COLUMNS), ", ".join("?" * len(columns.COLUMNS))
    insert = f"INSERT INTO foldline_runs ({names}) VALUES ({marks})"

    def write() -> None:
        (reached,) = file.execute("SELECT max(seq) FROM foldline_runs").fetchone()
        ids = [[str(uuid4()) for _ in rows] for _ in range(CALLS)]
        file.execute("BEGIN IMMEDIATE")
        file.executemany(
            insert,
            [
                (new, run_ids[0], *row[2:])
                for run_ids in ids
                for new, row in zip(run_ids, rows, strict=True)
            ],
        )
        file.executemany(
            "INSERT INTO foldline_run_tags (run_id, tag) VALUES (?, ?)",
            [
                (new, tags[row[0]])
                for run_ids in ids
                for new, row in zip(run_ids, rows, strict=True)
                if row[0] in tags
            ],
        )
        file.executemany(
            "INSERT INTO foldline_run_words (rowid, text) VALUES (?, ?)",
            enumerate(words * CALLS, start=reached + 1),
        )
        file.execute("COMMIT")

    return write
