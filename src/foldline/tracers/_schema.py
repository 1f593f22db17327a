"""The schema of the trace file (SQLite) and its versions: made, checked and brought up to date when the file is opened.

Version 1: `runs`, one row each, values as JSON; `tags`, one row per tag of a run.
Version 2: `runs` begins with what lists and charts show (model, tokens, cost, session, first words); the long JSON is
last, so that a list does not read it. `forms` holds the form of each model or chain once; `scores`; `words`, a
full-text index, and in `indexed_to` and `unindexed` what it lacks.
Version 3: `status` and `interrupts` of a run that waits for a person, `incomplete`, `revision`, `config`,
`error_message`; `losses`, the runs that could not be written. A file of a newer version is refused.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from foldline._storage.sqlite import create_privately, schema_version, set_schema_version
from foldline.exceptions import StoreError
from foldline.tracers._columns import (
    COLUMNS,
    LOSSES_TABLE,
    NEW_IN_VERSION_3,
    UPSERT,
    VERSION,
    WAITING_INDEX,
    form_key,
)
from foldline.tracers._run_fields import describe_run

logger = logging.getLogger("foldline.tracers")

LOSSES = f"{LOSSES_TABLE.replace('DOUBLE PRECISION', 'REAL').replace('BIGINT', 'INTEGER')} STRICT"
SCHEMA = f"""
CREATE TABLE runs (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    trace_id TEXT NOT NULL,
    parent_run_id TEXT,
    name TEXT NOT NULL,
    run_type TEXT NOT NULL,
    start_time REAL NOT NULL,
    first_token_time REAL,
    end_time REAL,
    provider TEXT,
    model TEXT,
    input_tokens INTEGER,
    output_tokens INTEGER,
    total_tokens INTEGER,
    cost REAL,
    session_id TEXT,
    thread_id TEXT,
    user_id TEXT,
    error_class TEXT,
    status TEXT,
    incomplete INTEGER,
    question TEXT,
    answer TEXT,
    revision TEXT,
    config TEXT,
    usage TEXT,
    tags TEXT,
    error_message TEXT,
    interrupts TEXT,
    error TEXT,
    form TEXT,
    events TEXT,
    extra TEXT NOT NULL,
    inputs TEXT NOT NULL,
    outputs TEXT,
    request TEXT
) STRICT;
CREATE INDEX runs_by_trace ON runs (trace_id);
CREATE INDEX runs_by_time ON runs (start_time);
CREATE INDEX roots_by_time ON runs (start_time) WHERE parent_run_id IS NULL;
CREATE INDEX runs_by_error ON runs (start_time) WHERE error_class IS NOT NULL;
CREATE INDEX calls_by_model ON runs (
    model, start_time, end_time, first_token_time, input_tokens, output_tokens, cost, error_class
) WHERE model IS NOT NULL;
CREATE INDEX runs_by_thread ON runs (thread_id, start_time) WHERE thread_id IS NOT NULL;
CREATE INDEX runs_by_session ON runs (session_id, start_time) WHERE session_id IS NOT NULL;
CREATE INDEX runs_by_user ON runs (user_id, start_time) WHERE user_id IS NOT NULL;
CREATE INDEX runs_under_way ON runs (start_time) WHERE end_time IS NULL;
{WAITING_INDEX};
{LOSSES};
CREATE TABLE tags (
    tag TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (tag, run_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE forms (id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE scores (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value REAL,
    comment TEXT,
    author TEXT,
    time REAL NOT NULL
) STRICT;
CREATE INDEX scores_by_run ON scores (run_id);
CREATE TABLE unindexed (seq INTEGER PRIMARY KEY) STRICT;
CREATE TABLE indexed_to (seq INTEGER NOT NULL) STRICT;
INSERT INTO indexed_to VALUES (0);
"""
WORDS = "CREATE VIRTUAL TABLE words USING fts5 (text, content='', tokenize='unicode61 remove_diacritics 2')"
KIND = "traces"
PATIENCE_MS = 2_000
"""How long SQLite itself waits for another writer before it returns BUSY."""


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, make or check its schema; what cannot be is a `StoreError`.

    A file that may only be read is read; one of an older version is upgraded, so it must be writable.
    """
    try:
        create_privately(path)
        connection = _open(path)
    except sqlite3.Error as error:
        raise StoreError(f"{path}: cannot open the trace file: {error}") from error
    try:
        version = schema_version(connection, KIND)
        if version > VERSION:
            raise StoreError(
                f"{path}: the traces are of version {version} and this foldline writes version {VERSION}: "
                "upgrade foldline"
            )
        connection.execute("PRAGMA synchronous = NORMAL")
        if version < VERSION:
            _upgrade(connection, path)
    except sqlite3.Error as error:
        connection.close()
        if "readonly" in str(error):
            raise StoreError(
                f"{path}: the file may only be read, and has no traces of version {VERSION}: make it writable, "
                "or copy it, to have it upgraded"
            ) from error
        raise StoreError(f"{path}: no file of traces: {error}") from error
    except StoreError:
        connection.close()
        raise
    return connection


def _open(path: Path) -> sqlite3.Connection:
    connection = _connect(path)
    try:
        connection.execute("SELECT 1 FROM sqlite_master")
    except sqlite3.OperationalError as error:
        connection.close()
        if not any(word in str(error) for word in ("readonly", "unable to open")):
            raise
        # In a folder where nothing can be written SQLite cannot make the file by which readers and writers agree.
        connection = _connect(f"{path.absolute().as_uri()}?immutable=1")
    except sqlite3.DatabaseError:  # no database at all, as the caller finds
        return connection
    return connection


def _connect(path: str | Path) -> sqlite3.Connection:
    return sqlite3.connect(
        path,
        timeout=PATIENCE_MS / 1000,
        isolation_level=None,
        check_same_thread=False,
        uri=isinstance(path, str),
    )


def _upgrade(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = schema_version(connection, KIND)  # another process may have been first
        if version == 0:
            _make(connection)
        for step in MIGRATIONS[version : VERSION if version else 0]:
            if step is not None:
                step(connection, path)
        set_schema_version(connection, KIND, VERSION)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _make(connection: sqlite3.Connection) -> None:
    for statement in _statements(SCHEMA):
        connection.execute(statement)
    try:
        connection.execute(WORDS)
    except sqlite3.OperationalError as error:
        if "fts5" not in str(error):
            raise
        logger.info("this SQLite has no full-text index: a search reads every run")


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


# -- version 1 to 2


def _second_version(connection: sqlite3.Connection, path: Path) -> None:
    logger.info("%s: bringing the traces from version 1 to version 2", path)
    for index in ("runs_by_trace", "runs_by_time", "roots_by_time", "runs_by_error"):
        connection.execute(f"DROP INDEX IF EXISTS {index}")
    connection.execute("ALTER TABLE runs RENAME TO runs_1")
    connection.execute("ALTER TABLE tags RENAME TO tags_1")
    _make(connection)
    reader = connection.execute(
        "SELECT id, trace_id, parent_run_id, name, run_type, start_time, first_token_time, end_time, input_tokens, "
        "output_tokens, total_tokens, error, inputs, outputs, serialized, extra, tags, events FROM runs_1 "
        "ORDER BY start_time, dotted_order"
    )
    while rows := reader.fetchmany(500):
        connection.executemany(UPSERT, [_row_from_version_1(connection, row) for row in rows])
    connection.execute("INSERT OR IGNORE INTO tags (tag, run_id) SELECT tag, run_id FROM tags_1")
    connection.execute("DROP TABLE tags_1")
    connection.execute("DROP TABLE runs_1")


def _row_from_version_1(connection: sqlite3.Connection, row: tuple[Any, ...]) -> tuple[Any, ...]:
    names = (
        "id", "trace_id", "parent_run_id", "name", "run_type", "start_time", "first_token_time", "end_time",
        "input_tokens", "output_tokens", "total_tokens", "error", "inputs", "outputs", "serialized", "extra", "tags",
        "events",
    )  # fmt: skip
    values = dict(zip(names, row, strict=True))
    form = values.pop("serialized")
    if form is not None:
        key = form_key(form)
        connection.execute("INSERT OR IGNORE INTO forms (id, body) VALUES (?, ?)", (key, form))
        values["form"] = key
    loaded = {name: _loaded(values[name]) for name in ("inputs", "outputs", "extra")}
    facts = describe_run(values["run_type"], loaded["inputs"], loaded["outputs"], loaded["extra"])
    facts = {name: value for name, value in facts.items() if values.get(name) is None}
    if values["error"]:
        facts["error_class"] = values["error"].split("(", 1)[0].strip()[:200] or "Exception"
    values |= facts
    return tuple(values.get(name) for name in COLUMNS)


def _loaded(text: str | None) -> object:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):  # a damaged row is carried over as it is
        return None


# -- version 2 to 3


def _third_version(connection: sqlite3.Connection, path: Path) -> None:
    columns = {row[1] for row in connection.execute("PRAGMA table_info(runs)")}
    if "status" in columns:  # made anew on the way from version 1
        return
    logger.info("%s: bringing the traces from version 2 to version 3", path)
    for name, kind in NEW_IN_VERSION_3:
        connection.execute(f"ALTER TABLE runs ADD COLUMN {name} {kind}")
    connection.execute(WAITING_INDEX)
    connection.execute(LOSSES)


MIGRATIONS: tuple[Callable[[sqlite3.Connection, Path], None] | None, ...] = (
    None,
    _second_version,
    _third_version,
)
"""From version n to n + 1, by n; there is no version 0."""
