"""`Schema`: the tables of one kind of store, for SQLite and PostgreSQL, with a version and the way from older ones.

A statement that creates tables is written once; words in braces stand for what the two databases call differently
(`WORDS`). Every kind has a row in the table `foldline_schema(kind, version)`. A new place gets the newest form at once;
an older one is brought to it step by step, in one transaction. So a place is of an old version or of the new one,
never between, and a program's own tables of other names are not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from foldline.exceptions import StoreError

if TYPE_CHECKING:  # it imports this module
    from foldline._storage.database import Connection

__all__ = [
    "CREATE_VERSIONS",
    "SET_VERSION",
    "Dialect",
    "LockNumber",
    "Schema",
    "Upgrade",
    "newer_version",
    "read_version",
    "run_script",
    "statements_of",
]

Dialect = Literal["sqlite", "postgres"]

WORDS: Final[Mapping[Dialect, Mapping[str, str]]] = {
    "sqlite": {
        "number": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "next_number": "INTEGER PRIMARY KEY",
        "row_number": "INTEGER PRIMARY KEY",
        "big": "INTEGER",
        "real": "REAL",
        "time": "TEXT",
        "blob": "BLOB",
        "sorted_text": "TEXT",
        "strict": " STRICT",
        "keyed": " WITHOUT ROWID",
        "strict_keyed": " STRICT, WITHOUT ROWID",
    },
    "postgres": {
        "number": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "next_number": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "row_number": "BIGINT PRIMARY KEY",
        "big": "BIGINT",
        "real": "DOUBLE PRECISION",
        "time": "TIMESTAMPTZ",
        "blob": "BYTEA",
        "sorted_text": 'TEXT COLLATE "C"',
        "strict": "",
        "keyed": "",
        "strict_keyed": "",
    },
}
"""What a word in braces means: an automatic number as the key, or one that costs less but may come again after the
newest row was deleted; a given number as the key; a 64-bit number; texts compared by code points; and the options of a
table that only SQLite has."""

CREATE_VERSIONS: Final = (
    "CREATE TABLE IF NOT EXISTS foldline_schema (kind TEXT PRIMARY KEY, version INTEGER NOT NULL)"
)
SET_VERSION: Final = (
    "INSERT INTO foldline_schema (kind, version) VALUES (?, ?) "
    "ON CONFLICT (kind) DO UPDATE SET version = excluded.version"
)


class LockNumber(IntEnum):
    """The advisory locks of PostgreSQL that foldline takes, in one place: a number has one meaning.

    A lock of a name (a thread, a job) is the hash of the name with the number as its seed.
    """

    THREAD = 0
    """Entries are added to one thread. (As in older versions, which may work beside this one; so is `SERVER`.)"""
    SERVER = 7
    """One row of the server's log is changed."""
    SCHEMA = 7364501
    """Tables are created or changed."""
    HISTORY = 7364502
    """Messages are added to one conversation."""
    VECTORS = 7364503
    """Documents are added to one collection."""
    TRACES = 7364528
    """Traces are written."""
    JOB = 7364530
    """A batch job is worked on."""
    ITEMS = 7364531
    """Items of one namespace are put and deleted together."""


Script: TypeAlias = "str | Callable[[Connection], None]"
"""Statements separated by `;`, or what statements alone cannot do; empty where there is nothing to do."""


class Upgrade(NamedTuple):
    """The way from one version to the next."""

    sqlite: Script
    postgres: Script = ""


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one kind of store."""

    kind: str
    tables: tuple[str, ...]
    """The names of the tables, which are ours alone: `forget` touches no others."""
    create: str
    """Creates the newest form."""
    create_own: Upgrade = Upgrade("")  # noqa: RUF009  a tuple
    """Creates what only one of the databases has, after the tables: an index of words."""
    upgrades: tuple[Upgrade, ...] = ()
    """`upgrades[n]` brings version n + 1 to n + 2."""
    unversioned: int = 1
    """The version of PostgreSQL tables that an older foldline made without writing a version."""
    find_elsewhere: Callable[[Connection], int] | None = None
    """Returns the version of PostgreSQL tables that an older foldline made under other names; 0 for none."""
    needs: tuple[Schema, ...] = ()
    """Other kinds whose tables are in the same place, for transactions over both."""

    @property
    def version(self) -> int:
        """The newest version."""
        return len(self.upgrades) + 1


def statements_of(script: str, dialect: Dialect) -> list[str]:
    """Return the statements of a script, with the words of a database."""
    for word, meaning in WORDS[dialect].items():
        script = script.replace(f"{{{word}}}", meaning)
    return [statement.strip() for statement in script.split(";") if statement.strip()]


def run_script(connection: Connection, script: Script) -> None:
    """Run a script of a schema, inside a transaction."""
    if callable(script):
        script(connection)
        return
    for statement in statements_of(script, connection.dialect):
        connection.run(statement)


def read_version(rows: list[tuple[Any, ...]], where: str, kind: str) -> int:
    """Return the version in the row of a kind; 0 where it has none."""
    if not rows:
        return 0
    version = rows[0][0]
    if type(version) is not int or not 0 < version < 2**31:
        raise StoreError(
            f"{where}: foldline_schema has {version!r:.80} as the version of {kind!r}, which no foldline wrote: the "
            "table is damaged; restore it from a backup"
        )
    return version


def newer_version(where: str, kind: str, known_version: int, version: int) -> StoreError:
    """Return the error of a place that a newer foldline has changed."""
    return StoreError(
        f"{where} was written by a newer foldline (version {version} of {kind!r}, this one knows version "
        f"{known_version}); nothing of this operation was written: upgrade foldline, or use another place"
    )
