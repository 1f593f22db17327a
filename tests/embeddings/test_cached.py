from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from foldline.embeddings import CacheBackedEmbeddings, DeterministicFakeEmbedding, Embeddings
from foldline.exceptions import StoreError, UsageError
from foldline.stores import InMemoryByteStore, InMemoryStore, LocalFileStore, SQLiteStore


class Counting(Embeddings):
    def __init__(self):
        self.batches = []
        self.modes = set()

    def embed_documents(self, texts):
        self.modes.add("sync")
        return self._made(texts)

    async def aembed_documents(self, texts):
        self.modes.add("async")
        return self._made(texts)

    def _made(self, texts):
        self.batches.append(list(texts))
        return [[float(len(text)), 0.1] for text in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]

    async def aembed_query(self, text):
        return (await self.aembed_documents([text]))[0]


@pytest.fixture(params=["memory", "file", "sqlite"])
def store(request, tmp_path):
    kinds = {
        "memory": InMemoryByteStore,
        "file": lambda: LocalFileStore(tmp_path),
        "sqlite": lambda: SQLiteStore(tmp_path / "s.db"),
    }
    return kinds[request.param]()


def test_a_text_is_embedded_once_and_comes_back_unchanged(store, call):
    model = Counting()
    cached = CacheBackedEmbeddings.from_bytes_store(model, store, namespace="m")
    first = call.run(cached, "embed_documents", ["a", "bb", "a"])
    assert call.run(cached, "embed_documents", ["bb", "ccc"]) == [[2.0, 0.1], [3.0, 0.1]]
    assert first == [[1.0, 0.1], [2.0, 0.1], [1.0, 0.1]]
    assert model.batches == [["a", "bb"], ["ccc"]]
    assert model.modes == {call.mode}


def test_queries_are_kept_only_when_asked_for(call):
    model = Counting()
    plain = CacheBackedEmbeddings.from_bytes_store(model, InMemoryByteStore())
    assert call.run(plain, "embed_query", "a") == call.run(plain, "embed_query", "a")
    assert len(model.batches) == 2
    cached_embeddings = CacheBackedEmbeddings.from_bytes_store(
        model, InMemoryByteStore(), query_embedding_cache=True
    )
    assert call.run(cached_embeddings, "embed_query", "a") == call.run(
        cached_embeddings, "embed_query", "a"
    )
    assert len(model.batches) == 3
    apart = InMemoryByteStore()
    other = CacheBackedEmbeddings.from_bytes_store(
        model, InMemoryByteStore(), query_embedding_cache=apart
    )
    call.run(other, "embed_query", "a")
    assert len(list(apart.yield_keys())) == 1


def test_namespaces_keep_models_apart():
    store = InMemoryByteStore()
    small, large = DeterministicFakeEmbedding(size=2), DeterministicFakeEmbedding(size=3)
    for options in ({"namespace": ""}, {}):
        first = CacheBackedEmbeddings.from_bytes_store(small, store, **options)
        two = CacheBackedEmbeddings.from_bytes_store(large, store, **options)
        assert len(first.embed_documents(["x"])[0]) == 2
        assert len(two.embed_documents(["x"])[0]) == 3


def test_what_was_embedded_before_a_failure_is_kept(call):
    class Failing(Counting):
        def _made(self, texts):
            if "bad" in texts:
                raise RuntimeError("the model failed")
            return super()._made(texts)

    model = Failing()
    cached = CacheBackedEmbeddings.from_bytes_store(model, InMemoryByteStore(), batch_size=2)
    with pytest.raises(RuntimeError):
        call.run(cached, "embed_documents", ["a", "b", "bad"])
    call.run(cached, "embed_documents", ["a", "b", "c"])
    assert model.batches == [["a", "b"], ["c"]]


class FailingStore(InMemoryByteStore):
    def mget(self, keys):
        raise StoreError("gone")

    def mset(self, pairs):
        raise OSError("disk full")


def test_F_K03_a_store_that_went_away_is_a_miss(call, caplog):
    cached = CacheBackedEmbeddings.from_bytes_store(
        Counting(), FailingStore(), query_embedding_cache=True
    )
    assert call.run(cached, "embed_documents", ["a"]) == [[1.0, 0.1]]
    assert call.run(cached, "embed_query", "a") == [1.0, 0.1]
    assert "gone" in caplog.text
    assert "disk full" in caplog.text


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[]",
        b'["a"]',
        b"foldline-f8:123",
        b"\xff",
        b"null",
        b"[NaN]",
        b"foldline-f8:" + b"\xff" * 16,
    ],
)
def test_F_K02_a_damaged_value_is_a_miss(value, call):
    store = InMemoryByteStore()
    cached = CacheBackedEmbeddings.from_bytes_store(Counting(), store, namespace="n")
    call.run(cached, "embed_documents", ["a"])
    (key,) = store.yield_keys()
    store.mset([(key, value)])
    assert call.run(cached, "embed_documents", ["a"]) == [[1.0, 0.1]]


def test_values_that_langchain_wrote_are_read(call):
    store = InMemoryByteStore()
    cached = CacheBackedEmbeddings.from_bytes_store(
        Counting(), store, namespace="n", key_encoder=lambda text: text
    )
    store.mset([("na", json.dumps([7, 8.5]).encode())])
    assert call.run(cached, "embed_documents", ["a"]) == [[7.0, 8.5]]


def with_prefix(text: str) -> str:
    return f"mine/{text}"


LANGCHAIN_CACHES = [
    ({}, "n:e885db5b-c0bd-5fbc-88b1-4d1da6020aa5"),
    ({"key_encoder": "sha1"}, "n:e885db5b-c0bd-5fbc-88b1-4d1da6020aa5"),
    (
        {"key_encoder": "sha256"},
        "n:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
    ),
    (
        {"key_encoder": "sha512"},
        "n:9b71d224bd62f3785d96d46ad3ea3d73319bfbc2890caadae2dff72519673ca7"
        "2323c3d99ba5c11d7c7acc6e14b8c5da0c4663475c2e5c3adef46f73bcdec043",
    ),
    (
        {"key_encoder": "blake2b"},
        "n:e4cfa39a3d37be31c59609e807970799caa68a19bfaa15135f165085e01d41a6"
        "5ba1e1b146aeb6bd0092b49eac214c103ccfa3a365954bbbe52f74a2b3620c94",
    ),
    ({"key_encoder": with_prefix, "namespace": ""}, "mine/hello"),
]
"""Options, and the key under which langchain-classic 1.x stored the vector of "hello" with them."""


@pytest.mark.parametrize(("options", "key"), LANGCHAIN_CACHES, ids=lambda value: str(value)[:30])
def test_a_vector_that_langchain_stored_is_found(call, options, key):
    model, store = Counting(), InMemoryByteStore()
    store.mset([(key, b"[7.0, 8.5]")])
    cached = CacheBackedEmbeddings.from_bytes_store(
        model, store, **{"namespace": "n:", "query_embedding_cache": True, **options}
    )

    assert call.run(cached, "embed_documents", ["new", "hello"]) == [[3.0, 0.1], [7.0, 8.5]]
    assert call.run(cached, "embed_query", "hello") == [7.0, 8.5]
    assert model.batches == [["new"]]


def test_a_vector_of_langchain_without_a_namespace_is_not_taken_for_this_models(call):
    model, store = Counting(), InMemoryByteStore()
    store.mset([("e885db5b-c0bd-5fbc-88b1-4d1da6020aa5", b"[7.0, 8.5]")])

    cached = CacheBackedEmbeddings.from_bytes_store(model, store)

    assert call.run(cached, "embed_documents", ["hello"]) == [[5.0, 0.1]]


def test_a_deleted_vector_is_gone_under_both_keys(call):
    store = InMemoryByteStore()
    store.mset([("n:e885db5b-c0bd-5fbc-88b1-4d1da6020aa5", b"[7.0, 8.5]")])
    cached = CacheBackedEmbeddings.from_bytes_store(Counting(), store, namespace="n:")

    call.run(cached.document_embedding_store, "mdelete", ["hello"])

    assert call.run(cached.document_embedding_store, "mget", ["hello"]) == [None]


def test_a_store_of_vectors_is_taken_as_it_is(call):
    store = InMemoryStore()
    cached = CacheBackedEmbeddings(Counting(), store)
    call.run(cached, "embed_documents", ["a"])
    assert store.mget(["a"]) == [[1.0, 0.1]]


@pytest.mark.parametrize("encoder", ["sha1", "sha256", "sha512", "blake2b"])
def test_keys_are_hashes_under_the_namespace(encoder):
    store = InMemoryByteStore()
    CacheBackedEmbeddings.from_bytes_store(
        Counting(), store, namespace="n:", key_encoder=encoder
    ).embed_documents(["secret text"])
    (key,) = store.yield_keys()
    assert key.startswith("n:")
    assert "secret" not in key


def test_wrong_settings_are_refused():
    with pytest.raises(UsageError, match="md5"):
        CacheBackedEmbeddings.from_bytes_store(Counting(), InMemoryByteStore(), key_encoder="md5")
    with pytest.raises(UsageError, match="batch_size"):
        CacheBackedEmbeddings.from_bytes_store(Counting(), InMemoryByteStore(), batch_size=0)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_any_vector_comes_back_exactly(vector):
    class Fixed(Counting):
        def _made(self, texts):
            return [vector for _ in texts]

    cached = CacheBackedEmbeddings.from_bytes_store(Fixed(), InMemoryByteStore())
    assert cached.embed_documents(["a"]) == cached.embed_documents(["a"]) == [vector]
