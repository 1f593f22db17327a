"""Files with the tables of an older foldline open, keep their rows, and get the newest schema.

The old tables had names that a program may use for its own (`answers`, `pairs`, …): such a table is left alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from foldline.caches import SQLiteCache
from foldline.caches._values import hashed_key, pack
from foldline.chat_history import SQLiteChatMessageHistory
from foldline.checkpoint import SqliteSaver
from foldline.checkpoint.base import Entry
from foldline.exceptions import StoreError
from foldline.graph import SqliteCache, SqliteStore
from foldline.indexing import SQLiteRecordManager
from foldline.load import dumps
from foldline.messages import HumanMessage
from foldline.outputs import Generation
from foldline.stores import SQLiteStore

SCHEMA = "CREATE TABLE foldline_schema (kind TEXT PRIMARY KEY, version INTEGER NOT NULL)"
ITEMS = """
CREATE TABLE items (namespace TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, created_at TEXT NOT NULL,
updated_at TEXT NOT NULL, until TEXT, vectors TEXT, PRIMARY KEY (namespace, key)) WITHOUT ROWID
"""


@dataclass(frozen=True)
class Old:
    """What an older foldline wrote into a file."""

    kind: str
    table: str
    version: int
    create: str
    row: tuple[Any, ...]
    open: Callable[[Path], Any]
    read: Callable[[Any], object]
    """Reads the row by the store."""
    expected: object
    use: Callable[[Any], None]
    """Writes something new."""


OLD = {
    "history": Old(
        kind="history",
        table="messages",
        version=1,
        create="""
        CREATE TABLE messages (
            place INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, value TEXT NOT NULL, added_at REAL NOT NULL
        ) STRICT;
        CREATE INDEX messages_by_session ON messages (session, place)
        """,
        row=(7, "s", dumps(HumanMessage("kept", id="1")), 1.7e9),
        open=lambda path: SQLiteChatMessageHistory("s", path),
        read=lambda history: history.messages[0],
        expected=HumanMessage("kept", id="1"),
        use=lambda history: history.add_user_message("new"),
    ),
    "checkpoints": Old(
        kind="checkpoints",
        table="checkpoints",
        version=1,
        create="""
        CREATE TABLE checkpoints (
            place INTEGER PRIMARY KEY AUTOINCREMENT,
            thread TEXT NOT NULL,
            namespace TEXT NOT NULL,
            id TEXT NOT NULL,
            parent TEXT,
            body TEXT NOT NULL,
            added_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
        );
        CREATE INDEX checkpoints_by_thread ON checkpoints (thread, namespace, place)
        """,
        row=(7, "t", "", "e1", None, "{}", "2026-01-01 00:00:00"),
        open=SqliteSaver,
        read=lambda saver: saver.read("t", "")[0],
        expected=Entry("e1", None, "{}"),
        use=lambda saver: saver.append("new", "", [Entry("e2", None, "{}")], after=None),
    ),
    "cache": Old(
        kind="cache",
        table="answers",
        version=1,
        create="""
        CREATE TABLE answers (key TEXT PRIMARY KEY, value TEXT NOT NULL, kept_at REAL NOT NULL) STRICT, WITHOUT ROWID;
        CREATE INDEX answers_by_age ON answers (kept_at)
        """,
        row=(hashed_key("p", "m"), pack([Generation(text="kept")]), 1.7e9),
        open=SQLiteCache,
        read=lambda cache: cache.lookup("p", "m"),
        expected=[Generation(text="kept")],
        use=lambda cache: cache.update("new", "m", [Generation(text="new")]),
    ),
    "store": Old(
        kind="store",
        table="pairs",
        version=1,
        create="CREATE TABLE pairs (key BLOB PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID",
        row=(b"k", b"\0kept"),
        open=SQLiteStore,
        read=lambda store: store.mget(["k"]),
        expected=[b"\0kept"],
        use=lambda store: store.mset([("new", b"new")]),
    ),
    "index": Old(
        kind="index",
        table="records",
        version=1,
        create="""
        CREATE TABLE records (
            namespace BLOB NOT NULL, key BLOB NOT NULL, source BLOB, seen REAL NOT NULL,
            PRIMARY KEY (namespace, key)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX records_by_age ON records (namespace, seen);
        CREATE INDEX records_by_source ON records (namespace, source, seen)
        """,
        row=(b"n", b"k", b"page", 1.7e9),
        open=lambda path: SQLiteRecordManager("n", path),
        read=lambda records: (
            records.list_keys(group_ids=["page"]),
            records.list_keys(before=1.71e9),
        ),
        expected=(["k"], ["k"]),
        use=lambda records: records.update(["new"]),
    ),
    "node_results": Old(
        kind="node_results",
        table="node_results",
        version=1,
        create="""
        CREATE TABLE node_results (place TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, until REAL,
        PRIMARY KEY (place, key))
        """,
        row=('["a"]', "k", "kept", None),
        open=SqliteCache,
        read=lambda cache: cache.get(("a",), "k"),
        expected="kept",
        use=lambda cache: cache.set(("a",), "new", "new", None),
    ),
    "items": Old(
        kind="items",
        table="items",
        version=2,
        create=f"{ITEMS}; ALTER TABLE items ADD COLUMN ttl REAL",
        row=("a\x1f", "k", '{"v": 1}', "2026-01-01", "2026-01-01", None, None, None),
        open=SqliteStore,
        read=lambda store: store.get(("a",), "k").value,
        expected={"v": 1},
        use=lambda store: store.put(("a",), "new", {"v": 2}, ttl=10),
    ),
    "items without ttl": Old(
        kind="items",
        table="items",
        version=1,
        create=ITEMS,
        row=("a\x1f", "k", '{"v": 1}', "2026-01-01", "2026-01-01", None, None),
        open=SqliteStore,
        read=lambda store: store.get(("a",), "k").value,
        expected={"v": 1},
        use=lambda store: store.put(("a",), "new", {"v": 2}, ttl=10),
    ),
}


@pytest.fixture(params=OLD)
def old(request: pytest.FixtureRequest) -> Old:
    return OLD[request.param]


def write_old_file(path: Path, old: Old) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(old.create)
        connection.execute(SCHEMA)
        connection.execute("INSERT INTO foldline_schema VALUES (?, ?)", (old.kind, old.version))
        marks = ", ".join("?" * len(old.row))
        connection.execute(f"INSERT INTO {old.table} VALUES ({marks})", old.row)


def schema_of(path: Path) -> dict[str, object]:
    """Return the tables and indexes of a file, by what they are and not by the text that made them."""
    with closing(sqlite3.connect(path)) as connection:

        def pragma(name: str, argument: str) -> list[Any]:
            return connection.execute(f"PRAGMA {name}('{argument}')").fetchall()

        tables = connection.execute("PRAGMA table_list").fetchall()
        schema: dict[str, object] = {}
        for _, name, *form in tables:
            if not name.startswith("sqlite_"):
                schema[name] = form, pragma("table_xinfo", name)
                for _, index, *kind in pragma("index_list", name):
                    schema[index] = name, kind, pragma("index_xinfo", index)
        schema["versions"] = connection.execute("SELECT * FROM foldline_schema").fetchall()
        return schema


def rows_of(path: Path, table: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT * FROM {table}").fetchall()


def test_a_file_of_an_older_version_keeps_its_rows(old: Old, tmp_path: Path) -> None:
    write_old_file(tmp_path / "old.db", old)

    store = old.open(tmp_path / "old.db")

    assert old.read(store) == old.expected
    old.use(store)
    assert old.read(store) == old.expected


def test_a_file_of_an_older_version_gets_the_schema_of_a_new_one(old: Old, tmp_path: Path) -> None:
    write_old_file(tmp_path / "old.db", old)

    old.open(tmp_path / "old.db").close()
    old.open(tmp_path / "new.db").close()

    upgraded = schema_of(tmp_path / "old.db")
    assert upgraded == schema_of(tmp_path / "new.db")
    assert old.table not in upgraded
    assert f"foldline_{old.table}" in upgraded


def test_a_file_that_is_opened_again_is_not_changed(old: Old, tmp_path: Path) -> None:
    write_old_file(tmp_path / "old.db", old)
    old.open(tmp_path / "old.db").close()
    before = schema_of(tmp_path / "old.db")

    store = old.open(tmp_path / "old.db")

    assert old.read(store) == old.expected
    assert schema_of(tmp_path / "old.db") == before


def test_many_that_open_an_old_file_at_once_find_its_rows(old: Old, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    write_old_file(path, old)

    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda _: old.open(path), range(8)))

    assert [old.read(store) for store in stores] == [old.expected] * 8


def test_a_programs_own_table_with_the_old_name_is_left_alone(old: Old, tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE {old.table} (mine TEXT)")
        connection.execute(f"CREATE INDEX {old.table}_by_age ON {old.table} (mine)")
        connection.execute(f"INSERT INTO {old.table} VALUES ('own')")

    store = old.open(path)
    old.use(store)
    store.close()

    assert rows_of(path, old.table) == [("own",)]
    assert len(rows_of(path, f"foldline_{old.table}")) == 1


def test_a_programs_own_table_made_after_the_upgrade_is_left_alone(
    old: Old, tmp_path: Path
) -> None:
    path = tmp_path / "old.db"
    write_old_file(path, old)
    old.open(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE {old.table} (mine TEXT)")
        connection.execute(f"INSERT INTO {old.table} VALUES ('own')")

    store = old.open(path)

    assert old.read(store) == old.expected
    assert rows_of(path, old.table) == [("own",)]


def test_an_upgrade_that_fails_changes_nothing(old: Old, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    write_old_file(path, old)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE foldline_{old.table} (mine TEXT)")
    before = schema_of(path)

    with pytest.raises(StoreError, match=f"foldline_{old.table}"):
        old.open(path)

    assert schema_of(path) == before
    assert rows_of(path, old.table) == [old.row]


def test_a_file_of_a_newer_version_is_refused_and_unchanged(old: Old, tmp_path: Path) -> None:
    path = tmp_path / "newer.db"
    old.open(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE foldline_schema SET version = 99")
    before = schema_of(path)

    with pytest.raises(StoreError, match="newer foldline"):
        old.open(path)

    assert schema_of(path) == before
