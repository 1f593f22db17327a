"""The full-text index of the trace file: brought up to date in steps, and cleaned of what is deleted.

The index keeps no text of its own: what a run said is found again in its row, also to take it out.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable
from typing import Any

from foldline.tracers._facts import search_text

__all__ = ["has_index", "index_words", "match_expression", "unindex"]

STEP = 500
"""Runs of one transaction."""
READ = "SELECT seq, name, inputs, outputs, error FROM runs WHERE seq IN ({marks})"
WORD = re.compile(r"\w+", re.UNICODE)


def has_index(connection: sqlite3.Connection) -> bool:
    """Whether the file has a full-text index (SQLite may be built without)."""
    known = "SELECT 1 FROM sqlite_master WHERE name = 'words'"
    return connection.execute(known).fetchone() is not None


def index_words(connection: sqlite3.Connection) -> None:
    """Put the words of all runs that ended since the last time into the index."""
    if not has_index(connection):
        return
    while _needs_index(connection):
        connection.execute("BEGIN IMMEDIATE")
        try:
            done = _index_some(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        if done:
            return


def _needs_index(connection: sqlite3.Connection) -> bool:
    newest, indexed = connection.execute(
        "SELECT (SELECT max(seq) FROM runs), (SELECT seq FROM indexed_to)"
    ).fetchone()
    if (newest or 0) > indexed:
        return True
    return connection.execute("SELECT 1 FROM unindexed LIMIT 1").fetchone() is not None


def _index_some(connection: sqlite3.Connection) -> bool:
    """Index runs that were written since, and those that ended after they were passed by; say whether that is all."""
    (reached,) = connection.execute("SELECT seq FROM indexed_to").fetchone()
    new = connection.execute(
        "SELECT seq, end_time FROM runs WHERE seq > ? ORDER BY seq LIMIT ?", (reached, STEP)
    ).fetchall()
    late = [seq for (seq,) in connection.execute("SELECT seq FROM unindexed LIMIT ?", (STEP,))]
    ended = [seq for seq, end in new if end is not None]
    rows = _read(connection, sorted({*ended, *late}), ended=True)
    connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", map(_text, rows))
    connection.executemany("DELETE FROM unindexed WHERE seq = ?", [(seq,) for seq in late])
    if new:
        connection.execute("UPDATE indexed_to SET seq = ?", (new[-1][0],))
    return len(new) < STEP and len(late) < STEP


def unindex(connection: sqlite3.Connection, seqs: list[int]) -> None:
    """Take the words of runs out of the index, inside a transaction and before the runs are deleted."""
    if not has_index(connection):
        return
    (reached,) = connection.execute("SELECT seq FROM indexed_to").fetchone()
    late = {
        seq
        for (seq,) in connection.execute(
            f"SELECT seq FROM unindexed WHERE seq IN ({_marks(seqs)})", seqs
        )
    }
    indexed = [seq for seq in seqs if seq <= reached and seq not in late]
    connection.executemany(
        "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)",
        map(_text, _read(connection, indexed, ended=True)),
    )
    connection.executemany("DELETE FROM unindexed WHERE seq = ?", [(seq,) for seq in late])


def _read(
    connection: sqlite3.Connection, seqs: list[int], *, ended: bool = False
) -> list[tuple[Any, ...]]:
    statement = READ.format(marks=_marks(seqs))
    if ended:
        statement += " AND end_time IS NOT NULL"
    return connection.execute(statement, seqs).fetchall()


def _marks(values: Iterable[Any]) -> str:
    return ", ".join("?" for _ in values)


def _text(row: tuple[Any, ...]) -> tuple[int, str]:
    seq, name, inputs, outputs, error = row
    words = search_text(name, _loaded(inputs), _loaded(outputs), error)
    return seq, words.encode("utf-8", "replace").decode()


def _loaded(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


def match_expression(query: str) -> str | None:
    """Return what FTS5 looks for: all words of a query, the last by its beginning, phrases in quotes as they are."""
    terms: list[str] = []
    for phrase, rest in re.findall(r'"([^"]+)"|([^"]+)', query):
        if phrase:
            if words := WORD.findall(phrase):
                terms.append(f'"{" ".join(words)}"')
        else:
            terms += [f'"{word}"' for word in WORD.findall(rest)]
    if not terms:
        return None
    if not query.rstrip().endswith('"'):
        terms[-1] += "*"
    return " ".join(terms)
