"""The storage seam: stores write their statements once, with `?`, for a SQLite file or a PostgreSQL database.

A store has a `Schema` and opens it by `open_database(place, SCHEMA)`; a place is a path, `:memory:` or a
`postgresql://…` address. All work happens in functions that get a `Connection`: `read` for what changes nothing,
`write` for one transaction, of which everything is written or nothing. Values are always bound. Every error of a
database is a `StoreError` that says where, what and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from foldline._storage.schema import Dialect, LockNumber

__all__ = ["Connection", "Database", "Row"]

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]


class Connection(Protocol):
    """Runs statements inside one transaction."""

    dialect: Dialect

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement; return all its rows."""

    def row(self, statement: str, values: Sequence[Any] = ()) -> Row | None:
        """Run a statement; return its first row."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; return how many rows it changed."""

    def each(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run a statement for each of some rows of values; return how many rows of the table it changed."""

    def pages(
        self, statement: str, values: Sequence[Any] = (), *, size: int = 1000
    ) -> Generator[list[Row], None, None]:
        """Run a statement; yield its rows page by page."""

    def lock(self, number: LockNumber, name: str) -> None:
        """Lock a name until the transaction ends. SQLite has one writer at a time, and needs no lock."""


class Database(Protocol):
    """A place with the tables of one kind of store."""

    where: str
    """How errors name it; it has no password."""
    is_shared: bool
    """Whether other machines may use it too."""
    dialect: Dialect

    def read(self, work: Callable[[Connection], T]) -> T:
        """Do work that changes nothing, on one snapshot."""

    def write(
        self,
        work: Callable[[Connection], T],
        *,
        may_repeat: bool = True,
        is_durable: bool = True,
    ) -> T:
        """Do work in one transaction: all of it or nothing.

        A connection that breaks before the commit is replaced and the work is done again, so it must have no other
        effect. With `may_repeat=False` work is not repeated after a commit whose answer was lost, and the error says
        that it is unknown whether it was written. With `is_durable=False` a SQLite file need not be on the disk when
        this returns: a power failure may undo the work, unless a later durable write was acknowledged.
        """

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Read all rows of one query."""

    def pages(
        self, statement: str, values: Sequence[Any] = (), *, size: int = 1000
    ) -> Generator[list[Row], None, None]:
        """Read the rows of one query page by page, on one snapshot; the connection is held until the end."""

    def maintain(self, *statements: str) -> None:
        """Run statements that cannot be in a transaction, such as VACUUM."""

    def close(self) -> None:
        """Close the idle connections; the next use opens new ones."""
