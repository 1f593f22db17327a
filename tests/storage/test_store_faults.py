"""Faults of the place under every store, in a SQLite file and in PostgreSQL, from one body.

Each time: a `StoreError` that says so, all of an operation or nothing of it, and a store that works again afterwards.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from foldline._storage.open_database import open_database
from foldline._storage.postgres import PostgresServer
from foldline._storage.sqlite_database import SqliteConnection, SqliteDatabase
from foldline.caches import PostgresCache, SQLiteCache
from foldline.chat_history import PostgresChatMessageHistory, SQLiteChatMessageHistory
from foldline.checkpoint import Entry, PostgresSaver, SqliteSaver
from foldline.embeddings import DeterministicFakeEmbedding
from foldline.exceptions import StoreError
from foldline.graph import PostgresStore as PostgresItems, PutOp, SqliteCache, SqliteStore
from foldline.indexing import PostgresRecordManager, SQLiteRecordManager
from foldline.messages import HumanMessage
from foldline.outputs import Generation
from foldline.serve._log.events import encode_event
from foldline.serve._log.records import EventsToKeep, RunRecord, make_event
from foldline.serve._log.run_log import ServerLog
from foldline.stores import PostgresByteStore, SQLiteStore
from foldline.utils._data_places import is_url
from foldline.vectorstores import SQLiteVectorStore
from tests.servers.databases import Server, _accepts, wait_until
from tests.storage.test_schema import execute

NAMES = ("a", "b", "c", "d")


class Kind(NamedTuple):
    """A store that writes rows `name 1` and `name 2` in one operation, and reads the names of all rows."""

    table: str
    open_file: Callable[[str], Any]
    open_postgres: Callable[[str], Any] | None
    write: Callable[[Any, list[str], str], object]
    """Writes names, each with some text."""
    read: Callable[[Any, list[str]], list[str]]
    """Reads those of the names that are there."""


def write_entries(saver: Any, names: list[str], text: str) -> None:
    log = saver.read("t", "")
    last = log[-1].id if log else None
    saver.append("t", "", [Entry(name, last, f'"{text}"') for name in names], after=last)


def write_results(cache: Any, names: list[str], text: str) -> None:
    for name in names:
        cache.set(("n",), name, text, None)


def write_answers(cache: Any, names: list[str], text: str) -> None:
    for name in names:
        cache.update(name, "model", [Generation(text=text)])


def write_runs(log: Any, names: list[str], text: str) -> None:
    runs = [
        RunRecord(name, "", "app", "runs", None, "success", 1.0, log.worker, {"text": text})
        for name in names
    ]
    event = encode_event(make_event("values", text, 1))
    log.keep([EventsToKeep(run, 1, [event], is_new=True, is_over=True) for run in runs])


KINDS = {
    "history": Kind(
        "foldline_messages",
        lambda path: SQLiteChatMessageHistory("s", path),
        lambda url: PostgresChatMessageHistory("s", url),
        lambda store, names, text: store.add_messages(
            [HumanMessage(text, id=name) for name in names]
        ),
        lambda store, names: [message.id for message in store.messages],
    ),
    "checkpoints": Kind(
        "foldline_checkpoints",
        SqliteSaver,
        PostgresSaver,
        write_entries,
        lambda store, names: [entry.id for entry in store.read("t", "")],
    ),
    "claims": Kind(
        "foldline_writers",
        SqliteSaver,
        PostgresSaver,
        lambda store, names, text: [store.claim(name, f"run {text}") for name in names],
        lambda store, names: [
            row[0] for row in store._database.rows("SELECT thread FROM foldline_writers ORDER BY 1")
        ],
    ),
    "cache": Kind(
        "foldline_answers",
        SQLiteCache,
        PostgresCache,
        write_answers,
        lambda store, names: [name for name in names if store.lookup(name, "model")],
    ),
    "store": Kind(
        "foldline_pairs",
        SQLiteStore,
        PostgresByteStore,
        lambda store, names, text: store.mset([(name, text.encode()) for name in names]),
        lambda store, names: sorted(store.yield_keys()),
    ),
    "index": Kind(
        "foldline_records",
        lambda path: SQLiteRecordManager("n", path),
        lambda url: PostgresRecordManager("n", url),
        lambda store, names, text: store.update(names, group_ids=[text] * len(names)),
        lambda store, names: sorted(store.list_keys()),
    ),
    "items": Kind(
        "foldline_items",
        SqliteStore,
        PostgresItems,
        lambda store, names, text: store.batch(
            [PutOp(("n",), name, {"text": text}) for name in names]
        ),
        lambda store, names: [name for name in names if store.get(("n",), name)],
    ),
    "node results": Kind(
        "foldline_node_results",
        SqliteCache,
        None,
        write_results,
        lambda store, names: [name for name in names if store.get(("n",), name)],
    ),
    "vectors": Kind(
        "foldline_vectors",
        lambda path: SQLiteVectorStore(DeterministicFakeEmbedding(size=4), path),
        None,
        lambda store, names, text: store.add_texts([text] * len(names), ids=names),
        lambda store, names: [each.id for each in store.get_by_ids(names)],
    ),
    "run log": Kind(
        "serve_runs",
        ServerLog,
        ServerLog,
        write_runs,
        lambda store, names: [name for name in names if store.run(name) and store.events(name, 0)],
    ),
}
ONE_BY_ONE = ("claims", "cache", "node results")
"""Stores whose operation has one row."""


class Place:
    """A place with one store, and what may happen to it."""

    def __init__(self, name: str, place: str) -> None:
        self.kind, self.place = KINDS[name], place
        self.size = 1 if name in ONE_BY_ONE else 2
        self.is_file = not is_url(place)
        self.store = self.open()

    def open(self) -> Any:
        opener = self.kind.open_file if self.is_file else self.kind.open_postgres
        assert opener is not None
        return opener(self.place)

    def names(self, name: str) -> list[str]:
        return [f"{name} {number + 1}" for number in range(self.size)]

    def write(self, name: str, text: str = "x") -> None:
        self.kind.write(self.store, self.names(name), text)

    def read(self, store: Any = None) -> str:
        """Return the letters of all names, checked to be complete."""
        every = [full for name in NAMES for full in self.names(name)]
        found = self.kind.read(self.store if store is None else store, every)
        letters = list(dict.fromkeys(full[0] for full in found))
        assert found == [full for letter in letters for full in self.names(letter)]
        return "".join(letters)

    @contextmanager
    def full_disk(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        if not self.is_file:
            execute(self.place, FULL.format(table=self.kind.table))
            yield
            execute(self.place, f"DROP TRIGGER foldline_full ON {self.kind.table}")
            return
        open_connection = SqliteDatabase._open

        def open_bounded(database: SqliteDatabase) -> SqliteConnection:
            connection = open_connection(database)
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
            return connection

        with patch.context() as context:
            context.setattr(SqliteDatabase, "_open", open_bounded)
            self.store.close()
            self.store = self.open()
            yield
        self.store.close()
        self.store = self.open()

    @contextmanager
    def lock(self) -> Iterator[None]:
        if self.is_file:
            with closing(sqlite3.connect(self.place, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                yield
                other.execute("ROLLBACK")
            return
        with psycopg.connect(self.place) as session:
            session.execute(f"LOCK TABLE {self.kind.table} IN ACCESS EXCLUSIVE MODE")  # type: ignore[arg-type]
            yield
            session.rollback()


FULL = """
CREATE FUNCTION foldline_full() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER foldline_full BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION foldline_full()
"""


def of(*places: str) -> list[Any]:
    return [
        pytest.param((name, place), id=f"{name}-{place}")
        for name, kind in KINDS.items()
        for place in places
        if place == "file" or kind.open_postgres is not None
    ]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    name, where = request.param
    url = str(tmp_path / "store.db") if where == "file" else request.getfixturevalue("postgres_url")
    found = Place(name, url)
    yield found
    found.store.close()


BOTH = pytest.mark.parametrize("place", of("file", "postgres"), indirect=True)
FILES = pytest.mark.parametrize("place", of("file"), indirect=True)
SERVERS = pytest.mark.parametrize("place", of("postgres"), indirect=True)


@BOTH
def test_a_full_disk_is_a_store_error_and_nothing_is_written_by_half(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    place.write("a")

    with place.full_disk(monkeypatch), pytest.raises(StoreError, match=r"full|could not extend"):
        place.write("b", "x" * 100_000 if place.is_file else "x")

    assert place.read() == "a"
    place.write("c")
    assert place.read() == "ac"


@FILES
def test_a_file_that_is_gone_is_a_store_error_and_the_next_operation_makes_a_new_one(place: Place):
    place.write("a")
    for file in Path(place.place).parent.glob("store.db*"):
        file.unlink()

    with pytest.raises(StoreError, match=r"store.db was removed or replaced .* nothing"):
        place.write("b")

    place.write("c")
    assert place.read() == "c"


@SERVERS
def test_a_database_that_is_gone_is_a_store_error(place: Place, postgres_server: Server):
    place.write("a")
    execute(postgres_server.url, f"DROP DATABASE {place.place.rpartition('/')[2]} WITH (FORCE)")

    with pytest.raises(StoreError, match=r"PostgreSQL.*does not exist"):
        place.write("b")


@FILES
@pytest.mark.parametrize("damage", ["beginning", "half", "other file"])
def test_a_damaged_file_is_a_store_error_when_it_is_opened(place: Place, damage: str):
    place.write("a", "x" * 5000)
    place.store.close()
    path = Path(place.place)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    good = path.read_bytes()
    bad = {
        "beginning": b"\0" * 100 + good[100:],
        "half": good[: len(good) // 2 // 4096 * 4096],
        "other file": b"A letter to a friend. " * 1000,
    }
    path.write_bytes(bad[damage])

    with pytest.raises(StoreError, match=r"store.db"):
        place.read(place.open())

    assert path.read_bytes() == bad[damage]


@BOTH
def test_a_lock_of_another_is_waited_for_in_bounds(place: Place, monkeypatch: pytest.MonkeyPatch):
    place.write("a")
    place.store.close()
    for function in (open_database, PostgresServer.__init__):
        monkeypatch.setitem(function.__kwdefaults__, "patience", 0.3)
    place.store = place.open()
    began = time.monotonic()

    with place.lock(), pytest.raises(StoreError, match=r"more than 0.3 s: try again"):
        place.write("b")

    assert time.monotonic() - began < 5
    assert place.read() == "a"
    place.write("c")
    assert place.read() == "ac"


@SERVERS
def test_a_connection_that_is_lost_is_replaced(place: Place):
    place.write("a")
    execute(
        place.place,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )

    place.write("b")

    assert place.read() == "ab"


@pytest.mark.slow
def test_a_server_that_restarts_is_not_noticed_by_any_store(
    postgres_server: Server, postgres_url: str
):
    kinds = [name for name, kind in KINDS.items() if kind.open_postgres is not None]
    places = [Place(name, postgres_url) for name in kinds if name != "claims"]
    for place in places:
        place.write("a")

    postgres_server.stop()
    for place in places:
        with pytest.raises(StoreError, match="PostgreSQL"):
            place.write("b")
    postgres_server.start()
    wait_until(lambda: _accepts(postgres_server.url), "postgres")

    for place in places:
        place.write("c")
        assert place.read() == "ac"
        place.store.close()


@BOTH
def test_a_place_of_a_newer_version_is_refused_and_unchanged(place: Place):
    place.write("a")
    place.store.close()
    before = execute(place.place, f"SELECT * FROM {place.kind.table}")
    execute(place.place, "UPDATE foldline_schema SET version = 99")

    with pytest.raises(StoreError, match=r"newer foldline \(version 99 of"):
        place.open()

    assert execute(place.place, f"SELECT * FROM {place.kind.table}") == before


@BOTH
@pytest.mark.parametrize("seconds", [-7200, 7200])
def test_a_clock_that_jumps_loses_nothing_and_changes_no_order(
    place: Place, seconds: float, monkeypatch: pytest.MonkeyPatch
):
    place.write("a")
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + seconds)
    place.write("b")
    assert place.read() == "ab"

    monkeypatch.undo()

    place.write("c")
    assert place.read() == "abc"
    assert place.read(place.open()) == "abc"
