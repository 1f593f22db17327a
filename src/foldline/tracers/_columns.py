"""The columns of a run, and the statements that write them: the same in SQLite and in PostgreSQL."""

from __future__ import annotations

__all__ = [
    "ADD_LOSS",
    "COLUMNS",
    "CONTENT",
    "ENDS",
    "END_RUN",
    "LATE",
    "LOSSES_TABLE",
    "MARK_INCOMPLETE",
    "NEW_IN_VERSION_3",
    "SUMMARY",
    "UPSERT",
    "VERSION",
    "WAITING",
    "WAITING_INDEX",
    "form_key",
]

VERSION = 3
SUMMARY = (
    "seq", "id", "trace_id", "parent_run_id", "name", "run_type", "start_time", "first_token_time", "end_time",
    "provider", "model", "input_tokens", "output_tokens", "total_tokens", "cost", "session_id", "thread_id", "user_id",
    "error_class", "status", "incomplete", "question", "answer",
)  # fmt: skip
"""The short columns: what a list shows."""
CONTENT = (
    "revision", "config", "usage", "tags", "error_message", "interrupts", "error", "form", "events", "extra", "inputs",
    "outputs", "request",
)  # fmt: skip
"""The long columns."""
WAITING = "waiting"
"""The status of a run that ended with questions to a person; other runs have none."""
NEW_IN_VERSION_3 = (
    ("status", "TEXT"), ("incomplete", "INTEGER"), ("revision", "TEXT"), ("config", "TEXT"), ("error_message", "TEXT"),
    ("interrupts", "TEXT"),
)  # fmt: skip
"""Columns that a file of version 2 gets, and their types in both databases."""
LOSSES_TABLE = """CREATE TABLE losses (
    start_time DOUBLE PRECISION NOT NULL,
    end_time DOUBLE PRECISION NOT NULL,
    runs BIGINT NOT NULL
)"""
"""Times in which runs were lost, and how many: written when the store can be written again."""
WAITING_INDEX = "CREATE INDEX runs_that_wait ON runs (start_time) WHERE status IS NOT NULL"
COLUMNS = (*SUMMARY[1:], *CONTENT)
"""What is written of a run."""
ENDS = (
    "first_token_time", "end_time", "provider", "model", "input_tokens", "output_tokens", "total_tokens", "cost",
    "error_class", "status", "answer", "usage", "error_message", "interrupts", "error", "events", "outputs", "request",
)  # fmt: skip
"""What is known only when a run has ended."""

REWRITTEN = [name for name in COLUMNS[1:] if name != "incomplete"]
UPSERT = (
    f"INSERT INTO runs ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))}) "
    f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in REWRITTEN)}"
)
END_RUN = f"UPDATE runs SET {', '.join(f'{name} = ?' for name in ENDS)} WHERE id = ?"
LATE = (
    "INSERT INTO unindexed SELECT seq FROM runs WHERE id = ? AND seq <= (SELECT seq FROM indexed_to) "
    "ON CONFLICT DO NOTHING"
)
"""Note that a run ended after the full-text index had passed it by."""
MARK_INCOMPLETE = "UPDATE runs SET incomplete = 1 WHERE id = ?"
ADD_LOSS = "INSERT INTO losses (start_time, end_time, runs) VALUES (?, ?, ?)"


def form_key(body: str) -> str:
    """Return the key under which the form of a model or chain is kept."""
    from hashlib import sha256  # noqa: PLC0415  most files hold a handful of forms

    return sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:24]
