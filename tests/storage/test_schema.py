"""Versions of tables: creation, upgrades that are killed, newer and damaged versions; and the numbers of locks."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import foldline
from foldline._storage.database import Connection, Database
from foldline._storage.open_database import open_database
from foldline._storage.postgres import PostgresServer
from foldline._storage.postgres_database import has_tables
from foldline._storage.schema import LockNumber, Schema, Upgrade
from foldline.chat_history import _table
from foldline.checkpoint import _stored as stored
from foldline.exceptions import StoreError
from foldline.utils._data_places import is_url

OLD = Schema(
    kind="fruit",
    tables=("fruit",),
    create="CREATE TABLE fruit (place {number}, name TEXT NOT NULL); CREATE INDEX by_name ON fruit (name)",
)
RENAME = """
ALTER TABLE fruit RENAME TO foldline_fruit;
ALTER TABLE foldline_fruit ADD COLUMN weight {big};
DROP INDEX by_name;
CREATE INDEX foldline_by_name ON foldline_fruit (name)
"""
RENAME_KEY = "ALTER INDEX fruit_pkey RENAME TO foldline_fruit_pkey"
NEW = Schema(
    kind="fruit",
    tables=("foldline_fruit",),
    create="""
    CREATE TABLE foldline_fruit (place {number}, name TEXT NOT NULL, weight {big});
    CREATE INDEX foldline_by_name ON foldline_fruit (name)
    """,
    upgrades=(Upgrade(sqlite=RENAME, postgres=f"{RENAME}; {RENAME_KEY}"),),
)
DATA = Path(__file__).parent / "data"


def execute(place: str, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Run a statement past foldline."""
    if is_url(place):
        with psycopg.connect(place, autocommit=True) as connection:
            query: Any = statement.replace("?", "%s") if values else statement
            cursor = connection.execute(query, values or None)
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(place)) as connection:
        rows = connection.execute(statement, values).fetchall()
        connection.commit()
        return rows


def structure(place: str) -> list[tuple[Any, ...]]:
    """Return the columns and indexes of all tables."""
    if is_url(place):
        columns = execute(
            place,
            "SELECT table_name, column_name, data_type, is_nullable, column_default, is_identity, collation_name "
            "FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2",
        )
        same = [tuple("CURRENT_TIMESTAMP" if x == "now()" else x for x in row) for row in columns]
        indexes = (
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"
        )
        return same + execute(place, indexes)
    found: list[tuple[Any, ...]] = []
    tables = "SELECT type, name, tbl_name FROM sqlite_master ORDER BY 1, 2"
    for kind, name, table in execute(place, tables):
        detail = execute(place, f"PRAGMA {kind}_{'x' if kind == 'index' else ''}info('{name}')")
        options = execute(place, f"SELECT strict, wr FROM pragma_table_list WHERE name = '{name}'")
        found.append((kind, name, table, detail, options))
    return found


def add(database: Database, table: str = "fruit") -> None:
    statement = f"INSERT INTO {table} (name) VALUES (?)"
    database.write(lambda connection: connection.run(statement, ("plum",)))


def test_an_upgraded_place_has_the_same_tables_as_a_new_one(
    place: str, tmp_path: Path, postgres_url: str
):
    add(open_database(place, OLD))
    upgraded = open_database(place, NEW)
    rows, upgraded_tables = (
        upgraded.rows("SELECT name, weight FROM foldline_fruit"),
        structure(place),
    )
    new_place = str(tmp_path / "new.db")
    if is_url(place):
        execute(place, "DROP TABLE foldline_fruit, foldline_schema")
        new_place = place
    open_database(new_place, NEW)

    assert rows == [("plum", None)]
    assert upgraded_tables == structure(new_place)
    assert execute(new_place, "SELECT * FROM foldline_schema") == [("fruit", 2)]


@pytest.mark.parametrize(
    ("schema", "dump"), [(_table.SCHEMA, "history"), (stored.SCHEMA, "checkpoints")]
)
def test_the_tables_of_an_old_file_become_those_of_a_new_one(
    schema: Schema, dump: str, tmp_path: Path
):
    old, new = str(tmp_path / "old.db"), str(tmp_path / "new.db")
    with closing(sqlite3.connect(old)) as connection:
        connection.executescript((DATA / f"{dump}.sql").read_text())

    open_database(old, schema)
    open_database(new, schema)

    assert structure(old) == structure(new)


@pytest.mark.parametrize("schema", [_table.SCHEMA, stored.SCHEMA])
def test_the_tables_of_an_old_database_become_those_of_a_new_one(schema: Schema, postgres_url: str):
    table = schema.tables[0]
    execute(postgres_url, (DATA / "postgres.sql").read_text())
    open_database(postgres_url, schema)
    upgraded = [row for row in structure(postgres_url) if str(row[0]).startswith(table)]
    execute(postgres_url, f"DROP TABLE {table}, foldline_schema")

    open_database(postgres_url, schema)

    assert upgraded == [row for row in structure(postgres_url) if str(row[0]).startswith(table)]


KILLED = """
import os, sys
from foldline._storage import schema
from foldline._storage.open_database import open_database
from tests.storage.test_schema import NEW

place, last = sys.argv[1], int(sys.argv[2])
statements_of = schema.statements_of

def some(script, dialect):
    for number, statement in enumerate(statements_of(script, dialect)):
        if number == last:
            os.kill(os.getpid(), 9)
        yield statement
    os.kill(os.getpid(), 9)

schema.statements_of = some
open_database(place, NEW)
"""


@pytest.mark.slow
@pytest.mark.parametrize("last", range(5))
def test_an_upgrade_that_is_killed_leaves_the_old_version(last: int, place: str):
    database = open_database(place, OLD)
    add(database)
    database.close()
    before = structure(place)
    root = Path(foldline.__file__).parents[2]

    killed = subprocess.run([sys.executable, "-c", KILLED, place, str(last)], cwd=root, check=False)

    assert killed.returncode == -9
    assert structure(place) == before
    assert open_database(place, OLD).rows("SELECT name FROM fruit") == [("plum",)]
    assert open_database(place, NEW).rows("SELECT name FROM foldline_fruit") == [("plum",)]


def shout(connection: Connection) -> None:
    connection.run("ALTER TABLE fruit RENAME TO foldline_fruit")
    names = connection.rows("SELECT place, name FROM foldline_fruit")
    connection.each(
        "UPDATE foldline_fruit SET name = ? WHERE place = ?",
        [(name.upper(), place) for place, name in names],
    )


def test_an_upgrade_may_be_a_function_and_is_undone_where_it_fails(place: str):
    def fail(connection: Connection) -> None:
        connection.run("DROP TABLE foldline_fruit")
        raise RuntimeError("no")

    def schema(*steps: Upgrade) -> Schema:
        return Schema("fruit", ("foldline_fruit",), NEW.create, upgrades=steps)

    add(open_database(place, OLD))
    before = structure(place)
    with pytest.raises(RuntimeError, match="no"):
        open_database(place, schema(Upgrade(shout, shout), Upgrade(fail, fail)))
    assert structure(place) == before

    database = open_database(place, schema(Upgrade(shout, shout)))

    assert database.rows("SELECT name FROM foldline_fruit") == [("PLUM",)]


def test_what_one_database_has_is_created_in_it_alone(place: str):
    own = Upgrade("CREATE TABLE only_sqlite (a TEXT)", "CREATE TABLE only_postgres (a TEXT)")
    open_database(place, Schema("fruit", ("fruit",), OLD.create, create_own=own))

    tables = str(structure(place))
    assert ("only_postgres" in tables) == is_url(place)
    assert ("only_sqlite" in tables) == (not is_url(place))


def test_tables_that_an_older_version_made_elsewhere_are_found(postgres_url: str):
    def find(connection: Connection) -> int:
        query = "SELECT 1 FROM pg_tables WHERE schemaname = 'orchard' AND tablename = 'fruit'"
        return 1 if connection.row(query) else 0

    schema = Schema(
        "fruit",
        ("foldline_fruit",),
        NEW.create,
        upgrades=(Upgrade("", "ALTER TABLE orchard.fruit SET SCHEMA public; " + str(RENAME)),),
        find_elsewhere=find,
    )
    server = PostgresServer(postgres_url)
    assert not has_tables(server, schema)
    execute(postgres_url, "CREATE SCHEMA orchard")
    execute(postgres_url, "CREATE TABLE orchard.fruit (place BIGINT, name TEXT NOT NULL)")
    execute(postgres_url, "CREATE INDEX by_name ON orchard.fruit (name)")
    execute(postgres_url, "INSERT INTO orchard.fruit VALUES (1, 'plum')")

    assert has_tables(server, schema)
    database = open_database(server, schema)

    assert database.rows("SELECT name FROM foldline_fruit") == [("plum",)]
    assert execute(postgres_url, "SELECT * FROM foldline_schema") == [("fruit", 2)]
    assert has_tables(server, schema)
    database.close()


def test_a_newer_version_is_refused_and_nothing_is_written(place: str):
    add(open_database(place, NEW), "foldline_fruit")
    before = structure(place)

    with pytest.raises(StoreError, match=r"newer foldline \(version 2 of 'fruit', .* version 1"):
        open_database(place, OLD)

    assert structure(place) == before
    assert execute(place, "SELECT * FROM foldline_schema") == [("fruit", 2)]


@pytest.mark.parametrize("has_connection", [True, False])
def test_a_process_with_the_place_open_is_told_both_versions_after_an_upgrade(
    has_connection: bool, place: str
):
    database = open_database(place, OLD)
    add(database)
    open_database(place, NEW)
    if not has_connection:
        database.close()

    message = r"version 2 of 'fruit', this one knows version 1\); nothing of this operation"
    if has_connection or not is_url(place):
        with pytest.raises(StoreError, match=message):
            add(database)
    for read in (
        lambda: database.rows("SELECT name FROM fruit"),
        lambda: database.read(lambda connection: connection.row("SELECT name FROM fruit")),
        lambda: list(database.pages("SELECT name FROM fruit")),
    ):
        with pytest.raises(StoreError, match=message):
            read()
    assert execute(place, "SELECT name FROM foldline_fruit") == [("plum",)]


def test_a_table_that_somebody_removed_is_named(place: str):
    database = open_database(place, NEW)
    execute(place, "DROP TABLE foldline_fruit")

    with pytest.raises(StoreError, match="foldline_fruit") as caught:
        add(database, "foldline_fruit")

    assert "newer" not in str(caught.value)


@pytest.mark.parametrize("version", ["two", "2", b"\x02", None, 0, -1, 2**40, 1.5])
def test_a_damaged_version_is_an_error_that_names_it(version: Any, place: str):
    add(open_database(place, OLD))
    postgres = {str: "TEXT", bytes: "BYTEA", int: "BIGINT", float: "REAL", type(None): "INTEGER"}
    column = postgres[type(version)] if is_url(place) else "BLOB"
    execute(place, "DROP TABLE foldline_schema")
    execute(place, f"CREATE TABLE foldline_schema (kind TEXT PRIMARY KEY, version {column})")
    execute(place, "INSERT INTO foldline_schema VALUES ('fruit', ?)", (version,))

    with pytest.raises(StoreError, match=r"foldline_schema has .* as the version of 'fruit'"):
        open_database(place, OLD)

    assert execute(place, "SELECT name FROM fruit") == [("plum",)]


def test_two_kinds_and_a_programs_own_tables_share_a_place(place: str):
    execute(place, "CREATE TABLE messages (body TEXT)")
    execute(place, "CREATE TABLE checkpoints (body TEXT)")

    for schema in (NEW, _table.SCHEMA, stored.SCHEMA):
        open_database(place, schema)

    kinds = execute(place, "SELECT kind FROM foldline_schema ORDER BY kind")
    assert kinds == [("checkpoints",), ("fruit",), ("history",), ("snapshots",), ("workers",)]
    assert execute(place, "SELECT * FROM messages") == []


# -- locks


def test_every_lock_has_a_number_of_its_own():
    assert len({lock.value for lock in LockNumber}) == len(LockNumber.__members__)


def test_only_the_registry_has_numbers_of_locks():
    source = Path(foldline.__file__).parent
    number = re.compile(r"\b73645\d\d\b|advisory\w*lock\w*\([^)]*\b\d+\s*\)")

    with_numbers = {
        file.relative_to(source).as_posix()
        for file in source.rglob("*.py")
        if number.search(file.read_text(encoding="utf-8"))
    }

    assert with_numbers == {"_storage/schema.py"}
