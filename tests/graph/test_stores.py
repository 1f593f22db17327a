"""Stores with namespaces and search: the same in memory, in SQLite and in PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from foldline.embeddings import DeterministicFakeEmbedding
from foldline.exceptions import BlockingCallError, SchemaError, UsageError
from foldline.graph import GetOp, InMemoryStore, PostgresStore, PutOp, SearchOp, SqliteStore
from tests.servers.databases import postgres_server

__all__ = ["postgres_server"]


def letters(texts):
    """A vector of how often a, b and c occur."""
    return [[text.count(letter) + 0.01 for letter in "abc"] for text in texts]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make(request, tmp_path):
    def build(index=None):
        if request.param == "memory":
            return InMemoryStore(index=index)
        if request.param == "sqlite":
            return SqliteStore(tmp_path / "store.db", index=index)
        server = request.getfixturevalue("postgres_server")
        store = PostgresStore(server.url, index=index)
        for name in store.list_namespaces(limit=1000):
            for item in store.search(name, limit=1000):
                store.delete(item.namespace, item.key)
        return store

    return build


def test_values_are_kept_read_and_forgotten(call, make):
    store = make()
    call.run(store, "put", ("users", "ann"), "food", {"likes": "pears"})
    found = call.run(store, "get", ("users", "ann"), "food")
    call.run(store, "put", ("users", "ann"), "food", {"likes": "plums"})
    changed = call.run(store, "get", ("users", "ann"), "food")
    call.run(store, "delete", ("users", "ann"), "food")

    assert (found.value, found.key, found.namespace) == (
        {"likes": "pears"},
        "food",
        ("users", "ann"),
    )
    assert changed.value == {"likes": "plums"}
    assert changed.created_at == found.created_at
    assert changed.updated_at > found.updated_at
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

    found = call.run(store, "search", ("notes",), query="a", limit=1)

    assert [item.key for item in found] == ["as"]
    assert found[0].score == pytest.approx(1, abs=0.01)
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
        asked: ClassVar[list[str]] = []

        async def aembed_query(self, text):
            self.asked.append(text)
            return await super().aembed_query(text)

    model = Model(size=3)
    store = make({"dims": 3, "embed": model})
    store.put(("notes",), "a", {"text": "aaa"})

    assert [item.key for item in asyncio.run(store.asearch(("notes",), query="q"))] == ["a"]
    assert model.asked == ["q"]
