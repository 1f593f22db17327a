"""The tables of traces, and how those of older versions become them.

Version 1: `runs`, one row each, values as JSON; `tags`, one row per tag of a run.
Version 2: `runs` begins with what lists and charts show (model, tokens, cost, session, first words); the long JSON is
last, so that a list does not read it. `forms` holds the form of each model or chain once; `scores`; `words`, a
full-text index, and in `indexed_to` and `unindexed` what it lacks. The first in PostgreSQL, where the tables lie in a
schema `foldline_traces`.
Version 3: `status` and `interrupts` of a run that waits for a person, `incomplete`, `revision`, `config`,
`error_message`; `losses`, the runs that could not be written.
Version 4: names that begin with `foldline_`, in PostgreSQL in the schema where all tables of foldline lie.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from typing import Any, Final

from foldline._storage.database import Connection, Row
from foldline._storage.schema import LockNumber, Schema, Upgrade, run_script
from foldline.tracers._columns import form_key
from foldline.tracers._run_fields import describe_run

__all__ = ["SCHEMA"]

logger = logging.getLogger("foldline.tracers")

TABLES: Final = """
CREATE TABLE foldline_runs (
    seq {next_number},
    id TEXT NOT NULL UNIQUE,
    trace_id TEXT NOT NULL,
    parent_run_id TEXT,
    name TEXT NOT NULL,
    run_type TEXT NOT NULL,
    start_time {real} NOT NULL,
    first_token_time {real},
    end_time {real},
    provider TEXT,
    model TEXT,
    input_tokens {big},
    output_tokens {big},
    total_tokens {big},
    cost {real},
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
){strict};
CREATE TABLE foldline_run_tags (
    tag TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (tag, run_id)
){strict_keyed};
CREATE TABLE foldline_run_forms (id TEXT PRIMARY KEY, body TEXT NOT NULL){strict_keyed};
CREATE TABLE foldline_run_scores (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES foldline_runs (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value {real},
    comment TEXT,
    author TEXT,
    time {real} NOT NULL
){strict};
CREATE TABLE foldline_run_losses (start_time {real} NOT NULL, end_time {real} NOT NULL, runs {big} NOT NULL){strict};
CREATE TABLE foldline_unindexed_runs (seq {row_number}){strict};
CREATE TABLE foldline_indexed_to (seq {big} NOT NULL){strict};
INSERT INTO foldline_indexed_to VALUES (0);
"""
INDEXES: Final = """
CREATE INDEX foldline_runs_by_trace ON foldline_runs (trace_id);
CREATE INDEX foldline_runs_by_time ON foldline_runs (start_time);
CREATE INDEX foldline_roots_by_time ON foldline_runs (start_time) WHERE parent_run_id IS NULL;
CREATE INDEX foldline_runs_by_error ON foldline_runs (start_time) WHERE error_class IS NOT NULL;
CREATE INDEX foldline_runs_by_thread ON foldline_runs (thread_id, start_time) WHERE thread_id IS NOT NULL;
CREATE INDEX foldline_runs_by_session ON foldline_runs (session_id, start_time) WHERE session_id IS NOT NULL;
CREATE INDEX foldline_runs_by_user ON foldline_runs (user_id, start_time) WHERE user_id IS NOT NULL;
CREATE INDEX foldline_runs_under_way ON foldline_runs (start_time) WHERE end_time IS NULL;
CREATE INDEX foldline_runs_that_wait ON foldline_runs (start_time) WHERE status IS NOT NULL;
CREATE INDEX foldline_scores_by_run ON foldline_run_scores (run_id);
"""
SQLITE_INDEX: Final = """
CREATE INDEX foldline_calls_by_model ON foldline_runs (
    model, start_time, end_time, first_token_time, input_tokens, output_tokens, cost, error_class
) WHERE model IS NOT NULL
"""
SQLITE_WORDS: Final = (
    "CREATE VIRTUAL TABLE foldline_run_words USING fts5 "
    "(text, content='', tokenize='unicode61 remove_diacritics 2')"
)
POSTGRES_OWN: Final = """
CREATE INDEX foldline_calls_by_model ON foldline_runs (model, start_time) INCLUDE
    (end_time, first_token_time, input_tokens, output_tokens, cost, error_class) WHERE model IS NOT NULL;
CREATE TABLE foldline_run_words (seq BIGINT PRIMARY KEY, lexemes TSVECTOR NOT NULL);
CREATE INDEX foldline_words_by_lexeme ON foldline_run_words USING gin (lexemes)
"""


def _create_own(connection: Connection) -> None:
    run_script(connection, SQLITE_INDEX)
    _create_words(connection, SQLITE_WORDS)


def _create_words(connection: Connection, statement: str) -> None:
    try:
        connection.run(statement)
    except sqlite3.OperationalError as error:
        if "fts5" not in str(error):
            raise
        logger.info("this SQLite has no full-text index: a search reads every run")


# -- version 1 to 2, which only files have

SECOND_COLUMNS: Final = (
    "id", "trace_id", "parent_run_id", "name", "run_type", "start_time", "first_token_time", "end_time", "provider",
    "model", "input_tokens", "output_tokens", "total_tokens", "cost", "session_id", "thread_id", "user_id",
    "error_class", "question", "answer", "usage", "tags", "error", "form", "events", "extra", "inputs", "outputs",
    "request",
)  # fmt: skip
FIRST_COLUMNS: Final = (
    "id", "trace_id", "parent_run_id", "name", "run_type", "start_time", "first_token_time", "end_time",
    "input_tokens", "output_tokens", "total_tokens", "error", "inputs", "outputs", "serialized", "extra", "tags",
    "events",
)  # fmt: skip
SECOND_TABLES: Final = """
ALTER TABLE runs RENAME TO foldline_runs_1;
ALTER TABLE tags RENAME TO foldline_tags_1;
CREATE TABLE runs (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, trace_id TEXT NOT NULL, parent_run_id TEXT, name TEXT NOT NULL,
    run_type TEXT NOT NULL, start_time REAL NOT NULL, first_token_time REAL, end_time REAL, provider TEXT, model TEXT,
    input_tokens INTEGER, output_tokens INTEGER, total_tokens INTEGER, cost REAL, session_id TEXT, thread_id TEXT,
    user_id TEXT, error_class TEXT, question TEXT, answer TEXT, usage TEXT, tags TEXT, error TEXT, form TEXT,
    events TEXT, extra TEXT NOT NULL, inputs TEXT NOT NULL, outputs TEXT, request TEXT
) STRICT;
CREATE TABLE tags (tag TEXT NOT NULL, run_id TEXT NOT NULL, PRIMARY KEY (tag, run_id)) STRICT, WITHOUT ROWID;
CREATE TABLE forms (id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE scores (
    id TEXT PRIMARY KEY, run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, name TEXT NOT NULL, value REAL,
    comment TEXT, author TEXT, time REAL NOT NULL
) STRICT;
CREATE TABLE unindexed (seq INTEGER PRIMARY KEY) STRICT;
CREATE TABLE indexed_to (seq INTEGER NOT NULL) STRICT;
INSERT INTO indexed_to VALUES (0)
"""
"""Without indexes, which version 4 makes anew."""


def _second_version(connection: Connection) -> None:
    run_script(connection, SECOND_TABLES)
    _create_words(connection, SQLITE_WORDS.replace("foldline_run_words", "words"))
    marks = ", ".join("?" * len(SECOND_COLUMNS))
    insert = f"INSERT INTO runs ({', '.join(SECOND_COLUMNS)}) VALUES ({marks})"
    query = (
        f"SELECT {', '.join(FIRST_COLUMNS)} FROM foldline_runs_1 ORDER BY start_time, dotted_order"
    )
    for page in connection.pages(query, size=500):
        connection.each(insert, [_row_from_version_1(connection, row) for row in page])
    run_script(
        connection,
        "INSERT OR IGNORE INTO tags (tag, run_id) SELECT tag, run_id FROM foldline_tags_1;"
        "DROP TABLE foldline_tags_1; DROP TABLE foldline_runs_1",
    )


def _row_from_version_1(connection: Connection, row: Row) -> Row:
    values = dict(zip(FIRST_COLUMNS, row, strict=True))
    form = values.pop("serialized")
    if form is not None:
        values["form"] = form_key(form)
        connection.run("INSERT OR IGNORE INTO forms VALUES (?, ?)", (values["form"], form))
    loaded = {name: _loaded(values[name]) for name in ("inputs", "outputs", "extra")}
    facts = describe_run(values["run_type"], loaded["inputs"], loaded["outputs"], loaded["extra"])
    facts = {name: value for name, value in facts.items() if values.get(name) is None}
    if values["error"]:
        facts["error_class"] = values["error"].split("(", 1)[0].strip()[:200] or "Exception"
    values |= facts
    return tuple(values.get(name) for name in SECOND_COLUMNS)


def _loaded(text: str | None) -> Any:  # noqa: ANN401  JSON
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):  # a damaged row is carried over as it is
        return None


# -- version 2 to 3

SQLITE_THIRD: Final = """
ALTER TABLE runs ADD COLUMN status TEXT;
ALTER TABLE runs ADD COLUMN incomplete INTEGER;
ALTER TABLE runs ADD COLUMN revision TEXT;
ALTER TABLE runs ADD COLUMN config TEXT;
ALTER TABLE runs ADD COLUMN error_message TEXT;
ALTER TABLE runs ADD COLUMN interrupts TEXT;
CREATE TABLE losses (start_time REAL NOT NULL, end_time REAL NOT NULL, runs INTEGER NOT NULL) STRICT
"""
POSTGRES_THIRD: Final = """
ALTER TABLE foldline_traces.runs ADD COLUMN status TEXT, ADD COLUMN incomplete INTEGER, ADD COLUMN revision TEXT,
    ADD COLUMN config TEXT, ADD COLUMN error_message TEXT, ADD COLUMN interrupts TEXT;
CREATE INDEX runs_that_wait ON foldline_traces.runs (start_time) WHERE status IS NOT NULL;
CREATE TABLE foldline_traces.losses (
    start_time DOUBLE PRECISION NOT NULL, end_time DOUBLE PRECISION NOT NULL, runs BIGINT NOT NULL
)
"""

# -- version 3 to 4

NEW_NAMES: Final = {
    "runs": "foldline_runs",
    "tags": "foldline_run_tags",
    "forms": "foldline_run_forms",
    "scores": "foldline_run_scores",
    "losses": "foldline_run_losses",
    "unindexed": "foldline_unindexed_runs",
    "indexed_to": "foldline_indexed_to",
    "words": "foldline_run_words",
}
OLD_INDEXES: Final = (
    "runs_by_trace", "runs_by_time", "roots_by_time", "runs_by_error", "calls_by_model", "runs_by_thread",
    "runs_by_session", "runs_by_user", "runs_under_way", "runs_that_wait", "scores_by_run",
)  # fmt: skip
KEYED: Final = ("runs", "tags", "forms", "scores", "unindexed", "words")
"""Old names of PostgreSQL tables that have a primary key."""
OURS: Final = (
    "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name IN ('runs', 'scores')"
)
HAS_WORDS: Final = (
    "SELECT 1 FROM sqlite_master WHERE name = 'words' AND sql LIKE 'CREATE VIRTUAL TABLE%'"
)


def _rename_in_file(connection: Connection) -> None:
    for (index,) in connection.rows(OURS):
        if index in OLD_INDEXES:
            connection.run(f"DROP INDEX {index}")
    has_words = connection.row(HAS_WORDS) is not None  # SQLite may be built without
    for old, new in NEW_NAMES.items():
        if old != "words" or has_words:
            connection.run(f"ALTER TABLE {old} RENAME TO {new}")
    run_script(connection, INDEXES + SQLITE_INDEX)


def _move_in_postgres(connection: Connection) -> None:
    # Older writers hold this number: once it is ours, no batch of theirs is half written.
    connection.run("SELECT pg_advisory_xact_lock(?)", (int(LockNumber.TRACES),))
    [(schema,)] = connection.rows("SELECT quote_ident(current_schema())")
    moved = "foldline_traces"
    for name in OLD_INDEXES:
        connection.run(f"ALTER INDEX {moved}.{name} RENAME TO foldline_{name}")
    for name in KEYED:
        connection.run(f"ALTER INDEX {moved}.{name}_pkey RENAME TO {NEW_NAMES[name]}_pkey")
    run_script(
        connection,
        f"""
        ALTER INDEX {moved}.words_by_lexeme RENAME TO foldline_words_by_lexeme;
        ALTER INDEX {moved}.runs_id_key RENAME TO foldline_runs_id_key;
        ALTER SEQUENCE {moved}.runs_seq_seq RENAME TO foldline_runs_seq_seq;
        ALTER TABLE {moved}.scores RENAME CONSTRAINT scores_run_id_fkey TO foldline_run_scores_run_id_fkey
        """,
    )
    for old, new in NEW_NAMES.items():
        connection.run(f"ALTER TABLE {moved}.{old} RENAME TO {new}")
        connection.run(f"ALTER TABLE {moved}.{new} SET SCHEMA {schema}")
    # The old table of the version stays: an older foldline reads it, and refuses to go on.
    connection.run(f"UPDATE {moved}.foldline_schema SET version = 4")


def _version_in_old_schema(connection: Connection) -> int:
    query = "SELECT 1 FROM pg_tables WHERE schemaname = 'foldline_traces' AND tablename = 'runs'"
    if connection.row(query) is None:
        return 0
    [(version,)] = connection.rows("SELECT version FROM foldline_traces.foldline_schema")
    return int(version)


SCHEMA: Final = Schema(
    kind="traces",
    # Without `foldline_run_words`, which is no data, and which not every SQLite can have.
    tables=tuple(name for name in NEW_NAMES.values() if name != "foldline_run_words"),
    create=TABLES + INDEXES,
    create_own=Upgrade(sqlite=_create_own, postgres=POSTGRES_OWN),
    upgrades=(
        Upgrade(sqlite=_second_version),
        Upgrade(sqlite=SQLITE_THIRD, postgres=POSTGRES_THIRD),
        Upgrade(sqlite=_rename_in_file, postgres=_move_in_postgres),
    ),
    find_elsewhere=_version_in_old_schema,
)
