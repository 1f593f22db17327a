"""What the storage seam promises, on a SQLite file, in memory and on PostgreSQL, from one body."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import psycopg
import pytest

from foldline._storage.database import Connection, Database
from foldline._storage.open_database import open_database
from foldline._storage.sqlite_database import SqliteDatabase
from foldline.exceptions import StoreError
from tests.read_only import open_folder, reading_only
from tests.servers.databases import Server
from tests.storage.conftest import FRUIT

__all__ = ["open_folder"]

ADD = "INSERT INTO foldline_fruit (name, weight) VALUES (?, ?)"
NAMES = "SELECT name FROM foldline_fruit ORDER BY place"


def names(database: Database) -> list[str]:
    return [row[0] for row in database.rows(NAMES)]


def add(database: Database, *fruit: str) -> None:
    database.write(lambda connection: connection.each(ADD, [(name, 1) for name in fruit]))


def test_statements_return_rows_one_row_and_counts(database: Database):
    def work(connection: Connection) -> tuple[Any, ...]:
        connection.each(ADD, [("plum", 30), ("fig", 20), ("100 % pear", 90)])
        connection.each(ADD, [])
        return (
            connection.rows("SELECT name, weight FROM foldline_fruit ORDER BY weight"),
            connection.row("SELECT name FROM foldline_fruit WHERE weight > ?", (50,)),
            connection.row("SELECT name FROM foldline_fruit WHERE weight > ?", (500,)),
            connection.run("UPDATE foldline_fruit SET weight = weight + ?", (1,)),
            connection.row("SELECT name FROM foldline_fruit WHERE name LIKE '100 %'"),
        )

    assert database.write(work) == (
        [("fig", 20), ("plum", 30), ("100 % pear", 90)],
        ("100 % pear",),
        None,
        3,
        ("100 % pear",),
    )
    assert database.read(lambda connection: connection.rows(NAMES)) == database.rows(NAMES)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, StoreError])
def test_a_write_that_fails_writes_nothing_and_the_next_one_works(
    database: Database, error: type[BaseException]
):
    def work(connection: Connection) -> None:
        connection.run(ADD, ("plum", 1))
        raise error("stop")

    with pytest.raises(error, match="stop"):
        database.write(work)

    assert names(database) == []
    add(database, "fig")
    assert names(database) == ["fig"]


def test_a_write_that_breaks_a_rule_writes_nothing_and_names_the_place(database: Database):
    with pytest.raises(StoreError, match=r"(?i)unique") as caught:
        add(database, "plum", "plum")

    assert database.where in str(caught.value) or "PostgreSQL" in str(caught.value)
    assert names(database) == []


def test_a_read_sees_one_snapshot(place: str):
    database, other = open_database(place, FRUIT), open_database(place, FRUIT)
    add(database, "plum")

    def work(connection: Connection) -> list[int]:
        before = len(connection.rows(NAMES))
        add(other, "fig")
        return [before, len(connection.rows(NAMES))]

    assert database.read(work) == [1, 1]
    assert names(database) == ["plum", "fig"]


def test_pages_are_of_one_snapshot(place: str):
    database = open_database(place, FRUIT)
    add(database, *[f"plum {number}" for number in range(10)])

    sizes = []
    for page in database.pages(NAMES, size=4):
        sizes.append(len(page))
        add(database, f"fig {len(sizes)}")

    assert sizes == [4, 4, 2]
    assert len(names(database)) == 13


def test_pages_bind_values_and_close_early_without_holding_a_connection(database: Database):
    add(database, *[f"plum {number}" for number in range(100)])
    query = "SELECT name FROM foldline_fruit WHERE weight = ? ORDER BY place"

    for _ in range(20):  # more often than there are connections
        pages = database.pages(query, (1,), size=10)
        assert len(next(pages)) == 10
        pages.close()
        del pages
    gc.collect()

    add(database, "fig")
    assert sum(map(len, database.pages(query, (1,)))) == 101


def test_pages_inside_pages_are_read_in_one_transaction(database: Database):
    add(database, "plum", "fig", "pear")

    def pairs(connection: Connection) -> list[tuple[str, str]]:
        return [
            (first, second)
            for page in connection.pages(NAMES, size=1)
            for (first,) in page
            for inner_page in connection.pages(NAMES, size=1)
            for (second,) in inner_page
        ]

    assert len(set(database.read(pairs))) == 9


@pytest.mark.parametrize("fails", [False, True])
def test_pages_that_outlive_their_transaction_end_and_the_next_read_sees_what_is_new(
    fails: bool, place: str
):
    database, other = open_database(place, FRUIT), open_database(place, FRUIT)
    add(database, "plum", "fig", "pear")
    unread: list[Any] = []

    def work(connection: Connection) -> None:
        unread.append(connection.pages(NAMES, size=1))
        next(unread[0])
        if fails:
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop") if fails else nullcontext():
        database.read(work)
    add(other, "lime")

    assert names(database) == ["plum", "fig", "pear", "lime"]
    assert database.read(lambda connection: connection.rows(NAMES))[-1] == ("lime",)
    add(database, "kiwi")
    with pytest.raises((sqlite3.ProgrammingError, psycopg.Error)):
        list(unread[0])


def test_half_a_character_is_refused_and_nothing_is_written(database: Database):
    with pytest.raises(StoreError, match="surrogate"):
        add(database, "plum", "half \ud800")
    with pytest.raises(StoreError, match="surrogate"):
        database.rows("SELECT name FROM foldline_fruit WHERE name = ?", ("\udfff",))
    with pytest.raises(StoreError, match="surrogate"):
        list(database.pages("SELECT name FROM foldline_fruit WHERE name = ?", ("\udfff",)))

    assert names(database) == []


def test_many_threads_write_and_nothing_is_lost(database: Database):
    def work(number: int) -> None:
        for turn in range(5):
            add(database, f"{number}-{turn}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(names(database))) == 100


def test_a_forked_child_uses_connections_of_its_own(place: str):
    database = open_database(place, FRUIT)
    add(database, "plum")

    def work(connection: Connection) -> int:
        connection.run(ADD, ("of the parent", 1))
        child = os.fork()
        if child == 0:
            try:
                seen = names(database)  # the parent's transaction is under way
                os._exit(0 if seen == ["plum"] else 1)
            except BaseException:  # noqa: BLE001  the child must not return into the test
                os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert database.write(work) == 0
    assert names(database) == ["plum", "of the parent"]


def test_a_forked_child_writes_and_its_end_leaves_the_parents_connections_open(place: str):
    database = open_database(place, FRUIT)
    add(database, "plum")
    child = os.fork()
    if child == 0:
        try:
            add(database, "of the child")
            database.close()
            gc.collect()
            os._exit(0)
        except BaseException:  # noqa: BLE001  the child must not return into the test
            os._exit(2)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    add(database, "fig")
    assert names(database) == ["plum", "of the child", "fig"]


# -- connections that break


def break_connection(connection: Connection) -> None:
    connection.run("SELECT pg_terminate_backend(pg_backend_pid())")


def test_work_whose_connection_breaks_is_done_again(postgres_url: str):
    database, attempts = open_database(postgres_url, FRUIT), list[int]()

    def work(connection: Connection) -> None:
        attempts.append(1)
        connection.run(ADD, ("plum", 1))
        if len(attempts) == 1:
            break_connection(connection)

    database.write(work, may_repeat=False)  # nothing was committed: a repeat is safe

    assert len(attempts) == 2
    assert names(database) == ["plum"]


@pytest.mark.parametrize("may_repeat", [True, False])
def test_a_commit_whose_answer_is_lost_is_repeated_only_if_allowed(
    may_repeat: bool, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    import psycopg

    database, attempts = open_database(postgres_url, FRUIT), list[int]()
    commit, losses = psycopg.Transaction.__exit__, list[int]()

    def commit_and_break(self: Any, *error: Any) -> Any:
        result = commit(self, *error)
        if len(attempts) == 1 and not losses:
            losses.append(1)
            raise psycopg.OperationalError("the answer was lost")
        return result

    def work(connection: Connection) -> None:
        attempts.append(1)
        connection.run(f"{ADD} ON CONFLICT DO NOTHING", ("plum", 1))

    monkeypatch.setattr(psycopg.Transaction, "__exit__", commit_and_break)
    if may_repeat:
        database.write(work)
    else:
        with pytest.raises(StoreError, match="whether it was written is not known"):
            database.write(work, may_repeat=False)

    assert len(attempts) == (2 if may_repeat else 1)
    assert names(database) == ["plum"]


@pytest.mark.parametrize("may_repeat", [True, False])
def test_a_second_commit_whose_answer_is_lost_too_is_not_said_to_be_unwritten(
    may_repeat: bool, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    database, attempts = open_database(postgres_url, FRUIT), list[int]()
    commit = psycopg.Transaction.__exit__

    def commit_and_break(self: Any, *error: Any) -> Any:
        result = commit(self, *error)
        if len(attempts) == 2:
            raise psycopg.OperationalError("the answer was lost")
        return result

    def work(connection: Connection) -> None:
        attempts.append(1)
        connection.run(ADD, ("plum", 1))
        if len(attempts) == 1:
            break_connection(connection)

    monkeypatch.setattr(psycopg.Transaction, "__exit__", commit_and_break)
    with pytest.raises(StoreError, match="whether it was written is not known"):
        database.write(work, may_repeat=may_repeat)
    monkeypatch.undo()

    assert names(database) == ["plum"]


@pytest.mark.slow
def test_a_restart_of_the_server_is_survived(postgres_server: Server, postgres_url: str):
    database = open_database(postgres_url, FRUIT)
    add(database, "plum")

    postgres_server.stop()
    with pytest.raises(StoreError, match="PostgreSQL"):
        add(database, "fig")
    postgres_server.start()
    for _ in range(100):
        try:
            add(database, "pear")
            break
        except StoreError:
            threading.Event().wait(0.1)

    assert names(database) == ["plum", "pear"]


# -- faults of files


def test_a_lock_of_another_process_is_waited_for_in_bounds(tmp_path: Path):
    database = SqliteDatabase(tmp_path / "fruit.db", FRUIT, patience=0.2)
    with closing(sqlite3.connect(tmp_path / "fruit.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreError, match=r"fruit.db.*locked.*more than 0.2 s: try again"):
            add(database, "plum")
        assert names(database) == []
        other.execute("ROLLBACK")

    add(database, "fig")
    assert names(database) == ["fig"]


def test_a_full_disk_is_named_and_nothing_is_written_by_half(tmp_path: Path):
    database = SqliteDatabase(tmp_path / "fruit.db", FRUIT, pool_size=1)
    add(database, "plum")

    def fill(connection: Connection) -> None:
        connection.run("PRAGMA max_page_count = 8")  # what a full disk gives: SQLITE_FULL
        connection.each(ADD, [(f"{number} " + "x" * 5000, 1) for number in range(50)])

    with pytest.raises(StoreError, match="the disk is full: free some space"):
        database.write(fill)

    assert names(database) == ["plum"]
    add(database, "fig")
    assert names(database) == ["plum", "fig"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(StoreError, match=r"none.fruit.db.*check that the folder exists"):
        SqliteDatabase(tmp_path / "none" / "fruit.db", FRUIT)


def test_a_file_that_is_no_database_is_not_changed(tmp_path: Path):
    path = tmp_path / "fruit.db"
    path.write_text("a letter to a friend, " * 100)

    with pytest.raises(StoreError, match="damaged or no database"):
        SqliteDatabase(path, FRUIT)

    assert path.read_text() == "a letter to a friend, " * 100


def test_a_file_that_is_removed_gives_no_silent_loss(tmp_path: Path):
    path = tmp_path / "fruit.db"
    database = SqliteDatabase(path, FRUIT)
    add(database, "plum")
    for file in tmp_path.iterdir():
        file.unlink()

    with pytest.raises(StoreError, match=r"fruit.db was removed or replaced .* nothing"):
        add(database, "fig")
    add(database, "pear")
    assert names(database) == ["pear"]
    assert path.exists()


def test_a_relative_path_means_the_same_file_after_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    database = SqliteDatabase("fruit.db", FRUIT)
    add(database, "plum")
    monkeypatch.chdir(tmp_path / "sub")

    add(database, "fig")
    database.close()

    assert names(database) == ["plum", "fig"]
    assert not (tmp_path / "sub" / "fruit.db").exists()


def test_a_file_that_is_replaced_gives_no_silent_loss(tmp_path: Path):
    path, other = tmp_path / "fruit.db", tmp_path / "other.db"
    database = SqliteDatabase(path, FRUIT)
    add(database, "plum")
    new = SqliteDatabase(other, FRUIT)
    add(new, "fig")
    new.close()
    for file in tmp_path.glob("fruit.db*"):
        file.unlink()
    other.rename(path)

    with pytest.raises(StoreError, match=r"fruit.db.*(removed|replaced)"):
        add(database, "pear")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(NAMES).fetchall() == [("fig",)]
    assert names(database) == ["fig"]


def test_a_file_that_is_replaced_is_an_error_of_each_object_that_had_it_open(tmp_path: Path):
    path = tmp_path / "fruit.db"
    first, second = open_database(path, FRUIT), open_database(path, FRUIT)
    add(first, "plum")
    assert names(second) == ["plum"]
    for file in tmp_path.glob("fruit.db*"):
        file.unlink()

    third = open_database(path, FRUIT)  # it never had the other file
    for database in (first, second):
        with pytest.raises(StoreError, match="removed or replaced"):
            add(database, "lost")
        add(database, f"new {id(database)}")

    assert len(names(third)) == 2


# -- many objects of one place


@pytest.mark.parametrize("is_async", [False, True])
def test_many_objects_of_one_place_share_its_connections(place: str, is_async: bool):
    def work(number: int) -> Database:
        database = open_database(place, FRUIT)
        add(database, f"fruit {number}")
        return database

    async def all_at_once() -> list[Database]:
        return await asyncio.gather(*(asyncio.to_thread(work, number) for number in range(150)))

    if is_async:
        databases = asyncio.run(all_at_once())
    else:
        with ThreadPoolExecutor(16) as threads:
            databases = list(threads.map(work, range(150)))

    assert all(len(names(database)) == 150 for database in databases)
    if place.startswith("postgresql"):
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        assert databases[0].rows(query)[0][0] <= 8
    elif os.path.isdir("/proc/self/fd"):
        links = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
        # Of the log: SQLite keeps descriptors of the main file of closed connections while others have it open.
        assert links.count(f"{os.path.realpath(place)}-wal") <= 8


def test_a_file_that_may_not_be_written_says_so(tmp_path: Path):
    database = SqliteDatabase(tmp_path / "fruit.db", FRUIT)

    def work(connection: Connection) -> None:
        connection.run(ADD, ("plum", 1))

    # As without the right; root may write everything.
    database.read(lambda connection: connection.run("PRAGMA query_only = ON"))
    with pytest.raises(StoreError, match=r"readonly.*may be written"):
        database.write(work)
    assert names(database) == []


def test_a_file_is_for_its_owner_alone(tmp_path: Path):
    SqliteDatabase(tmp_path / "fruit.db", FRUIT)
    assert (tmp_path / "fruit.db").stat().st_mode & 0o077 == 0


# -- files that others replace, or that may only be read


def test_a_file_that_is_followed_is_opened_anew_where_it_was_replaced_or_removed(tmp_path: Path):
    path, other = tmp_path / "fruit.db", tmp_path / "other.db"
    database = open_database(path, FRUIT, follows_file=True)
    add(database, "plum")
    add(open_database(other, FRUIT), "fig")
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for file in tmp_path.glob("fruit.db*"):
        file.unlink()
    other.rename(path)
    found = names(database)

    for file in tmp_path.glob("fruit.db*"):
        file.unlink()
    add(database, "pear")

    assert found == ["fig"]
    assert names(database) == ["pear"]


def test_a_file_in_a_folder_that_may_only_be_read_is_read_as_it_is_now(open_folder: Path):
    path = open_folder / "fruit.db"
    writer = SqliteDatabase(path, FRUIT)
    add(writer, "plum")
    writer.close()

    with reading_only(open_folder):
        reader = SqliteDatabase(path, FRUIT)
        assert names(reader) == ["plum"]
        with pytest.raises(StoreError, match=r"readonly.*may be written"):
            add(reader, "pear")
    path.chmod(0o600)
    add(writer, "fig")

    assert sorted(names(reader)) == ["fig", "plum"]
    add(reader, "pear")
    assert sorted(names(writer)) == ["fig", "pear", "plum"]


def test_a_file_that_may_only_be_read_and_whose_log_cannot_be_read_is_an_error(open_folder: Path):
    path, copy = open_folder / "fruit.db", open_folder / "copies" / "fruit.db"
    writer = SqliteDatabase(path, FRUIT)
    writer.maintain("PRAGMA wal_checkpoint(TRUNCATE)")
    add(writer, "plum")  # it is in the log only, as after the end of a killed process
    copy.parent.mkdir()
    for suffix in ("", "-wal"):
        copy.with_name(copy.name + suffix).write_bytes(Path(f"{path}{suffix}").read_bytes())

    with (
        reading_only(copy.parent),
        pytest.raises(StoreError, match=r"fruit\.db-wal.*may be written"),
    ):
        names(SqliteDatabase(copy, FRUIT))

    assert names(SqliteDatabase(copy, FRUIT)) == ["plum"]


def test_a_database_waits_for_other_writers_as_long_as_it_is_given(tmp_path: Path):
    path = tmp_path / "fruit.db"
    database = open_database(path, FRUIT, patience=0.01)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"another process held it for more than 0\.01 s"):
            add(database, "plum")

    add(database, "plum")
    assert names(database) == ["plum"]


def test_statements_that_cannot_be_in_a_transaction_are_maintenance(database: Database):
    add(database, "plum")

    database.maintain("VACUUM", "ANALYZE foldline_fruit")

    assert names(database) == ["plum"]
    with pytest.raises(StoreError, match="foldline_nothing"):
        database.maintain("ANALYZE foldline_nothing")
    assert names(database) == ["plum"]
