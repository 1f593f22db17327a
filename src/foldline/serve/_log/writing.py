"""Writing of runs and their events, those of many runs in one transaction.

A run that is not under way in the log any more is not written: it was deleted, or another worker took this one for dead
and has marked it as interrupted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Final

from pydantic_core import PydanticSerializationError, to_json

from foldline._storage.database import Connection, Row
from foldline.serve._log.answers import release_answers
from foldline.serve._log.events import encode_event, join_events
from foldline.serve._log.records import EventsToKeep, RunRecord, end_event

__all__ = ["COLUMNS", "UNDER_WAY", "dump", "interrupt_runs", "write_batches"]

COLUMNS: Final = (  # in the order of the fields of `RunRecord`
    "id, owner, app, wire, thread, status, created, worker, request, finished, "
    "last_seq, result, stop_asked"
)
ADD_RUN: Final = (
    f"INSERT INTO serve_runs ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING"
)
UNDER_WAY: Final = "status IN ('running', 'queued')"
GROW_RUN: Final = f"UPDATE serve_runs SET last_seq = ? WHERE id = ? AND {UNDER_WAY}"
GROW_RUNS: Final = (
    "UPDATE serve_runs SET last_seq = CAST(new.value AS BIGINT) FROM json_each_text(CAST(? AS JSON)) AS new "
    f"WHERE serve_runs.id = new.key AND {UNDER_WAY}"
)
"""Takes an object of runs and their last numbers."""
IS_UNDER_WAY: Final = f"SELECT 1 FROM serve_runs WHERE id = ? AND {UNDER_WAY}"
END_RUN: Final = (
    "UPDATE serve_runs SET status = ?, finished = ?, last_seq = ?, result = ? WHERE id = ?"
)
HAS_ENDED: Final = "SELECT 1 FROM serve_runs WHERE id = ? AND status = ? AND finished = ?"
ADD_EVENTS: Final = (
    "INSERT INTO serve_events (run, seq, last, data) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
ROW_EVENTS: Final = 32
"""Events in one row: readers read rows."""
SET_INTERRUPTED: Final = (
    "UPDATE serve_runs SET status = 'interrupted', finished = ?, last_seq = last_seq + 1 "
    f"WHERE id = ? AND {UNDER_WAY} RETURNING id, last_seq"
)
EventRow = tuple[str, int, int, str]


def dump(value: object) -> str:
    """Write a value as JSON."""
    try:
        return to_json(value).decode()
    except (
        PydanticSerializationError,
        ValueError,
    ):  # it has other objects, or halves of characters
        return json.dumps(value, separators=(",", ":"), default=str)


def write_batches(connection: Connection, batches: Sequence[EventsToKeep]) -> set[str]:
    """Write events, new runs and ends of runs; return the runs that are not under way in the log any more."""
    for batch in batches:
        if batch.is_new:
            connection.run(ADD_RUN, _new_row(batch.run, batch.last_seq))
    growing = [batch for batch in batches if not batch.is_new]
    gone = _grow(connection, growing) if growing else set()
    _add_events(connection, [batch for batch in batches if batch.run.id not in gone])
    for batch in batches:
        if batch.is_over and batch.run.id not in gone:
            run = batch.run
            result = dump(run.result) if run.result is not None else None
            connection.run(END_RUN, (run.status, run.finished, batch.last_seq, result, run.id))
            if batch.is_refused:
                release_answers(connection, run.id)
    return gone


def _new_row(run: RunRecord, last_seq: int) -> Row:
    status = "queued" if run.status == "queued" else "running"
    return (
        run.id, run.owner, run.app, run.wire, run.thread, status, run.created, run.worker,
        dump(run.request), None, last_seq, None, 0,
    )  # fmt: skip


def _grow(connection: Connection, batches: list[EventsToKeep]) -> set[str]:
    """Write the numbers of the last events; return the runs that are not under way."""
    last_seqs = {batch.run.id: batch.last_seq for batch in batches}
    if _set_last_seqs(connection, last_seqs) == len(last_seqs):
        return set()
    gone = {id for id in last_seqs if connection.row(IS_UNDER_WAY, (id,)) is None}
    for batch in batches:
        run = batch.run
        # A repeat of a transaction of which only the reply was lost finds the end that it has written.
        is_ours = run.id in gone and batch.is_over
        if is_ours and connection.row(HAS_ENDED, (run.id, run.status, run.finished)) is not None:
            gone.discard(run.id)
    return gone


def _set_last_seqs(connection: Connection, last_seqs: dict[str, int]) -> int:
    """Set the last number of the runs that are under way; return how many they are.

    Their rows are locked by it: no run is deleted under its events.
    """
    if connection.dialect == "postgres":  # one round trip
        return connection.run(GROW_RUNS, (dump(last_seqs),))
    # SQLite has no round trips, and needs five times as long for a join with an object of JSON.
    return connection.each(GROW_RUN, [(last_seq, id) for id, last_seq in last_seqs.items()])


def _add_events(connection: Connection, batches: Sequence[EventsToKeep]) -> None:
    rows = [row for batch in batches for row in _rows_of(batch)]
    if rows:
        connection.each(ADD_EVENTS, rows)


def _rows_of(batch: EventsToKeep) -> Iterator[EventRow]:
    for start in range(0, len(batch.events), ROW_EVENTS):
        events = batch.events[start : start + ROW_EVENTS]
        first = batch.first_seq + start
        yield batch.run.id, first, first + len(events) - 1, join_events(events)


def interrupt_runs(connection: Connection, ids: Sequence[str]) -> dict[str, tuple[float, int]]:
    """Mark runs as interrupted and add the event of their end; return when, and its number, for those that were."""
    now = time.time()
    ends = {}
    for id in sorted(ids):
        for _, last_seq in connection.rows(SET_INTERRUPTED, (now, id)):
            ends[id] = (now, last_seq)
    text = join_events([encode_event(end_event("interrupted", {}))])
    connection.each(ADD_EVENTS, [(id, seq, seq, text) for id, (_, seq) in ends.items()])
    return ends
