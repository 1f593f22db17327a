"""Traces in one SQLite file: sessions that follow a file which is replaced, and the full-text index by FTS5.

The index keeps no text of its own: what a run said is found again in its row, also to take it out.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from foldline.exceptions import StoreError
from foldline.tracers import _schema as schema
from foldline.tracers._database import Search, Session, Statements
from foldline.tracers._search_words import parse_search

__all__ = ["SqliteTraces"]

T = TypeVar("T")


class SqliteTraces:
    """The traces of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)

    def exists(self) -> bool:
        """Whether the file is there."""
        return self.path.exists()

    def session(self) -> Session:
        """Return a session."""
        return _SqliteSession(self.path)

    def close(self) -> None:
        """Do nothing: a session closes its connection."""

    # -- the full-text index

    def has_index(self, statements: Statements) -> bool:
        """Whether the file has a full-text index (SQLite may be built without)."""
        has_table = "SELECT 1 FROM sqlite_master WHERE name = 'words'"
        return statements.execute(has_table).fetchone() is not None

    def add_words(self, statements: Statements, texts: Iterable[tuple[int, str]]) -> None:
        """Put texts into the index."""
        statements.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", texts)

    def remove_words(self, statements: Statements, texts: Iterable[tuple[int, str]]) -> None:
        """Take texts out of the index."""
        statements.executemany(
            "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", texts
        )

    def search(self, statements: Statements, text: str) -> Search | None:
        """Return how to search for words: all of them, the last by its beginning, phrases in quotes as they are."""
        parsed = parse_search(text)
        terms = [f'"{" ".join(phrase)}"' for phrase in parsed.phrases]
        if not terms or not self.has_index(statements):
            return None
        if parsed.ends_open:
            terms[-1] += "*"
        source = "words CROSS JOIN runs ON runs.seq = words.rowid"
        return Search(source, "words MATCH ?", [" ".join(terms)], "words.rowid")

    # -- deletion and size

    def begin_deletion(self, statements: Statements) -> None:
        """Have what is deleted overwritten."""
        statements.execute("PRAGMA secure_delete = ON")

    def end_deletion(self, statements: Statements) -> None:
        """Remove what was deleted from old segments of the index."""
        if self.has_index(statements):
            statements.execute("INSERT INTO words (words) VALUES ('optimize')")

    def used_bytes(self) -> int:
        """Return the size of the file without its free pages."""

        def read(statements: Statements) -> int:
            pages, free, size = (
                statements.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
            return int((pages - free) * size)

        with closing(self.session()) as session:
            return session.read(read)

    def shrink(self) -> None:
        """Return free pages to the disk."""

        def clean(statements: Statements) -> None:
            statements.execute("VACUUM")
            statements.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        with closing(self.session()) as session:
            session.read(clean)  # VACUUM cannot run inside a transaction


class _SqliteSession:
    """Consecutive work uses one connection; a file that was replaced is reopened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._inode: int | None = None

    def read(self, work: Callable[[Statements], T]) -> T:
        """Do work that changes nothing."""
        with self._explain_errors():
            return work(self._connect())

    def write(self, work: Callable[[Statements], T]) -> T:
        """Do work in one transaction."""
        with self._explain_errors():
            connection = self._connect()
            connection.execute("BEGIN IMMEDIATE")
            result = work(connection)
            connection.execute("COMMIT")  # closing before this line undoes it all
            return result

    @contextmanager
    def _explain_errors(self) -> Generator[None, None, None]:
        try:
            yield
        except sqlite3.Error as error:
            self.close()
            raise StoreError(f"{self._path}: cannot read or write the traces: {error}") from error
        except BaseException:
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        if self._connection is not None and self._inode != _inode(self._path):
            self.close()
        if self._connection is None:
            self._connection = schema.connect(self._path)
            self._inode = _inode(self._path)
        return self._connection

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _inode(path: Path) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None
