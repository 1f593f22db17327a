"""What the writer and the store ask of a database of traces, be it a SQLite file or PostgreSQL.

Statements are written once, with `?` for values, in the SQL that both know. Behind this interface is what differs:
connections and transactions, the schema, the full-text index, sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from foldline.utils.data_places import TracePlace, is_url

__all__ = ["Search", "Session", "Statements", "TraceDatabase", "marks", "open_database"]

T = TypeVar("T")
Row = tuple[Any, ...]


class Cursor(Protocol):
    """The rows of a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""

    def fetchone(self) -> Any:  # noqa: ANN401  a row of any columns, or None
        """Return the next row; None where there is none."""

    def fetchall(self) -> list[Any]:
        """Return all rows."""

    def __iter__(self) -> Iterator[Any]: ...


class Statements(Protocol):
    """Executes statements; a connection of SQLite is one."""

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Cursor:
        """Execute a statement."""

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Execute a statement once for every row of values."""


@dataclass(frozen=True, slots=True)
class Search:
    """How the runs that hold the words of a search are selected."""

    source: str
    """What to select from: `runs`, or a join with it."""
    where: str
    values: list[Any]
    order: str
    """The column by which the newest come first, quickly."""


class Session(Protocol):
    """One user of a database, and one thread at a time."""

    def read(self, work: Callable[[Statements], T]) -> T:
        """Do work that changes nothing."""

    def write(self, work: Callable[[Statements], T]) -> T:
        """Do work in one transaction, all of it or nothing; it may be done twice where a connection breaks."""

    def close(self) -> None:
        """Close the connection; the next work opens another."""


class TraceDatabase(Protocol):
    """One database; what is wrong with it is a `StoreError`."""

    name: str
    """What errors call it: the path, or the URL without its password."""

    def exists(self) -> bool:
        """Whether there are traces."""

    def session(self) -> Session:
        """Return a session; it connects when it is used, and makes or upgrades the schema."""

    def close(self) -> None:
        """Close idle connections."""

    def has_index(self, statements: Statements) -> bool:
        """Whether there is a full-text index."""

    def add_words(self, statements: Statements, texts: Iterable[tuple[int, str]]) -> None:
        """Put texts into the full-text index, each with the `seq` of its run."""

    def remove_words(self, statements: Statements, texts: Iterable[tuple[int, str]]) -> None:
        """Take texts out of the full-text index."""

    def search(self, statements: Statements, text: str) -> Search | None:
        """Return how to search for words; None where there is no index for them."""

    def begin_deletion(self, statements: Statements) -> None:
        """Have what is deleted in this transaction overwritten, where the database can."""

    def end_deletion(self, statements: Statements) -> None:
        """Clean up after deletions, inside a transaction."""

    def used_bytes(self) -> int:
        """Return how many bytes the traces take."""

    def shrink(self) -> None:
        """Return free space."""


def open_database(place: TracePlace) -> TraceDatabase:
    """Return the database that a path or a URL names; it is not connected to yet."""
    if is_url(place):
        from foldline.tracers._postgres_database import PostgresTraces  # noqa: PLC0415  an extra

        return PostgresTraces(str(place))
    from foldline.tracers._sqlite_database import SqliteTraces  # noqa: PLC0415  it imports this

    return SqliteTraces(Path(place))


def marks(values: Sequence[Any]) -> str:
    """Return as many `?` as there are values."""
    return ", ".join("?" * len(values))
