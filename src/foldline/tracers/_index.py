"""The full-text index: filled in steps, and cleaned of what is deleted. A database knows how it is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic_core import from_json

from foldline.tracers._database import Session, Statements, TraceDatabase, marks
from foldline.tracers._run_fields import search_text

__all__ = ["index_words", "unindex"]

STEP = 500
"""Runs of one transaction."""


def index_words(database: TraceDatabase, session: Session) -> None:
    """Put the words of all runs that ended since the last time into the index."""

    def needs_index(statements: Statements) -> bool:
        return database.has_index(statements) and _is_behind(statements)

    while session.read(needs_index):
        if session.write(lambda statements: _index_some(database, statements)):
            return


def _is_behind(statements: Statements) -> bool:
    newest, indexed = statements.execute(
        "SELECT (SELECT max(seq) FROM runs), (SELECT seq FROM indexed_to)"
    ).fetchone()
    if (newest or 0) > indexed:
        return True
    return statements.execute("SELECT 1 FROM unindexed LIMIT 1").fetchone() is not None


def _index_some(database: TraceDatabase, statements: Statements) -> bool:
    """Index runs that were written since, and those that ended after they were passed by; return whether all are."""
    (reached,) = statements.execute("SELECT seq FROM indexed_to").fetchone()
    new = statements.execute(
        "SELECT seq, end_time FROM runs WHERE seq > ? ORDER BY seq LIMIT ?", (reached, STEP)
    ).fetchall()
    late = [row[0] for row in statements.execute("SELECT seq FROM unindexed LIMIT ?", (STEP,))]
    ended = [seq for seq, end in new if end is not None]
    database.add_words(statements, _read_texts(statements, sorted({*ended, *late})))
    statements.executemany("DELETE FROM unindexed WHERE seq = ?", [(seq,) for seq in late])
    if new:
        statements.execute("UPDATE indexed_to SET seq = ?", (new[-1][0],))
    return len(new) < STEP and len(late) < STEP


def unindex(database: TraceDatabase, statements: Statements, seqs: list[int]) -> None:
    """Take the words of runs out of the index, inside a transaction and before the runs are deleted."""
    if not seqs or not database.has_index(statements):
        return
    (reached,) = statements.execute("SELECT seq FROM indexed_to").fetchone()
    query = f"SELECT seq FROM unindexed WHERE seq IN ({marks(seqs)})"
    late = {row[0] for row in statements.execute(query, seqs)}
    indexed = [seq for seq in seqs if seq <= reached and seq not in late]
    database.remove_words(statements, _read_texts(statements, indexed))
    statements.executemany("DELETE FROM unindexed WHERE seq = ?", [(seq,) for seq in late])


def _read_texts(statements: Statements, seqs: list[int]) -> Iterator[tuple[int, str]]:
    """Return the texts of runs that have ended."""
    if not seqs:
        return
    rows = statements.execute(
        "SELECT seq, name, inputs, outputs, error FROM runs "
        f"WHERE seq IN ({marks(seqs)}) AND end_time IS NOT NULL",
        seqs,
    ).fetchall()
    for seq, name, inputs, outputs, error in rows:
        words = search_text(name, _load_json(inputs), _load_json(outputs), error)
        yield seq, words.encode("utf-8", "replace").decode()


def _load_json(text: str | None) -> object:
    if not text:
        return None
    try:
        return from_json(text)  # in a third of the time of `json`, but it refuses half characters
    except ValueError:
        pass
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
