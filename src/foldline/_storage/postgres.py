"""PostgreSQL connections (extra `postgres`, psycopg 3): per process, one thread at a time; errors are `StoreError`s.

A broken connection is dropped, and the work is repeated once on a new one, unless it had begun to commit.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

from foldline._io.locks import mutex
from foldline.exceptions import MissingExtraError, StoreError

__all__ = ["PostgresConnection", "PostgresServer"]

PostgresConnection: TypeAlias = Any
"""A connection of psycopg, which is an extra and so has no type here."""

T = TypeVar("T")


class PostgresServer:
    """One database, by its connection string (`postgresql://user@host/name`)."""

    def __init__(self, conninfo: str, schema: str) -> None:
        try:
            import psycopg  # noqa: PLC0415  an extra
        except ImportError as error:
            raise MissingExtraError(
                'PostgreSQL needs the package "psycopg": pip install "foldline[postgres]"'
            ) from error
        self._psycopg = psycopg
        self._conninfo = conninfo
        self._lock = mutex()
        self._pid = os.getpid()
        self._idle: list[PostgresConnection] = []
        weakref.finalize(self, _close_all, self._idle, self._pid)
        self._schema = schema
        self.run(lambda connection: connection.execute(self._schema))

    def run(self, work: Callable[[PostgresConnection], T], *, may_repeat: bool = True) -> T:
        """Do work in one transaction: all of it or nothing.

        Pass `may_repeat=False` for work that must not be done twice.
        """
        is_done = False

        def watched(connection: PostgresConnection) -> T:
            nonlocal is_done
            result = work(connection)
            is_done = True
            return result

        try:
            return self._once(watched)
        except self._psycopg.OperationalError as error:
            self.close()
            if is_done and not may_repeat:
                raise StoreError(
                    "PostgreSQL: the connection broke in the middle of a commit, and whether it was written is not "
                    "known: check before you write it again"
                ) from error
            # The server restarted or the connection was cut: its transaction is rolled back, so a repeat is safe.
        try:
            return self._once(work)
        except self._psycopg.Error as error:
            raise self._explained(error) from error

    def _once(self, work: Callable[[PostgresConnection], T]) -> T:
        try:
            with self._connection() as connection, connection.transaction():
                return work(connection)
        except self._psycopg.OperationalError:
            raise
        except (self._psycopg.Error, UnicodeEncodeError) as error:
            raise self._explained(error) from error

    @contextmanager
    def _connection(self) -> Generator[PostgresConnection, None, None]:
        connection = self._take()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)

    def _take(self) -> PostgresConnection:
        with self._lock:
            if self._pid != os.getpid():
                # A forked child must not use its parent's socket.
                self._pid, self._idle = os.getpid(), []
                weakref.finalize(self, _close_all, self._idle, self._pid)
            if self._idle:
                return self._idle.pop()
        return self._psycopg.connect(self._conninfo, autocommit=True, connect_timeout=10)

    def connect(self) -> PostgresConnection:
        """Open a connection for the caller alone: what belongs to a session, such as its locks, ends with it."""
        try:
            return self._psycopg.connect(self._conninfo, autocommit=True, connect_timeout=10)
        except self._psycopg.Error as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> StoreError:
        text = " ".join(str(error).split())
        return StoreError(f"PostgreSQL: {text} (nothing of this operation was written)")

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            _close_all(self._idle, self._pid)


def _close_all(connections: list[PostgresConnection], pid: int) -> None:
    while connections:
        connection = connections.pop()
        if pid == os.getpid():
            connection.close()
