"""The columns of a run, and the statements that write them: the same in SQLite and in PostgreSQL."""

from __future__ import annotations

__all__ = [
    "COLUMNS",
    "CONTENT",
    "ENDS",
    "END_RUN",
    "LATE",
    "SUMMARY",
    "UPSERT",
    "VERSION",
    "form_key",
]

VERSION = 2
SUMMARY = (
    "seq", "id", "trace_id", "parent_run_id", "name", "run_type", "start_time", "first_token_time", "end_time",
    "provider", "model", "input_tokens", "output_tokens", "total_tokens", "cost", "session_id", "thread_id", "user_id",
    "error_class", "question", "answer",
)  # fmt: skip
"""The short columns: what a list shows."""
CONTENT = (
    "usage", "tags", "error", "form", "events", "extra", "inputs", "outputs", "request",
)  # fmt: skip
"""The long columns."""
COLUMNS = (*SUMMARY[1:], *CONTENT)
"""What is written of a run."""
ENDS = (
    "first_token_time", "end_time", "provider", "model", "input_tokens", "output_tokens", "total_tokens", "cost",
    "error_class", "answer", "usage", "error", "events", "outputs", "request",
)  # fmt: skip
"""What is known only when a run has ended."""

UPSERT = (
    f"INSERT INTO runs ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))}) "
    f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in COLUMNS[1:])}"
)
END_RUN = f"UPDATE runs SET {', '.join(f'{name} = ?' for name in ENDS)} WHERE id = ?"
LATE = (
    "INSERT INTO unindexed SELECT seq FROM runs WHERE id = ? AND seq <= (SELECT seq FROM indexed_to) "
    "ON CONFLICT DO NOTHING"
)
"""Note that a run ended after the full-text index had passed it by."""


def form_key(body: str) -> str:
    """Return the key under which the form of a model or chain is kept."""
    from hashlib import sha256  # noqa: PLC0415  most files hold a handful of forms

    return sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:24]
