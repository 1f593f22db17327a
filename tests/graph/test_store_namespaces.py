"""Namespaces of stores, texts at paths, and stores whose concurrent calls are one batch."""

from __future__ import annotations

import asyncio
from collections import UserDict
from types import MappingProxyType

import pytest

from foldline._items.base import InvalidNamespaceError
from foldline._items.paths import get_text_at_path
from foldline.checkpoint import InMemorySaver
from foldline.graph import GetOp, InMemoryStore, PostgresStore, PutOp, SearchOp, SqliteStore
from foldline.graph.store.base import (
    AsyncBatchedBaseStore,
    ListNamespacesOp,
    MatchCondition,
    validate_op_namespace,
)
from tests.graph.lines import line

BAD = [("a.b",), ("a\x00",), ("a", ""), (1,), "a"]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request, tmp_path):
    if request.param == "memory":
        return InMemoryStore()
    if request.param == "sqlite":
        return SqliteStore(tmp_path / "store.db")
    return PostgresStore(request.getfixturevalue("postgres_server").url)


@pytest.mark.parametrize("namespace", BAD)
@pytest.mark.parametrize("method", ["get", "put", "delete", "search", "prefix", "suffix"])
def test_G43_a_label_must_be_a_text_without_periods_in_every_method(call, store, namespace, method):
    calls = {
        "get": lambda: call.run(store, "get", namespace, "k"),
        "put": lambda: call.run(store, "put", namespace, "k", {}),
        "delete": lambda: call.run(store, "delete", namespace, "k"),
        "search": lambda: call.run(store, "search", namespace),
        "prefix": lambda: call.run(store, "list_namespaces", prefix=namespace),
        "suffix": lambda: call.run(store, "list_namespaces", suffix=namespace),
    }

    with pytest.raises(InvalidNamespaceError):
        calls[method]()


@pytest.mark.parametrize("namespace", BAD)
def test_G43_a_batch_is_checked_before_any_of_it_is_executed(call, store, namespace):
    ops = [
        GetOp(namespace, "k"),
        PutOp(namespace, "k", {}),
        SearchOp(namespace),
        ListNamespacesOp((MatchCondition("prefix", namespace),)),
    ]
    for op in ops:
        with pytest.raises(InvalidNamespaceError):
            validate_op_namespace(op)
        with pytest.raises(InvalidNamespaceError):
            call.run(store, "batch", [PutOp(("checked",), "k", {"a": 1}), op])

    assert call.run(store, "get", ("checked",), "k") is None


def test_G43_only_writes_refuse_the_reserved_root_and_an_empty_namespace_has_no_values(call, store):
    with pytest.raises(InvalidNamespaceError, match="langgraph"):
        call.run(store, "put", ("langgraph", "x"), "k", {})
    with pytest.raises(InvalidNamespaceError, match="empty"):
        call.run(store, "get", (), "k")

    assert call.run(store, "get", ("langgraph", "x"), "k") is None
    validate_op_namespace(PutOp(("langgraph", "x"), "k", {}))


def test_G43_empty_prefixes_and_wildcards_keep_their_meaning(call, store):
    call.run(store, "put", ("g43", "a_%"), "k", {"v": 1})
    call.run(store, "put", ("g43", "b", "child"), "k", {"v": 2})

    everything = {item.namespace for item in call.run(store, "search", (), limit=1000)}
    listing = call.run(store, "list_namespaces", prefix=("g43", "*"), suffix=("*",))

    assert everything >= {("g43", "a_%"), ("g43", "b", "child")}
    assert sorted(listing) == [("g43", "a_%"), ("g43", "b", "child")]


VALUE = {
    "title": "pears",
    "person": {"name": "ann", "age": 7, "notes": None},
    "facts": [{"text": "one", "tags": ["x", "y"]}, {"text": "two", "tags": []}],
}


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("title", ["pears"]),
        ("person.age", ["7"]),
        ("person.notes", []),
        ("person.*", ["ann", "7"]),
        ("facts[*].text", ["one", "two"]),
        ("facts[-1].text", ["two"]),
        ("facts[1].tags", ["[]"]),
        ("{title,person.name}", ["pears", "ann"]),
        ("facts[*].{text,tags[0]}", ["one", "x", "two"]),
        ("facts[7]", []),
        ("facts[].text", []),
        ("facts[x]", []),
        ("{title", []),
        ("nothing.here", []),
    ],
)
def test_G43_a_path_leads_to_texts(path, texts):
    assert get_text_at_path(VALUE, path) == texts


@pytest.mark.parametrize("kind", [dict, UserDict, MappingProxyType])
def test_G43_the_path_of_the_value_itself_is_its_json(kind):
    value = kind({"b": 1, "a": "é"})

    assert get_text_at_path(value, "$") == get_text_at_path(value, "") == ['{"a": "é", "b": 1}']
    assert get_text_at_path(None, "a") == []


class Batched(AsyncBatchedBaseStore):
    def __init__(self):
        super().__init__()
        self.inner = InMemoryStore()
        self.batches = []

    def batch(self, ops):
        return self.inner.batch(ops)

    async def abatch(self, ops):
        self.batches.append(list(ops))
        await asyncio.sleep(0)
        return self.inner.batch(ops)


def test_G43_concurrent_calls_are_one_batch_and_equal_ones_one_operation():
    async def check():
        store = Batched()

        await asyncio.gather(store.aput(("a",), "k", {"v": 1}), store.aput(("a",), "k", {"v": 2}))
        items = await asyncio.gather(
            store.aget(("a",), "k"), store.aget(("a",), "k"), store.asearch(("a",), filter={"v": 2})
        )

        assert [len(batch) for batch in store.batches] == [1, 2]
        assert items[0].value == items[1].value == items[2][0].value == {"v": 2}

    asyncio.run(check())


def test_G43_a_cancelled_call_and_an_invalid_one_leave_the_others_alone():
    async def check():
        store = Batched()
        await store.aput(("a",), "k", {"v": 1})

        cancelled = asyncio.ensure_future(store.aget(("a",), "k"))
        await asyncio.sleep(0)
        cancelled.cancel()
        results = await asyncio.gather(
            store.aget(("a",), "k"), store.aget(("a.b",), "k"), return_exceptions=True
        )

        assert results[0].value == {"v": 1}
        assert isinstance(results[1], InvalidNamespaceError)

    asyncio.run(check())


def test_G43_an_error_of_a_batch_reaches_its_callers_and_the_next_batch_works():
    async def check():
        class Flaky(Batched):
            async def abatch(self, ops):
                if not self.batches:
                    self.batches.append([])
                    raise OSError("down")
                return await super().abatch(ops)

        store = Flaky()
        results = await asyncio.gather(
            store.aget(("a",), "k"), store.aget(("b",), "k"), return_exceptions=True
        )

        assert [str(result) for result in results] == ["down", "down"]
        assert await store.aget(("a",), "k") is None

    asyncio.run(check())


def test_G43_a_graph_takes_such_a_store(call):
    store = Batched()

    def remember(state, *, store):
        store.put(("seen",), "k", {"log": state["log"]})
        return {"log": ["kept"]}

    graph = line(("a", remember), saver=InMemorySaver(), store=store)
    call.invoke(graph, {"log": ["in"]}, {"configurable": {"thread_id": "1"}})

    assert call.run(store, "get", ("seen",), "k").value == {"log": ["in"]}
