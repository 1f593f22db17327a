"""`StoredSaver`: threads in a SQLite file or a PostgreSQL database, with one set of statements."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Self

from foldline._storage import workers
from foldline._storage.database import Connection, Row
from foldline._storage.open_database import open_database
from foldline._storage.postgres import PostgresServer
from foldline._storage.schema import LockNumber, Schema, Upgrade
from foldline._storage.writers import Writers
from foldline.checkpoint._heads import heads_of
from foldline.checkpoint.base import (
    BaseCheckpointSaver,
    Entry,
    Snapshot,
    check_copy,
    check_head,
    left_behind,
)
from foldline.exceptions import StoreError

__all__ = ["AsyncOpened", "StoredSaver"]

SNAPSHOTS: Final = Schema(
    # A kind of its own: programs with an older foldline go on with the file, and do not see it.
    kind="snapshots",
    tables=("foldline_snapshots",),
    create="""
    CREATE TABLE foldline_snapshots (
        thread TEXT NOT NULL,
        namespace TEXT NOT NULL,
        at TEXT NOT NULL,
        place {big} NOT NULL,
        body {blob} NOT NULL,
        PRIMARY KEY (thread, namespace, at)
    )
    """,
)
SCHEMA: Final = Schema(
    kind="checkpoints",
    tables=("foldline_checkpoints",),
    create="""
    CREATE TABLE foldline_checkpoints (
        place {number},
        thread TEXT NOT NULL,
        namespace TEXT NOT NULL,
        id TEXT NOT NULL,
        parent TEXT,
        body TEXT NOT NULL,
        added_at {time} NOT NULL DEFAULT CURRENT_TIMESTAMP
    );
    CREATE INDEX foldline_checkpoints_by_thread ON foldline_checkpoints (thread, namespace, place)
    """,
    upgrades=(
        Upgrade(
            sqlite="""
            ALTER TABLE checkpoints RENAME TO foldline_checkpoints;
            DROP INDEX checkpoints_by_thread;
            CREATE INDEX foldline_checkpoints_by_thread ON foldline_checkpoints (thread, namespace, place)
            """
        ),
    ),
    unversioned=2,
    needs=(workers.SCHEMA, SNAPSHOTS),
)
READ: Final = (
    "SELECT id, parent, body FROM foldline_checkpoints WHERE thread = ? AND namespace = ? "
    "ORDER BY place"
)
READ_AFTER: Final = (
    "SELECT id, parent, body FROM foldline_checkpoints WHERE thread = ? AND namespace = ? AND place > "
    "(SELECT place FROM foldline_checkpoints WHERE thread = ? AND namespace = ? AND id = ? "
    "ORDER BY place DESC LIMIT 1) ORDER BY place"
)
HEAD: Final = (
    "SELECT id, parent, body FROM foldline_checkpoints WHERE thread = ? AND namespace = ? "
    "ORDER BY place DESC LIMIT 1"
)
MAX_SNAPSHOT: Final = 256 * 1024 * 1024
"""Bytes of the text of a snapshot; a longer one is cut off, and so not used."""
SNAPSHOT: Final = (
    "SELECT at, body FROM foldline_snapshots WHERE thread = ? AND namespace = ? "
    "ORDER BY place DESC LIMIT 1"
)
WRITE_SNAPSHOT: Final = (
    "INSERT INTO foldline_snapshots (thread, namespace, at, place, body) "
    "SELECT thread, namespace, id, place, ? FROM foldline_checkpoints "
    "WHERE thread = ? AND namespace = ? AND id = ? ORDER BY place DESC LIMIT 1"
)
HAS_ENTRIES: Final = "SELECT 1 FROM foldline_checkpoints WHERE thread = ? LIMIT 1"
COPY: Final = (
    "INSERT INTO foldline_checkpoints (thread, namespace, id, parent, body) "
    "SELECT ?, namespace, id, parent, body FROM foldline_checkpoints WHERE thread = ? ORDER BY place"
)
PARENTS: Final = (
    "SELECT place, id, parent FROM foldline_checkpoints WHERE thread = ? AND namespace = ? "
    "ORDER BY place"
)
DELETE_ENTRY: Final = "DELETE FROM foldline_checkpoints WHERE place = ?"
DELETE_SNAPSHOTS: Final = "DELETE FROM foldline_snapshots WHERE thread = ? AND namespace = ?"
WRITE: Final = (
    "INSERT INTO foldline_checkpoints (thread, namespace, id, parent, body) VALUES (?, ?, ?, ?, ?)"
)


def _text_of(body: object) -> str:
    """Return the text of a stored snapshot; an empty one, which no reader uses, if it is damaged."""
    try:
        data = zlib.decompressobj().decompress(bytes(body), MAX_SNAPSHOT)  # type: ignore[call-overload]
        return str(data, "utf-8")
    except (zlib.error, UnicodeDecodeError, TypeError, ValueError):
        return ""


class StoredSaver(BaseCheckpointSaver):
    """A saver in a file or a database, named by a path or a connection string."""

    def __init__(self, place: str | Path | PostgresServer) -> None:
        """Open the place; the table is created if it does not exist."""
        self._database = open_database(place, SCHEMA)
        self._writers = Writers(self._database)

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str) -> Generator[Self, None, None]:
        """Open a saver for the duration of a block."""
        saver = cls(conn_string)
        try:
            yield saver
        finally:
            saver.close()

    def read(self, thread_id: str, namespace: str, *, after: str | None = None) -> list[Entry]:
        """Return the entries of one namespace of a thread, the oldest first; those after the entry `after`, or all."""
        place = thread_id, namespace
        if after is None:
            rows = self._database.rows(READ, place)
        else:
            rows = self._database.rows(READ_AFTER, (*place, *place, after))
        return [self._entry(row, thread_id) for row in rows]

    def head(self, thread_id: str, namespace: str) -> Entry | None:
        """Return the last entry of one namespace of a thread; None if it has none."""
        rows = self._database.rows(HEAD, (thread_id, namespace))
        return self._entry(rows[0], thread_id) if rows else None

    def _entry(self, row: Row, thread_id: str) -> Entry:
        entry = Entry(*row)
        if not isinstance(entry.body, str):
            raise StoreError(
                f"{self._database.where}: entry {entry.id!r:.80} of thread {thread_id!r:.80} is damaged: its body "
                f"is {type(entry.body).__name__}, not text. Restore it from a backup, or delete the thread"
            )
        return entry

    def snapshot(self, thread_id: str, namespace: str) -> Snapshot | None:
        """Return the newest snapshot of one namespace of a thread; None if there is none."""
        rows = self._database.rows(SNAPSHOT, (thread_id, namespace))
        return Snapshot(str(rows[0][0]), _text_of(rows[0][1])) if rows else None

    def put_snapshot(self, thread_id: str, namespace: str, snapshot: Snapshot) -> None:
        """Store a snapshot in place of the one before; there is none where the thread has no such entry."""
        body = zlib.compress(snapshot.body.encode(), level=1)

        def work(connection: Connection) -> None:
            connection.lock(LockNumber.THREAD, thread_id)  # the thread may be deleted now
            # Older ones would help only a branch from an old entry, which gets its own with its next run.
            connection.run(DELETE_SNAPSHOTS, (thread_id, namespace))
            connection.run(WRITE_SNAPSHOT, (body, thread_id, namespace, snapshot.at))

        self._database.write(work, is_durable=False)

    def append(
        self,
        thread_id: str,
        namespace: str,
        entries: list[Entry],
        *,
        after: str | None,
        epoch: int | None = None,
    ) -> None:
        """Write entries in one transaction."""

        def work(connection: Connection) -> None:
            # One writer at a time per thread: reading the last entry and writing the next one is atomic.
            connection.lock(LockNumber.THREAD, thread_id)
            head = connection.row(HEAD, (thread_id, namespace))
            if head is not None and entries and head[0] == entries[-1].id:
                return  # the connection broke after the commit and this is the second try
            if epoch is not None:
                self._writers.check_epoch(connection, thread_id, epoch)
            check_head(thread_id, head[0] if head else None, after)
            rows = [(thread_id, namespace, entry.id, entry.parent, entry.body) for entry in entries]
            connection.each(WRITE, rows)

        self._database.write(work)

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread."""

        def work(connection: Connection) -> None:
            # An entry that is not committed yet would not be seen, and stay.
            connection.lock(LockNumber.THREAD, thread_id)
            connection.run("DELETE FROM foldline_checkpoints WHERE thread = ?", (thread_id,))
            connection.run("DELETE FROM foldline_snapshots WHERE thread = ?", (thread_id,))
            self._writers.delete(connection, thread_id)

        self._database.write(work)
        heads_of(self).drop(thread_id)

    def copy_thread(self, source: str, target: str) -> None:
        """Copy all entries of a thread to another one, which has none, in one transaction."""

        def work(connection: Connection) -> None:
            for thread_id in sorted(
                (source, target)
            ):  # always in the same order: two copies do not wait in a circle
                connection.lock(LockNumber.THREAD, thread_id)
            has_entries = connection.row(HAS_ENTRIES, (target,)) is not None
            check_copy(source, target, has_entries=has_entries)
            connection.run(COPY, (target, source))

        self._database.write(work)

    def prune(self, thread_ids: Iterable[str], *, keep_last: int = 1) -> None:
        """Delete the branches of threads that were left, except the last `keep_last` ones; the state stays."""
        for thread_id in thread_ids:
            self._database.write(partial(self._prune, thread_id, keep_last))
            heads_of(self).drop(thread_id)

    def _prune(self, thread_id: str, keep_last: int, connection: Connection) -> None:
        connection.lock(LockNumber.THREAD, thread_id)
        rows = connection.rows(PARENTS, (thread_id, ""))
        left = left_behind([(id, parent) for _, id, parent in rows], keep_last)
        connection.each(DELETE_ENTRY, [(place,) for place, id, _ in rows if id in left])
        if left:
            connection.run(DELETE_SNAPSHOTS, (thread_id, ""))

    def claim(self, thread_id: str, owner: str) -> int:
        """Make a run the owner of a thread; return the epoch for its writes.

        An owner whose process shows no sign of life is watched for two beats before its thread is taken over.
        """
        return self._writers.claim(thread_id, owner)

    def is_surely_owner(self, thread_id: str, epoch: int) -> bool:
        """Whether `check_owner` would find nothing."""
        return self._writers.is_surely_owner(thread_id, epoch)

    def check_owner(self, thread_id: str, epoch: int) -> None:
        """Raise `ThreadConflictError` if a run must not have its next effect."""
        self._writers.check(thread_id, epoch)

    def release(self, thread_id: str, epoch: int) -> None:
        """Give a thread back; nothing happens where another run has taken it over."""
        self._writers.release(thread_id, epoch)

    def close(self) -> None:
        """Give back the threads that are still claimed, and close the idle connections."""
        self._writers.close()
        self._database.close()


class AsyncOpened(StoredSaver):
    """A saver whose `from_conn_string` is an async context, as in LangGraph's async savers."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(  # type: ignore[override]
        cls, conn_string: str
    ) -> AsyncGenerator[Self, None]:
        """Open a saver for the duration of an async block."""
        saver = cls(conn_string)
        try:
            yield saver
        finally:
            saver.close()
