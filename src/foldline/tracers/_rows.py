"""A run as a row of SQLite and back; the schema and its version. Nothing here opens a file.

Version 1: `runs`, one row each, values as JSON; `tags`, one row per tag of a run. A file of a newer version is refused.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from foldline._storage.sqlite import create_privately, schema_version, set_schema_version
from foldline.exceptions import StoreError
from foldline.load import dumpd
from foldline.load.lazy_dump import LazyDump
from foldline.tracers._redact import Redactor
from foldline.tracers.schemas import Run, run_key

logger = logging.getLogger("foldline.tracers")

VERSION = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY,
    trace_id TEXT NOT NULL,
    parent_run_id TEXT,
    name TEXT NOT NULL,
    run_type TEXT NOT NULL,
    start_time REAL NOT NULL,
    first_token_time REAL,
    end_time REAL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    total_tokens INTEGER,
    error TEXT,
    inputs TEXT NOT NULL,
    outputs TEXT,
    serialized TEXT,
    extra TEXT NOT NULL,
    tags TEXT NOT NULL,
    events TEXT NOT NULL,
    dotted_order TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS runs_by_trace ON runs (trace_id, dotted_order);
CREATE INDEX IF NOT EXISTS runs_by_time ON runs (start_time);
CREATE INDEX IF NOT EXISTS roots_by_time ON runs (start_time) WHERE parent_run_id IS NULL;
CREATE INDEX IF NOT EXISTS runs_by_error ON runs (start_time) WHERE error IS NOT NULL;
CREATE TABLE IF NOT EXISTS tags (
    tag TEXT NOT NULL,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    PRIMARY KEY (tag, run_id)
) STRICT, WITHOUT ROWID;
"""
COLUMNS = [
    "id",
    "trace_id",
    "parent_run_id",
    "name",
    "run_type",
    "start_time",
    "first_token_time",
    "end_time",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "error",
    "inputs",
    "outputs",
    "serialized",
    "extra",
    "tags",
    "events",
    "dotted_order",
]
UPSERT = (
    f"INSERT INTO runs ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))}) "
    f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in COLUMNS[1:])}"
)
KIND = "traces"
PATIENCE_MS = 2_000
"""How long SQLite itself waits for another writer before it says BUSY."""


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, make or check its schema; what cannot be is a `StoreError`."""
    try:
        create_privately(path)
        connection = sqlite3.connect(path, timeout=PATIENCE_MS / 1000, check_same_thread=False)
    except sqlite3.Error as error:
        raise StoreError(f"{path}: cannot open the trace file: {error}") from error
    try:
        connection.isolation_level = None
        version = schema_version(connection, KIND)
        if version > VERSION:
            raise StoreError(
                f"{path}: the traces are of version {version} and this foldline writes version {VERSION}: "
                "upgrade foldline"
            )
        connection.execute("PRAGMA synchronous = NORMAL")
        if version < VERSION:
            _make(connection)
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(f"{path}: no file of traces: {error}") from error
    except StoreError:
        connection.close()
        raise
    return connection


def _make(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in SCHEMA.split(";\n"):
            if statement.strip():
                connection.execute(statement)
        set_schema_version(connection, KIND, VERSION)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


# -- a run as a row


class RowWriter:
    """Writes the runs of one batch as rows, without secrets; the form of a model or a chain once for all its runs."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._forms: dict[tuple[int, str], tuple[object, str]] = {}
        """The id of an object and what else is said of it -> the object, which keeps the id its own, and its form."""

    def row(self, run: Run) -> tuple[Any, ...]:
        """Write a run as a row."""
        usage = (run.usage if run.run_type == "llm" else None) or {}
        inputs, outputs, extra, tags, events = self._texts(
            run.inputs, run.outputs, run.extra, run.tags or [], _plain_events(run.events)
        )
        return (
            run_key(run.id),
            run_key(run.trace_id or run.id),
            run_key(run.parent_run_id) if run.parent_run_id else None,
            self._redactor.text(run.name),
            run.run_type,
            run.start_time.timestamp(),
            run.first_token_time.timestamp() if run.first_token_time else None,
            run.end_time.timestamp() if run.end_time else None,
            usage.get("input_tokens"),
            usage.get("output_tokens"),
            usage.get("total_tokens"),
            None if run.error is None else self._redactor.text(run.error),
            inputs,
            None if run.outputs is None else outputs,
            None if run.serialized is None else self._form(run.serialized),
            extra,
            tags,
            events,
            run.dotted_order,
        )

    def tags(self, run: Run) -> list[tuple[str, str]]:
        """Write the tags of a run as rows."""
        return [(self._redactor.text(tag), run_key(run.id)) for tag in run.tags or []]

    def _texts(self, *values: object) -> list[str]:
        """Write values as JSON. Most hold no secret: one look at all of them says so."""
        try:
            texts = [ENCODER.encode(value) for value in values]
        except (TypeError, ValueError, RecursionError):  # keys that JSON has not, a list in itself
            return [written(value, self._redactor) for value in values]
        if self._redactor.may_show_secrets("\n".join(texts)):
            return [written(value, self._redactor) for value in values]
        return texts

    def _form(self, serialized: dict[str, Any]) -> str:
        unwritten = serialized.unwritten if isinstance(serialized, LazyDump) else None
        if unwritten is None:
            return written(serialized, self._redactor)
        source, more = unwritten
        key = (id(source), more)
        if key not in self._forms:
            self._forms[key] = (source, written(serialized, self._redactor))
        return self._forms[key][1]


def _plain_events(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write the times of a run's events here: the encoder would ask for each."""
    return [
        {**event, "time": time.isoformat()}
        if isinstance(time := event.get("time"), datetime)
        else event
        for event in list(events)
    ]


def written(value: Any, redactor: Redactor) -> str:
    """Write any value as JSON: messages and documents as dumps, times in ISO, strangers by their repr."""
    try:
        clean = redactor.json(_plain(value))
        return json.dumps(clean, ensure_ascii=True, allow_nan=True, default=repr)
    except RecursionError:  # a value that contains itself must not cost the row
        return json.dumps(redactor.json(_kinds(value)))


def _kinds(value: object) -> object:
    """Name the classes of what a value holds, where it cannot be written whole."""
    if isinstance(value, dict):
        return {str(key): repr(type(item)) for key, item in list(value.items())}
    return [repr(type(item)) for item in value] if isinstance(value, list) else repr(type(value))


def _plain(value: object) -> object:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in list(value.items())}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in list(value)]
    return _plain(_encodable(value))


ENCODABLE: tuple[tuple[tuple[type, ...], Callable[[Any], Any]], ...] = (
    ((datetime,), datetime.isoformat),
    ((set, frozenset), list),
    ((UUID, Path), str),
    ((BaseException, bytes), repr),
)
"""What JSON has not -> how it is written."""


def _encodable(value: object) -> object:
    """Turn what JSON has not into something that it has, or that holds only what can be turned."""
    for kinds, turn in ENCODABLE:
        if isinstance(value, kinds):
            return turn(value)
    try:
        dumped = dumpd(value)
        return dumped if isinstance(dumped, dict | list | str) else repr(dumped)
    except Exception:  # noqa: BLE001  a stranger's object must not cost the row
        return repr(type(value))


ENCODER = json.JSONEncoder(default=_encodable)


# -- a row as a run


DAMAGE = (ValueError, TypeError, OverflowError, OSError, RecursionError)
"""What reading a damaged row may stumble with."""


def runs_of(rows: Iterable[tuple[Any, ...]], path: Path) -> list[Run]:
    """Read runs back; a damaged row is left out and reported, the others are kept (F-K02)."""
    runs: list[Run] = []
    for row in rows:
        try:
            runs.append(run_of(row))
        except DAMAGE as error:
            logger.warning(
                "%s: the run %.40s is damaged and was left out: %.200s", path, row[0], error
            )
    return runs


def run_of(row: tuple[Any, ...]) -> Run:
    """Read a run back; values are JSON as it was written, and hostile: they are checked."""
    found = dict(zip(COLUMNS, row, strict=True))
    for key in ("inputs", "outputs", "serialized", "extra", "tags", "events"):
        found[key] = json.loads(found[key]) if found[key] is not None else None
    for key in ("start_time", "first_token_time", "end_time"):
        found[key] = datetime.fromtimestamp(found[key], UTC) if found[key] is not None else None
    for key in ("input_tokens", "output_tokens", "total_tokens"):
        del found[key]
    return Run(**found)
