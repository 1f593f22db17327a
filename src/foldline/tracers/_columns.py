"""The columns of a run, and the statements that write them."""

from __future__ import annotations

__all__ = [
    "ADD_LOSS",
    "COLUMNS",
    "CONTENT",
    "ENDS",
    "END_RUN",
    "LATE",
    "MARK_INCOMPLETE",
    "SUMMARY",
    "UPSERT",
    "WAITING",
    "form_key",
]

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
COLUMNS = (*SUMMARY[1:], *CONTENT)
"""What is written of a run."""
ENDS = (
    "first_token_time", "end_time", "provider", "model", "input_tokens", "output_tokens", "total_tokens", "cost",
    "error_class", "status", "answer", "usage", "error_message", "interrupts", "error", "events", "outputs", "request",
)  # fmt: skip
"""What is known only when a run has ended."""

REWRITTEN = [name for name in COLUMNS[1:] if name != "incomplete"]
UPSERT = (
    f"INSERT INTO foldline_runs ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))}) "
    f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in REWRITTEN)}"
)
END_RUN = f"UPDATE foldline_runs SET {', '.join(f'{name} = ?' for name in ENDS)} WHERE id = ?"
LATE = (
    "INSERT INTO foldline_unindexed_runs SELECT seq FROM foldline_runs WHERE id = ? "
    "AND seq <= (SELECT seq FROM foldline_indexed_to) ON CONFLICT DO NOTHING"
)
"""Note that a run ended after the full-text index had passed it by."""
MARK_INCOMPLETE = "UPDATE foldline_runs SET incomplete = 1 WHERE id = ?"
ADD_LOSS = "INSERT INTO foldline_run_losses (start_time, end_time, runs) VALUES (?, ?, ?)"


def form_key(body: str) -> str:
    """Return the key under which the form of a model or chain is kept."""
    from hashlib import sha256  # noqa: PLC0415  most files hold a handful of forms

    return sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:24]
