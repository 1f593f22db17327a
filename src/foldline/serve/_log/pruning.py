"""Deletion of old runs: by their end, whole chains together, and none that is under way or waits for a person."""

from __future__ import annotations

from typing import Final

from foldline._storage.database import Connection, Row
from foldline._storage.schema import LockNumber
from foldline.serve._log.answers import delete_answers
from foldline.serve._log.requests import delete_requests

__all__ = ["RUNS_AT_ONCE", "delete_rows", "prune"]

RUNS_AT_ONCE: Final = 500
"""The most chains of one transaction: others write between two."""
LAST_RUNS: Final = """
SELECT id, coalesce(root, id) FROM serve_runs LEFT JOIN serve_chains ON run = id
WHERE finished < ? AND (
    (status NOT IN ('running', 'queued', 'waiting') AND finished < ?) OR (status = 'waiting' AND finished < ?)
) AND NOT EXISTS (SELECT 1 FROM serve_chains AS later WHERE later.resumes = serve_runs.id)
ORDER BY finished LIMIT ?
"""
"""The last runs of chains, which decide for all of it; a run that nobody continued is a chain by itself."""
CHAIN: Final = "SELECT run FROM serve_chains WHERE root = ?"
DELETE_RUN: Final = (
    "DELETE FROM serve_runs WHERE id = ? AND status NOT IN ('running', 'queued') RETURNING id"
)
DELETE_EVENTS: Final = "DELETE FROM serve_events WHERE run = ?"


def prune(connection: Connection, older_than: float, waiting_older_than: float) -> int:
    """Delete some chains that ended before a time, and that wait since before another; return how many."""
    connection.lock(LockNumber.SERVER, "prune")
    latest = max(older_than, waiting_older_than)
    found = connection.rows(LAST_RUNS, (latest, older_than, waiting_older_than, RUNS_AT_ONCE))
    ids: set[str] = set()
    for last, root in found:
        ids |= {str(last), str(root)}
        if last != root:
            ids |= {str(row[0]) for row in connection.rows(CHAIN, (root,))}
    runs: list[Row] = []
    for id in sorted(ids):  # in one order everywhere: no two transactions wait for each other
        runs += connection.rows(DELETE_RUN, (id,))
    delete_rows(connection, runs)
    return len(found)


def delete_rows(connection: Connection, runs: list[Row]) -> None:
    """Delete all that belongs to runs, which were deleted before: that waited for events that are being written."""
    connection.each(DELETE_EVENTS, runs)
    delete_answers(connection, runs)
    delete_requests(connection, runs)
