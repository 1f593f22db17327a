"""PostgreSQL connections (extra `postgres`, psycopg 3): a bounded pool per process; errors are `StoreError`s.

A broken connection is dropped, and the work is repeated once on a new one, unless it had begun to commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from foldline._storage.pool import ConnectionPool, shared_pool
from foldline.exceptions import MissingExtraError, StoreError
from foldline.utils._data_places import is_url, place_name

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
        self.where: str = place_name(conninfo) if is_url(conninfo) else "PostgreSQL"
        """How errors name it, without a password."""
        self._pool: ConnectionPool[PostgresConnection] = shared_pool(
            (conninfo, pool_size, patience),
            lambda: ConnectionPool("PostgreSQL", self._connect, size=pool_size, patience=patience),
        )
        self.run(lambda connection: connection.execute(schema or "SELECT 1"))

    def run(self, work: Callable[[PostgresConnection], T], *, may_repeat: bool = True) -> T:
        """Do work in one transaction: all of it or nothing.

        Pass `may_repeat=False` for work that must not be done twice.
        """
        has_begun_commit = False

        def watched(connection: PostgresConnection) -> T:
            nonlocal has_begun_commit
            result = work(connection)
            has_begun_commit = True
            return result

        try:
            return self._once(watched)
        except self._psycopg.OperationalError as error:
            if error.sqlstate == LOCKED:
                raise self._explained(error) from error
            self.close()
            if has_begun_commit and not may_repeat:
                raise self._unknown(error) from error
            # The server restarted or the connection was cut: its transaction is rolled back, so a repeat is safe.
        except (self._psycopg.Error, UnicodeEncodeError) as error:
            raise self._explained(error) from error
        is_lost, has_begun_commit = has_begun_commit, False
        try:
            return self._once(watched)
        except (self._psycopg.Error, UnicodeEncodeError) as error:
            is_broken = isinstance(error, self._psycopg.OperationalError)
            if is_lost or (has_begun_commit and is_broken):
                raise self._unknown(error) from error
            raise self._explained(error) from error

    def _once(self, work: Callable[[PostgresConnection], T]) -> T:
        with self._pool.connection() as connection, connection.transaction():
            return work(connection)

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

    def _unknown(self, error: Exception) -> StoreError:
        """Return the error of a commit whose answer was lost."""
        text = " ".join(str(error).split())
        return StoreError(
            "PostgreSQL: the connection broke in the middle of a commit, and whether it was written is not known: "
            f"check before you write it again ({text})"
        )

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
