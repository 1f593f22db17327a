"""PostgreSQL connections (extra `postgres`, psycopg 3): a bounded pool per process; errors are `StoreError`s.

A broken connection is dropped, and the work is repeated once on a new one, unless it had begun to commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from foldline._storage.pool import ConnectionPool
from foldline.exceptions import MissingExtraError, StoreError
from foldline.utils.data_places import is_url, place_name

__all__ = ["PostgresConnection", "PostgresServer"]

PostgresConnection: TypeAlias = Any
"""A connection of psycopg, which is an extra and so has no type here."""

T = TypeVar("T")
POOL_SIZE: Final = 8
PATIENCE: Final = 30.0
"""Seconds to wait for a free connection, or for a lock of another session."""
LOCKED: Final = "55P03"
"""The code of PostgreSQL for a lock that another session did not give back in time."""


class PostgresServer:
    """One database, by its connection string (`postgresql://user@host/name`)."""

    def __init__(
        self,
        conninfo: str,
        schema: str = "",
        *,
        pool_size: int = POOL_SIZE,
        patience: float = PATIENCE,
    ) -> None:
        """Connect, with at most `pool_size` connections; run the statements of a schema."""
        try:
            import psycopg  # noqa: PLC0415  an extra
        except ImportError as error:
            raise MissingExtraError(
                'PostgreSQL needs the package "psycopg": pip install "foldline[postgres]"'
            ) from error
        self._psycopg = psycopg
        self._conninfo = conninfo
        self._patience = patience
        self.where = place_name(conninfo) if is_url(conninfo) else "PostgreSQL"
        """How errors name it, without a password."""
        self._pool: ConnectionPool[PostgresConnection] = ConnectionPool(
            "PostgreSQL", self._connect, size=pool_size, patience=patience
        )
        self.run(lambda connection: connection.execute(schema or "SELECT 1"))

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
            if error.sqlstate == LOCKED:
                raise self._explained(error) from error
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
            with self._pool.connection() as connection, connection.transaction():
                return work(connection)
        except self._psycopg.OperationalError:
            raise
        except (self._psycopg.Error, UnicodeEncodeError) as error:
            raise self._explained(error) from error

    def each_page(
        self, work: Callable[[PostgresConnection], Iterator[list[tuple[Any, ...]]]]
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the pages that work reads in one transaction."""
        try:
            with self._pool.connection() as connection, connection.transaction():
                yield from work(connection)
        except (self._psycopg.Error, UnicodeEncodeError) as error:
            raise self._explained(error) from error

    def _connect(self) -> PostgresConnection:
        connection = self._psycopg.connect(self._conninfo, autocommit=True, connect_timeout=10)
        milliseconds = str(round(self._patience * 1000))
        connection.execute("SELECT set_config('lock_timeout', %s, false)", (milliseconds,))
        return connection

    def connect(self) -> PostgresConnection:
        """Open a connection for the caller alone: what belongs to a session, such as its locks, ends with it."""
        try:
            return self._connect()
        except self._psycopg.Error as error:
            raise self._explained(error) from error

    def run_outside(self, statements: Sequence[str]) -> None:
        """Run statements outside of any transaction, on a connection of their own."""
        try:
            with self._connect() as connection:
                for statement in statements:
                    connection.execute(statement)
        except self._psycopg.Error as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> StoreError:
        text = " ".join(str(error).split())
        if getattr(error, "sqlstate", None) == LOCKED:
            return StoreError(
                f"PostgreSQL: {text} (another session held a lock for more than {self._patience:g} s: try again; "
                "nothing of this operation was written)"
            )
        return StoreError(f"PostgreSQL: {text} (nothing of this operation was written)")

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.close()
