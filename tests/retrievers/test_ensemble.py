from __future__ import annotations

import threading

import pytest

from foldline.documents import Document
from foldline.documents.compressor import BaseDocumentCompressor
from foldline.exceptions import UsageError
from foldline.language_models import FakeListChatModel
from foldline.retrievers import (
    BaseRetriever,
    BM25Retriever,
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MultiQueryRetriever,
)
from foldline.runnables import RunnableLambda


class Fixed(BaseRetriever):
    texts: list[str]

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(text, metadata={"id": text}) for text in self.texts]


def contents(documents):
    return [document.page_content for document in documents]


def test_ranks_are_fused_by_their_reciprocals(call):
    ensemble = EnsembleRetriever(retrievers=[Fixed(texts=["a", "b", "c"]), Fixed(texts=["c", "b"])])
    assert ensemble.weights == [0.5, 0.5]
    assert contents(call.invoke(ensemble, "?")) == ["c", "b", "a"]


def test_weights_count(call):
    retrievers = [Fixed(texts=["a"]), Fixed(texts=["b"])]
    assert contents(
        call.invoke(EnsembleRetriever(retrievers=retrievers, weights=[0.1, 0.9]), "?")
    ) == ["b", "a"]
    assert contents(
        call.invoke(EnsembleRetriever(retrievers=retrievers, weights=[0.9, 0.1]), "?")
    ) == ["a", "b"]
    with pytest.raises(ValueError, match="one weight per retriever"):
        EnsembleRetriever(retrievers=retrievers, weights=[1.0])


def test_documents_are_told_apart_by_a_key_of_their_metadata(call):
    first = RunnableLambda(
        lambda _: [Document("x", metadata={"id": 1}), Document("y", metadata={"id": [2]})]
    )
    two = RunnableLambda(lambda _: [Document("z", metadata={"id": 1})])
    fused = EnsembleRetriever(retrievers=[first, two], id_key="id")
    assert contents(call.invoke(fused, "?")) == ["x", "y"]
    with pytest.raises(UsageError, match="no 'page'"):
        call.invoke(EnsembleRetriever(retrievers=[first], id_key="page"), "?")


def test_retrievers_are_asked_at_the_same_time(call):
    barrier = threading.Barrier(3, timeout=5)

    class Meets(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            barrier.wait()
            return [Document(query)]

    assert contents(
        call.invoke(EnsembleRetriever(retrievers=[Meets(), Meets(), Meets()]), "hi")
    ) == ["hi"]


def test_one_that_fails_fails_the_whole(call):
    def fail(_):
        raise RuntimeError("down")

    with pytest.raises(RuntimeError, match="down"):
        call.invoke(EnsembleRetriever(retrievers=[Fixed(texts=["a"]), RunnableLambda(fail)]), "?")


def test_children_are_tagged_by_their_place(call):
    from tests.retrievers.test_base import Recorder

    recorder = Recorder()
    call.invoke(
        EnsembleRetriever(retrievers=[Fixed(texts=[]), Fixed(texts=[])]),
        "?",
        {"callbacks": [recorder]},
    )
    starts = [event for event in recorder.events if event[0] == "start"]
    assert starts[0][2] == "EnsembleRetriever"
    assert sorted(event[3][0] for event in starts[1:]) == ["retriever_1", "retriever_2"]


def test_lists_without_retrievers_are_refused():
    with pytest.raises(UsageError, match="one list per retriever"):
        EnsembleRetriever(retrievers=[Fixed(texts=[])]).weighted_reciprocal_rank([])
    assert EnsembleRetriever(retrievers=[]).invoke("x") == []


class Short(BaseDocumentCompressor):
    def compress_documents(self, documents, query, callbacks=None):
        return [document for document in documents if query in document.page_content]


def test_a_compressor_keeps_what_is_worth_reading(call):
    retriever = ContextualCompressionRetriever(
        base_compressor=Short(), base_retriever=Fixed(texts=["a cat", "a dog"])
    )
    assert contents(call.invoke(retriever, "dog")) == ["a dog"]
    empty = ContextualCompressionRetriever(base_compressor=Short(), base_retriever=Fixed(texts=[]))
    assert call.invoke(empty, "dog") == []


def test_several_wordings_find_more_and_nothing_twice(call):
    model = FakeListChatModel(responses=["feline\n\n  cat  \n"])
    retriever = BM25Retriever.from_texts(["a cat", "a feline cat", "a dog"])
    documents = call.invoke(MultiQueryRetriever.from_llm(retriever, model), "kitty")
    assert sorted(contents(documents)) == ["a cat", "a feline cat"]
    with_original = MultiQueryRetriever.from_llm(retriever, model, include_original=True)
    assert "a dog" in contents(call.invoke(with_original, "dog"))
