"""Stores with namespaces and search: the same in memory, in SQLite and in PostgreSQL."""

from __future__ import annotations

import asyncio
import pickle
import typing
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import ClassVar

import psycopg
import pytest

from foldline._items import engine
from foldline.embeddings import DeterministicFakeEmbedding
from foldline.exceptions import BlockingCallError, SchemaError, UsageError
from foldline.graph import GetOp, InMemoryStore, PostgresStore, PutOp, SearchOp, SqliteStore
from foldline.graph.store.base import BaseStore, Item, ListNamespacesOp, MatchCondition, SearchItem
from tests.servers.databases import postgres_server, postgres_url, wait_until

__all__ = ["postgres_server", "postgres_url"]


def letters(texts):
    """A vector of how often a, b and c occur."""
    return [[text.count(letter) + 0.01 for letter in "abc"] for text in texts]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make(request, tmp_path):
    def build(index=None, ttl=None):
        if request.param == "memory":
            return InMemoryStore(index=index, ttl=ttl)
        if request.param == "sqlite":
            return SqliteStore(tmp_path / "store.db", index=index, ttl=ttl)
        server = request.getfixturevalue("postgres_server")
        used = PostgresStore(server.url)
        used.sweep_ttl()
        for name in used.list_namespaces(limit=1000):
            for item in used.search(name, limit=1000):
                used.delete(item.namespace, item.key)
        used.close()
        return PostgresStore(server.url, index=index, ttl=ttl)

    return build


def test_values_are_kept_read_and_forgotten(call, make):
    store = make()
    call.run(store, "put", ("users", "ann"), "food", {"likes": "pears"})
    item = call.run(store, "get", ("users", "ann"), "food")
    call.run(store, "put", ("users", "ann"), "food", {"likes": "plums"})
    changed_item = call.run(store, "get", ("users", "ann"), "food")
    call.run(store, "delete", ("users", "ann"), "food")

    assert (item.value, item.key, item.namespace) == (
        {"likes": "pears"},
        "food",
        ("users", "ann"),
    )
    assert changed_item.value == {"likes": "plums"}
    assert changed_item.created_at == item.created_at
    assert changed_item.updated_at > item.updated_at
    assert call.run(store, "get", ("users", "ann"), "food") is None


def test_a_search_is_under_its_namespace_and_by_its_filter(call, make):
    store = make()
    for number in range(6):
        store.put(
            ("a", "x" if number % 2 else "y"), str(number), {"n": number, "odd": bool(number % 2)}
        )
    store.put(("ab",), "other", {"n": 1})

    assert {item.key for item in call.run(store, "search", ("a",))} == set("012345")
    assert {item.key for item in call.run(store, "search", ("a", "x"))} == set("135")
    assert {
        item.key
        for item in call.run(store, "search", ("a",), filter={"odd": True, "n": {"$gt": 1}})
    } == {"3", "5"}
    assert len(call.run(store, "search", ("a",), limit=2, offset=5)) == 1
    with pytest.raises(UsageError, match=r"supports \$eq"):
        store.search(("a",), filter={"n": {"$near": 1}})


def test_a_search_by_meaning_gives_the_nearest_first(call, make):
    store = make({"dims": 3, "embed": letters, "fields": ["text"]})
    store.put(("notes",), "as", {"text": "aaa"})
    store.put(("notes",), "bs", {"text": "bbb"})
    store.put(("notes",), "hidden", {"text": "aaaa"}, index=False)

    items = call.run(store, "search", ("notes",), query="a", limit=1)

    assert [item.key for item in items] == ["as"]
    assert items[0].score == pytest.approx(1, abs=0.01)
    assert {item.key for item in store.search(("notes",), query="a")} == {"as", "bs"}


def test_namespaces_are_listed(call, make):
    store = make()
    for namespace in (("a", "b", "c"), ("a", "d", "c"), ("x",)):
        store.put(namespace, "k", {"v": 1})

    assert call.run(store, "list_namespaces") == [("a", "b", "c"), ("a", "d", "c"), ("x",)]
    assert call.run(store, "list_namespaces", prefix=("a",), max_depth=2) == [
        ("a", "b"),
        ("a", "d"),
    ]
    assert call.run(store, "list_namespaces", suffix=("*", "c")) == [
        ("a", "b", "c"),
        ("a", "d", "c"),
    ]


def test_what_is_too_old_is_not_found(call, make):
    store = make()
    store.put(("a",), "old", {"v": 1}, ttl=-1)
    store.put(("a",), "new", {"v": 1}, ttl=10)

    assert call.run(store, "get", ("a",), "old") is None
    assert [item.key for item in call.run(store, "search", ("a",))] == ["new"]


def test_a_namespace_without_a_value_that_lasts_is_not_listed(call, make):
    store = make()
    store.put(("gone",), "old", {"v": 1}, ttl=-1)
    store.put(("there",), "old", {"v": 1}, ttl=-1)
    store.put(("there",), "new", {"v": 1}, ttl=10)

    assert call.run(store, "list_namespaces") == [("there",)]


class Clock:
    """The time of the stores, which a test can move."""

    minutes = 0

    def now(self, zone):
        return datetime.now(zone) + timedelta(minutes=self.minutes)

    fromisoformat = staticmethod(datetime.fromisoformat)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(engine, "datetime", clock)
    return clock


def test_reading_a_value_starts_its_time_again(call, make, clock):
    store = make()
    for key in ("got", "found", "untouched"):
        store.put(("a", key), key, {"v": 1}, ttl=4)
    for _ in range(3):
        clock.minutes += 2
        assert call.run(store, "get", ("a", "got"), "got") is not None
        assert len(call.run(store, "search", ("a", "found"))) == 1
        assert call.run(store, "get", ("a", "got"), "got", refresh_ttl=False) is not None

    assert store.get(("a", "untouched"), "untouched") is None


@pytest.mark.parametrize(
    ("config", "arguments"), [({"refresh_on_read": False}, {}), (None, {"refresh_ttl": False})]
)
def test_reading_does_not_start_the_time_again_where_it_should_not(
    call, make, clock, config, arguments
):
    store = make(ttl=config)
    store.put(("a",), "k", {"v": 1}, ttl=3)
    call.run(store, "get", ("a",), "k", **arguments)
    call.run(store, "search", ("a",), **arguments)
    clock.minutes += 2
    call.run(store, "get", ("a",), "k", **arguments)
    call.run(store, "search", ("a",), **arguments)
    clock.minutes += 2

    assert call.run(store, "get", ("a",), "k") is None
    assert call.run(store, "search", ("a",)) == []


def test_a_page_of_a_search_starts_only_its_own_time_again(make, clock):
    store = make()
    for number in range(3):
        store.put(("a",), str(number), {"n": number}, ttl=3)
    for _ in range(2):
        clock.minutes += 2
        shown = store.search(("a",), limit=1)

    assert [item.key for item in shown] == ["2"]
    assert [item.key for item in store.search(("a",))] == ["2"]


def test_a_store_has_a_time_for_values_that_have_none(call, make):
    store = make(ttl={"default_ttl": -1})
    call.run(store, "put", ("a",), "default", {"v": 1})
    call.run(store, "put", ("a",), "never", {"v": 1}, ttl=None)
    call.run(store, "put", ("a",), "own", {"v": 1}, ttl=10)

    assert {item.key for item in store.search(("a",))} == {"never", "own"}


def test_what_is_too_old_is_deleted(call, make):
    store = make()
    store.put(("a",), "old", {"v": 1}, ttl=-1)
    store.put(("a",), "new", {"v": 1}, ttl=10)
    store.put(("a",), "forever", {"v": 1})

    assert call.run(store, "sweep_ttl") == 1
    assert call.run(store, "sweep_ttl") == 0
    assert {item.key for item in store.search(("a",))} == {"forever", "new"}


def test_a_write_deletes_what_is_too_old_where_the_store_is_told_to(make):
    store = make(ttl={"sweep_interval_minutes": 60})
    store.put(("a",), "first", {"v": 1}, ttl=-1)  # the first write sweeps, itself included
    store.put(("a",), "second", {"v": 1}, ttl=-1)  # within the hour: it stays

    assert store.sweep_ttl() == 1


def test_a_value_that_was_written_again_keeps_its_new_time(make):
    store = make()
    store.put(("a",), "k", {"v": 1}, ttl=10)
    row = store._read("a\x1f", "k")
    store.put(("a",), "k", {"v": 2}, ttl=-1)
    store._renew([(row, "9999")])

    assert store.get(("a",), "k") is None


OLD_TABLE = """
CREATE TABLE foldline_items (
    namespace TEXT COLLATE "C" NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL, until TEXT, vectors TEXT{ttl}, PRIMARY KEY (namespace, key)
)
"""
COLUMNS = """
SELECT column_name, data_type, is_nullable, column_default, collation_name FROM information_schema.columns
WHERE table_schema = 'public' ORDER BY table_name, column_name
"""


def columns(url):
    with psycopg.connect(url) as connection:
        indexes = (
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"
        )
        versions = "SELECT kind, version FROM foldline_schema"
        return [connection.execute(query).fetchall() for query in (COLUMNS, indexes, versions)]


@pytest.mark.parametrize("ttl", ["", ", ttl DOUBLE PRECISION"])
def test_a_table_of_an_older_version_keeps_its_values(postgres_url, ttl):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(OLD_TABLE.format(ttl=ttl))
        connection.execute(
            "INSERT INTO foldline_items (namespace, key, value, created_at, updated_at) "
            "VALUES ('a\x1f', 'k', '{}', '2026-01-01', '2026-01-01')"
        )

    store = PostgresStore(postgres_url)
    store.put(("a",), "expiring", {"v": 2}, ttl=10)

    assert {item.key for item in store.search(("a",))} == {"k", "expiring"}
    upgraded = columns(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP TABLE foldline_items, foldline_schema")
    PostgresStore(postgres_url).close()
    assert upgraded == columns(postgres_url)


def test_writers_of_the_same_values_do_not_wait_for_one_another_for_ever(make):
    store = make()
    names = [f"{number:03}" for number in range(300)]

    def write(turn):
        order = names if turn % 2 else names[::-1]
        store.batch([PutOp(("a",), name, {"turn": turn}) for name in order])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(24)))

    assert len({item.value["turn"] for item in store.search(("a",), limit=1000)}) == 1


def test_writers_that_delete_what_others_write_do_not_wait_for_one_another_for_ever(make):
    store = make()
    names = [f"{number:03}" for number in range(300)]

    def write(turn):
        put, deleted = (names[:150], names[150:]) if turn % 2 else (names[150:], names[:150])
        values = [PutOp(("a",), name, {"turn": turn}) for name in put]
        store.batch([*values, *[PutOp(("a",), name, None) for name in deleted]])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(24)))

    items = store.search(("a",), limit=1000)
    assert len(items) == 150
    assert len({item.value["turn"] for item in items}) == 1


def test_of_two_batches_that_delete_what_the_other_puts_one_is_second(postgres_url):
    store = PostgresStore(postgres_url)
    store.put(("n",), "z", {})
    with ThreadPoolExecutor(2) as pool, psycopg.connect(postgres_url) as other:
        other.execute("SELECT 1 FROM foldline_items WHERE key = 'z' FOR UPDATE")
        first = pool.submit(  # it stops at the locked row, when it has done the rest
            store.batch,
            [PutOp(("n",), "a", {}), PutOp(("n",), "b", None), PutOp(("n",), "z", {"v": 1})],
        )
        wait_until(lambda: waiting_count(postgres_url) == 1, "the first batch")
        second = pool.submit(store.batch, [PutOp(("n",), "a", None), PutOp(("n",), "b", {})])
        wait_until(lambda: second.done() or waiting_count(postgres_url) == 2, "the second")
        other.commit()
        first.result(30)
        second.result(30)

    assert [item.key for item in store.search(("n",))] in (["b", "z"], ["a", "z"])


def waiting_count(url):
    """How many connections wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchone()[0]


def test_several_things_are_done_at_once(call, make):
    store = make()
    store.put(("a",), "1", {"v": 1})

    results = call.run(
        store,
        "batch",
        [
            GetOp(("a",), "1"),
            PutOp(("a",), "2", {"v": 2}),
            SearchOp(("a",)),
            PutOp(("a",), "1", None),
        ],
    )

    assert results[0].value == {"v": 1}
    assert [item.key for item in results[2]] == ["1"]
    assert [item.key for item in store.search(("a",))] == ["2"]


@pytest.mark.parametrize("namespace", [(), "text", ("a.b",), ("",), (1,)])
def test_a_namespace_that_cannot_be_kept_is_refused(make, namespace):
    with pytest.raises(UsageError, match="namespace"):
        make().put(namespace, "k", {"v": 1})


def test_a_value_that_is_no_json_is_refused(make):
    with pytest.raises(SchemaError, match="'k' cannot be stored"):
        make().put(("a",), "k", {"v": object()})
    with pytest.raises(UsageError, match="a store holds dicts"):
        make().put(("a",), "k", "text")


def test_an_async_function_embeds_on_the_event_loop(make):
    async def aletters(texts):
        return letters(texts)

    store = make({"dims": 3, "embed": aletters, "fields": ["text"]})

    async def search():
        await store.aput(("notes",), "as", {"text": "aaa"})
        await store.aput(("notes",), "bs", {"text": "bbb"})
        return await store.asearch(("notes",), query="b", limit=1)

    assert [item.key for item in asyncio.run(search())] == ["bs"]
    with pytest.raises(BlockingCallError, match="is async"):
        store.put(("notes",), "cs", {"text": "ccc"})


def test_an_async_search_asks_the_async_method_of_a_model(make):
    class Model(DeterministicFakeEmbedding):
        queries: ClassVar[list[str]] = []

        async def aembed_query(self, text):
            self.queries.append(text)
            return await super().aembed_query(text)

    model = Model(size=3)
    store = make({"dims": 3, "embed": model})
    store.put(("notes",), "a", {"text": "aaa"})

    assert [item.key for item in asyncio.run(store.asearch(("notes",), query="q"))] == ["a"]
    assert model.queries == ["q"]


OPERATIONS = [GetOp, PutOp, SearchOp, ListNamespacesOp, MatchCondition]


@pytest.mark.parametrize("cls", [Item, SearchItem, *OPERATIONS, BaseStore, InMemoryStore])
def test_a_class_of_a_store_says_its_public_path_and_its_annotations_have_types(cls):
    assert cls.__module__.startswith("foldline.graph.store.")
    assert all(not isinstance(hint, str) for hint in typing.get_type_hints(cls).values())


def test_an_item_is_pickled_under_its_public_path(make):
    store = make()
    store.put(("users",), "ann", {"likes": "pears"})
    item = store.get(("users",), "ann")

    assert b"foldline.graph.store.base" in pickle.dumps(item)
    assert pickle.loads(pickle.dumps(item)) == item
