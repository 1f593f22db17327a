"""Fills the full-text index in steps, and cleans it of what is deleted."""

from __future__ import annotations

import json

from pydantic_core import from_json

from foldline._storage.database import Connection
from foldline.tracers._database import TraceDatabase, marks, read_value
from foldline.tracers._run_fields import search_text
from foldline.tracers._text_index import TextIndex

__all__ = ["index_words", "turn_back", "unindex"]

STEP = 500
"""Runs of one transaction."""
REACHED = "SELECT seq FROM foldline_indexed_to"
PASS = "DELETE FROM foldline_unindexed_runs WHERE seq = ?"


def index_words(database: TraceDatabase) -> None:
    """Put the words of all runs that ended since the last time into the index."""
    index = database.index

    def needs_index(connection: Connection) -> bool:
        return index.exists(connection) and _is_behind(connection)

    while database.read(needs_index):
        if database.write(lambda connection: _index_some(index, connection)):
            return


def _is_behind(connection: Connection) -> bool:
    query = "SELECT (SELECT max(seq) FROM foldline_runs), (SELECT seq FROM foldline_indexed_to)"
    [(newest, indexed)] = connection.rows(query)
    if (newest or 0) > indexed:
        return True
    return connection.row("SELECT 1 FROM foldline_unindexed_runs LIMIT 1") is not None


def _index_some(index: TextIndex, connection: Connection) -> bool:
    """Index runs that were written since, and those that ended after they were passed by; return whether all are."""
    reached = read_value(connection, REACHED)
    new = connection.rows(
        "SELECT seq, end_time FROM foldline_runs WHERE seq > ? ORDER BY seq LIMIT ?",
        (reached, STEP),
    )
    rows = connection.rows("SELECT seq FROM foldline_unindexed_runs LIMIT ?", (STEP,))
    late = [row[0] for row in rows]
    ended = [seq for seq, end in new if end is not None]
    index.add(connection, _read_texts(connection, sorted({*ended, *late})))
    connection.each(PASS, [(seq,) for seq in late])
    if new:
        connection.run("UPDATE foldline_indexed_to SET seq = ?", (new[-1][0],))
    return len(new) < STEP and len(late) < STEP


def unindex(index: TextIndex, connection: Connection, seqs: list[int]) -> None:
    """Take the words of runs out of the index, inside a transaction and before the runs are deleted."""
    if not seqs or not index.exists(connection):
        return
    reached = read_value(connection, REACHED)
    query = f"SELECT seq FROM foldline_unindexed_runs WHERE seq IN ({marks(seqs)})"
    late = {row[0] for row in connection.rows(query, seqs)}
    indexed = [seq for seq in seqs if seq <= reached and seq not in late]
    index.remove(connection, _read_texts(connection, indexed))
    connection.each(PASS, [(seq,) for seq in late])


def turn_back(connection: Connection) -> None:
    """Have the index go on after the newest run, inside a transaction and after runs were deleted.

    SQLite gives the number of a deleted newest run to the next one, which would count as indexed.
    """
    newest = read_value(connection, "SELECT coalesce(max(seq), 0) FROM foldline_runs")
    connection.run("UPDATE foldline_indexed_to SET seq = ? WHERE seq > ?", (newest, newest))


def _read_texts(connection: Connection, seqs: list[int]) -> list[tuple[int, str]]:
    """Return the texts of runs that have ended."""
    if not seqs:
        return []
    rows = connection.rows(
        "SELECT seq, name, inputs, outputs, error FROM foldline_runs "
        f"WHERE seq IN ({marks(seqs)}) AND end_time IS NOT NULL",
        seqs,
    )
    texts = []
    for seq, name, inputs, outputs, error in rows:
        words = search_text(name, _load_json(inputs), _load_json(outputs), error)
        texts.append((seq, words.encode("utf-8", "replace").decode()))
    return texts


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
