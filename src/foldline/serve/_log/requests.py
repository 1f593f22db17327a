"""Requests in the run log: who repeats a request with the same `Idempotency-Key` gets the run that it started.

The row is written in the transaction that writes the run, and stays as long as the run. The table is a kind of its own:
workers of the previous version, which do not know it, may use the same log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from foldline._storage.database import Connection
from foldline._storage.schema import Schema
from foldline.serve._log.records import RunRecord

__all__ = ["SCHEMA", "Repeat", "claim_request", "delete_requests"]

SCHEMA: Final = Schema(
    kind="serve_requests",
    tables=("serve_requests",),
    create="""
    CREATE TABLE serve_requests (
        owner TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL, run TEXT NOT NULL, PRIMARY KEY (owner, name)
    );
    CREATE INDEX serve_requests_by_run ON serve_requests (run);
    CREATE INDEX serve_runs_by_end ON serve_runs (finished)
    """,
)
"""`name` is the key of the request, and `digest` the hash of its body. The last index is for `pruning`."""
ADD: Final = (
    "INSERT INTO serve_requests (owner, name, digest, run) VALUES (?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING"
)
FIND: Final = "SELECT run, digest FROM serve_requests WHERE owner = ? AND name = ?"


@dataclass(frozen=True, slots=True)
class Repeat:
    """Why a run was not started: a request with the same key has started another one."""

    run: str
    is_equal: bool
    """Whether both requests are equal."""


def claim_request(connection: Connection, run: RunRecord) -> Repeat | None:
    """Write the key of the request that starts a run; return the earlier request with this key, if there was one."""
    if run.request_key is None:
        return None
    name, digest = run.request_key
    if connection.run(ADD, (run.owner, name, digest, run.id)):
        return None
    row = connection.row(FIND, (run.owner, name))
    if (
        row is None or row[0] == run.id
    ):  # a repeat of a transaction of which only the reply was lost
        return None
    return Repeat(row[0], is_equal=row[1] == digest)


def delete_requests(connection: Connection, runs: Sequence[Sequence[object]]) -> None:
    """Delete the keys of runs, each a row with its id."""
    connection.each("DELETE FROM serve_requests WHERE run = ?", runs)
