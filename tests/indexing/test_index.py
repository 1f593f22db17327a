from __future__ import annotations

import asyncio

import pytest

from foldline.documents import Document
from foldline.embeddings import DeterministicFakeEmbedding
from foldline.exceptions import UsageError
from foldline.indexing import (
    DocumentIndex,
    IndexingException,
    InMemoryRecordManager,
    PostgresRecordManager,
    SQLiteRecordManager,
    aindex,
    index,
)
from foldline.indexing.in_memory import InMemoryDocumentIndex
from foldline.vectorstores import InMemoryVectorStore

DATABASES = ["sqlite", "postgres"]


@pytest.fixture
def open_records(request, tmp_path):
    """Opens the records of a namespace in the database that the test names."""

    def once(kind, namespace="n"):
        if kind == "memory":
            return InMemoryRecordManager(namespace)
        if kind == "sqlite":
            return SQLiteRecordManager(namespace, tmp_path / "r.db")
        return PostgresRecordManager(namespace, request.getfixturevalue("postgres_url"))

    return once


@pytest.fixture(params=["memory", *DATABASES])
def records(request, open_records):
    return open_records(request.param)


@pytest.fixture
def store():
    return InMemoryVectorStore(DeterministicFakeEmbedding(size=3))


@pytest.fixture
def run(call, records, store):
    """Index as `call` does, sync or async; gives (added, updated, deleted, skipped)."""

    def once(documents, target=store, **options):
        if not call.is_async:
            result = index(documents, records, target, **options)
        else:
            result = asyncio.run(aindex(documents, records, target, **options))
        return tuple(result[f"num_{name}"] for name in ("added", "updated", "deleted", "skipped"))

    return once


def of(text, source="s", **metadata):
    return Document(text, metadata={"source": source, **metadata})


def texts(store):
    return sorted(entry["text"] for entry in store.store.values())


BY_SOURCE = {"cleanup": "incremental", "source_id_key": "source"}


def test_documents_are_added_once(run, store):
    assert run([of("a"), of("b"), of("a")]) == (2, 0, 0, 1)
    assert run([of("a"), of("c")]) == (1, 0, 0, 1)
    assert texts(store) == ["a", "b", "c"]


def test_metadata_makes_another_document(run, store):
    assert run([of("a", page=1), of("a", page=2)]) == (2, 0, 0, 0)


def test_incremental_takes_out_what_a_source_no_longer_has(run, store):
    run([of("a", "1"), of("b", "1"), of("c", "2")], **BY_SOURCE)
    assert run([of("a", "1"), of("new", "1")], **BY_SOURCE) == (1, 0, 1, 1)
    assert texts(store) == ["a", "c", "new"]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
def test_a_source_that_spans_batches_is_not_deleted_and_added_again(run, store, batch_size):
    many = [of(f"{n}", "1") for n in range(5)] + [of("other", "2")]
    run(many, batch_size=batch_size, **BY_SOURCE)
    assert run(many[1:], batch_size=batch_size, **BY_SOURCE) == (0, 0, 1, 5)
    assert texts(store) == ["1", "2", "3", "4", "other"]


def test_scoped_full_cleans_the_sources_seen(run, store):
    run([of("a", "1"), of("b", "2")], cleanup="scoped_full", source_id_key="source")
    options = {
        "cleanup": "scoped_full",
        "source_id_key": lambda document: document.metadata["source"],
    }
    assert run([of("a2", "1")], **options) == (1, 0, 1, 0)
    assert texts(store) == ["a2", "b"]


def test_full_takes_out_all_that_was_not_seen(run, store):
    run([of("a", "1"), of("b", "2"), of("c", "3")])
    assert run([of("b", "2")], cleanup="full", cleanup_batch_size=1) == (0, 0, 2, 1)
    assert texts(store) == ["b"]
    assert run([], cleanup="full") == (0, 0, 1, 0)


def test_without_cleanup_nothing_is_deleted(run, store):
    run([of("a")])
    assert run([of("b")]) == (1, 0, 0, 0)
    assert texts(store) == ["a", "b"]


def test_a_forced_update_writes_again(run):
    run([of("a")])
    assert run([of("a"), of("b")], force_update=True) == (1, 1, 0, 0)


@pytest.mark.parametrize(
    "encoder",
    ["sha1", "sha256", "sha512", "blake2b", lambda document: f"key {document.page_content}"],
)
def test_keys_are_hashes_or_what_a_function_says(run, store, encoder):
    assert run([of("a")], key_encoder=encoder) == (1, 0, 0, 0)
    assert run([of("a")], key_encoder=encoder) == (0, 0, 0, 1)
    if callable(encoder):
        assert list(store.store) == ["key a"]


class Loader:
    def lazy_load(self):
        yield of("lazily")


def test_sources_are_loaders_and_iterators(run, store, call):
    assert run(Loader()) == (1, 0, 0, 0)
    assert run(iter([of("x")])) == (1, 0, 0, 0)

    async def flow():
        yield of("from a stream")

    if call.is_async:
        assert run(flow()) == (1, 0, 0, 0)


def test_a_document_index_is_a_target_too(run, call):
    target = InMemoryDocumentIndex()
    run([of("a cat", "1"), of("a dog", "2")], target, **BY_SOURCE)
    assert run([of("a bird", "2")], target, **BY_SOURCE) == (1, 0, 1, 0)
    assert sorted(document.page_content for document in target.store.values()) == [
        "a bird",
        "a cat",
    ]
    assert call.invoke(target, "bird")[0].page_content == "a bird"
    assert call.run(target, "get", ["nobody"]) == []
    assert call.run(target, "delete", list(target.store))["num_deleted"] == 2
    with pytest.raises(UsageError, match="name the ids"):
        call.run(target, "delete")


def test_a_target_that_fails_is_told_and_the_record_is_not_written(run, records):
    class Refuses(InMemoryDocumentIndex):
        def upsert(self, items, /, **kwargs):
            return {"succeeded": [], "failed": [item.id for item in items]}

    with pytest.raises(IndexingException, match="did not take"):
        run([of("a")], Refuses())
    assert records.list_keys() == []


def test_a_failure_in_the_middle_is_made_good_by_the_next_run(run, store):
    def breaks():
        yield of("a", "1")
        raise OSError("unplugged")

    run([of("old", "1")], **BY_SOURCE)
    with pytest.raises(OSError, match="unplugged"):
        run(breaks(), batch_size=1, **BY_SOURCE)
    assert "old" in texts(store)
    assert run([of("a", "1")], **BY_SOURCE) == (0, 0, 1, 1)
    assert texts(store) == ["a"]


@pytest.mark.parametrize(
    ("documents", "options", "message"),
    [
        ([of("a")], {"cleanup": "incremental"}, "needs source_id_key"),
        ([Document("a")], BY_SOURCE, "needs a source"),
        ([of("a")], {"cleanup": "now"}, "not 'now'"),
        ([of("a")], {"source_id_key": 7}, "not 7"),
        ([of("a")], {"key_encoder": "md5"}, "'md5'"),
        ([of("a")], {"batch_size": 0}, "batch_size"),
        (["text"], {}, "not str"),
        (7, {}, "not int"),
        ([of("a", x=object())], {}, "not JSON"),
    ],
)
def test_wrong_calls_say_what_to_write(run, documents, options, message):
    with pytest.raises(UsageError, match=message):
        run(documents, **options)


def test_a_target_that_is_none_is_refused(run):
    with pytest.raises(UsageError, match="not dict"):
        run([of("a")], {})


def test_records_know_time_group_and_limit(records, call):
    call.run(records, "create_schema")
    start = call.run(records, "get_time")
    call.run(records, "update", ["a", "b"], group_ids=["1", None])
    middle = call.run(records, "get_time")
    call.run(records, "update", ["c", "a"], group_ids=["2", None], time_at_least=middle)
    assert call.run(records, "exists", ["a", "x", "c"]) == [True, False, True]
    assert call.run(records, "list_keys", before=middle) == ["b"]
    assert sorted(call.run(records, "list_keys", after=start)) == ["a", "b", "c"]
    assert call.run(records, "list_keys", group_ids=["1"]) == ["a"], (
        "a group is kept when none is given"
    )
    assert call.run(records, "list_keys", group_ids=["' OR 1=1 --"]) == []
    assert len(call.run(records, "list_keys", limit=2)) == 2
    assert len(call.run(records, "list_keys", group_ids=["1", "2"], limit=1)) == 1
    call.run(records, "delete_keys", ["a", "nobody"])
    assert call.run(records, "exists", ["a"]) == [False]


def test_records_refuse_wrong_groups_and_a_clock_that_goes_back(records, call):
    with pytest.raises(UsageError, match="one group per key"):
        call.run(records, "update", ["a"], group_ids=["1", "2"])
    with pytest.raises(UsageError, match="backwards"):
        call.run(records, "update", ["a"], time_at_least=1e18)


@pytest.mark.parametrize("kind", DATABASES)
def test_namespaces_in_one_place_are_apart(open_records, kind):
    first, other = open_records(kind, "one"), open_records(kind, "two")
    first.update(["a"])
    assert other.exists(["a"]) == [False]
    other.delete_keys(["a"])
    assert first.list_keys() == ["a"]
    first.close()


@pytest.mark.parametrize("kind", DATABASES)
def test_any_text_is_a_key_and_a_group(open_records, kind):
    records = open_records(kind, "n\0\ud800")
    keys = ["", "\0", "\ud800", "ä", "%_?", "'; --"]
    records.update(keys, group_ids=keys)

    assert records.exists([*keys, "none"]) == [*[True] * 6, False]
    assert sorted(records.list_keys()) == sorted(keys)
    assert [records.list_keys(group_ids=[key]) for key in keys] == [[key] for key in keys]


def test_many_keys_are_found_and_listed_oldest_first(records):
    keys = [f"{number:04}" for number in range(1200)]
    records.update(keys[:600])
    records.update(keys[600:])

    assert records.exists([*keys, "none"]) == [*[True] * 1200, False]
    assert records.list_keys() == keys
    assert records.list_keys(limit=0) == []
    records.delete_keys(keys[1:])
    assert records.list_keys() == keys[:1]


def test_no_keys_are_no_work(records):
    records.update([])
    records.delete_keys([])

    assert records.exists([]) == []
    assert records.list_keys(group_ids=[]) == []


def test_records_in_postgres_have_the_time_of_the_database(open_records, monkeypatch):
    records = open_records("postgres")
    now = records.get_time()
    monkeypatch.setattr("time.time", lambda: 5.0)
    records.update(["a"], time_at_least=now)

    assert records.get_time() > now > 1.7e9
    assert records.list_keys(after=now, before=records.get_time()) == ["a"]


def test_an_index_of_documents_must_be_written_whole():
    with pytest.raises(TypeError, match="abstract"):
        DocumentIndex()
