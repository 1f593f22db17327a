"""`TimeWeightedVectorStoreRetriever`: near and recently used documents come first."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from foldline.documents import Document
from foldline.embeddings import DeterministicFakeEmbedding
from foldline.retrievers import TimeWeightedVectorStoreRetriever
from foldline.vectorstores import InMemoryVectorStore

NOW = datetime.now()


@pytest.fixture
def store():
    return InMemoryVectorStore(DeterministicFakeEmbedding(size=8))


def contents(documents):
    return [document.page_content for document in documents]


def test_what_was_not_used_fades(call, store):
    retriever = TimeWeightedVectorStoreRetriever(vectorstore=store, decay_rate=0.5, k=1)
    old = {"last_accessed_at": NOW - timedelta(days=1)}
    call.run(retriever, "add_documents", [Document("hello world", metadata=old)])
    call.run(retriever, "add_documents", [Document("hello foo")])

    assert contents(call.invoke(retriever, "hello foo")) == ["hello foo"]


def test_with_a_slow_decay_what_is_near_comes_first(call, store):
    retriever = TimeWeightedVectorStoreRetriever(vectorstore=store, decay_rate=1e-25, k=1)
    old = {"last_accessed_at": NOW - timedelta(days=1)}
    retriever.add_documents([Document("hello world", metadata=old), Document("other")])

    (document,) = call.invoke(retriever, "hello world")

    assert document.page_content == "hello world"
    assert document.metadata["last_accessed_at"] >= NOW
    assert retriever.memory_stream[0] is document


def test_numbers_of_the_metadata_count(call, store):
    retriever = TimeWeightedVectorStoreRetriever(
        vectorstore=store, k=1, other_score_keys=["importance"]
    )
    documents = [Document("near"), Document("far", metadata={"importance": 10})]
    ids = retriever.add_documents(documents, current_time=NOW)

    assert len(ids) == 2
    assert documents[0].metadata == {}
    assert contents(call.invoke(retriever, "near")) == ["far"]


def test_the_last_ones_are_looked_at_though_the_store_does_not_find_them(call, store):
    retriever = TimeWeightedVectorStoreRetriever(vectorstore=store, k=2, search_kwargs={"k": 1})
    retriever.add_documents([Document("one"), Document("two"), Document("three")])

    assert set(contents(call.invoke(retriever, "one"))) <= {"one", "two", "three"}
    assert len(call.invoke(retriever, "one")) == 2
    assert len(call.run(retriever, "get_salient_docs", "one")) == 1
