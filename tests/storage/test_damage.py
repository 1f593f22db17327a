"""Random damage to a SQLite file: either every row is read, or an error or a report says that something is lost.

`FOLDLINE_TEST_DAMAGES=120` damages 120 files instead of a few. A changed letter inside a text cannot be noticed.
"""

from __future__ import annotations

import logging
import os
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from foldline.chat_history import SQLiteChatMessageHistory
from foldline.checkpoint.base import Entry
from foldline.checkpoint.sqlite import SqliteSaver
from foldline.exceptions import StoreError
from foldline.graph.store.sqlite import SqliteStore
from foldline.indexing import SQLiteRecordManager
from foldline.messages import HumanMessage
from foldline.runnables import RunnableConfig, RunnableLambda
from foldline.stores import SQLiteStore
from foldline.tracers import SQLiteTracer, TraceFilters, TraceStore

DAMAGES = int(os.environ.get("FOLDLINE_TEST_DAMAGES", "12"))
SESSIONS, COUNT = ("ada", "bob", "cy"), 60
ECHO = RunnableLambda(lambda x: x, name="echo")


def write_messages(path: Path) -> None:
    for number in range(COUNT):
        for session in SESSIONS:
            history = SQLiteChatMessageHistory(session, path)
            history.add_messages([HumanMessage(f"message {number} of {session}")])
            history.close()


def lost_messages(path: Path) -> int:
    """Return how many messages are missing without a report."""
    lost = 0
    for session in SESSIONS:
        read = SQLiteChatMessageHistory(session, path).read()
        lost += COUNT - len(list(read)) - len(read.reports)
    return lost


def write_threads(path: Path) -> None:
    saver = SqliteSaver(path)
    for number in range(COUNT):
        for thread in SESSIONS:
            parent = str(number - 1) if number else None
            saver.append(thread, "", [Entry(str(number), parent, '{"a":1}')], after=parent)
    saver.close()


def lost_entries(path: Path) -> int:
    """Return how many entries are missing without a report."""
    saver = SqliteSaver(path)
    return sum(COUNT - len(saver.read(thread, "")) for thread in SESSIONS)


def write_runs(path: Path) -> None:
    with SQLiteTracer(path) as tracer:
        for number in range(COUNT):
            for thread in SESSIONS:
                config: RunnableConfig = {"callbacks": [tracer], "metadata": {"thread_id": thread}}
                ECHO.invoke(number, config)


def lost_runs(path: Path) -> int:
    """Return how many runs are missing without a report."""
    reports = Reports()
    logging.getLogger("foldline.tracers").addHandler(reports)
    try:
        store, lost = TraceStore(path), 0
        for thread in SESSIONS:
            reports.count = 0
            lost += COUNT - store.count(TraceFilters(thread_id=thread))
        reports.count = 0
        return lost + COUNT * len(SESSIONS) - len(store.recent(1000)) - reports.count
    finally:
        logging.getLogger("foldline.tracers").removeHandler(reports)


class Reports(logging.Handler):
    """Counts runs that are reported as damaged."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "is damaged and was left out" in record.getMessage()


def write_pairs(path: Path) -> None:
    store = SQLiteStore(path)
    for session in SESSIONS:
        store.mset([(f"{session}/{number}", b"value") for number in range(COUNT)])
    store.close()


def lost_pairs(path: Path) -> int:
    """Return how many pairs are missing without a report."""
    store = SQLiteStore(path)
    return COUNT * len(SESSIONS) - len(list(store.yield_keys()))


def write_items(path: Path) -> None:
    with SqliteStore.from_conn_string(str(path)) as store:
        for session in SESSIONS:
            for number in range(COUNT):
                store.put((session,), str(number), {"text": f"value {number}"})


def lost_items(path: Path) -> int:
    """Return how many items are missing without a report."""
    with SqliteStore.from_conn_string(str(path)) as store:
        found = [len(store.search((session,), limit=COUNT)) for session in SESSIONS]
    return COUNT * len(SESSIONS) - sum(found)


def write_records(path: Path) -> None:
    for session in SESSIONS:
        records = SQLiteRecordManager(session, path)
        records.update([f"key {number}" for number in range(COUNT)])
        records.close()


def lost_records(path: Path) -> int:
    """Return how many records are missing without a report."""
    lists = [SQLiteRecordManager(session, path).list_keys() for session in SESSIONS]
    return COUNT * len(SESSIONS) - sum(map(len, lists))


KINDS = {
    "history": (write_messages, lost_messages),
    "checkpoints": (write_threads, lost_entries),
    "traces": (write_runs, lost_runs),
}
MORE = {
    "items": (write_items, lost_items),
    "store": (write_pairs, lost_pairs),
    "index": (write_records, lost_records),
}


def make(folder: Path, write: Callable[[Path], None]) -> bytes:
    path = folder / "good.db"
    write(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, *MORE])
def test_random_damage_never_loses_rows_without_a_word(kind: str, tmp_path: Path):
    write, lost = {**KINDS, **MORE}[kind]
    good, outcomes = make(tmp_path, write), Counter[str]()
    for seed in range(DAMAGES):
        chance, path = random.Random(seed), tmp_path / f"{seed}.db"
        data, start = bytearray(good), chance.randrange(len(good))
        end = min(len(good), start + chance.choice([1, 4, 64, 512, 4096]))
        data[start:end] = chance.randbytes(end - start)
        path.write_bytes(data)
        try:
            outcomes["lost" if lost(path) else "readable"] += 1
        except StoreError as error:
            outcomes["refused" if path.name in str(error) else "without a name"] += 1

    assert outcomes["readable"] + outcomes["refused"] == DAMAGES, outcomes


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_index_is_reported_with_what_to_do(kind: str, tmp_path: Path):
    write, lost = KINDS[kind]
    good = make(tmp_path, write)
    path, size = tmp_path / "damaged.db", 4096
    is_index = [good[start] in (2, 10) for start in range(0, len(good), size)]  # types of pages
    name = next(
        good.index(b"bob", number * size)
        for number, flag in enumerate(is_index)
        if flag and b"bob" in good[number * size : (number + 1) * size]
    )
    path.write_bytes(good[:name] + b"bub" + good[name + 3 :])

    with pytest.raises(StoreError, match=r"damaged.db is damaged: .*index.*REINDEX"):
        lost(path)

    with closing(sqlite3.connect(path)) as connection:
        connection.execute("REINDEX")
    assert lost(path) == 0
