"""Stores written for LangChain: an author writes some methods, the rest is derived."""

from __future__ import annotations

import pytest

from foldline.callbacks import BaseCallbackHandler
from foldline.documents import Document
from foldline.exceptions import UsageError
from foldline.retrievers import BaseRetriever
from foldline.vectorstores import VectorStore, VectorStoreRetriever


class ByTexts(VectorStore):
    """Writes `add_texts`, as most of LangChain's stores do."""

    def __init__(self):
        self.rows = {}

    def add_texts(self, texts, metadatas=None, *, ids=None, **kwargs):
        texts = list(texts)
        names = ids or [str(len(self.rows) + n) for n in range(len(texts))]
        for place, (name, text) in enumerate(zip(names, texts, strict=True)):
            self.rows[name] = Document(
                text, id=name, metadata=metadatas[place] if metadatas else {}
            )
        return names

    def similarity_search(self, query, k=4, **kwargs):
        return [document for document in self.rows.values() if query in document.page_content][:k]

    def similarity_search_with_score(self, query, k=4, **kwargs):
        return [(document, 0.25) for document in self.similarity_search(query, k)]

    def _select_relevance_score_fn(self):
        return self._cosine_relevance_score_fn

    @classmethod
    def from_texts(cls, texts, embedding, metadatas=None, **kwargs):
        store = cls()
        store.add_texts(texts, metadatas, **kwargs)
        return store


class ByDocuments(ByTexts):
    """Writes `add_documents`."""

    add_texts = VectorStore.add_texts

    def add_documents(self, documents, **kwargs):
        self.rows |= {document.id or document.page_content: document for document in documents}
        return [document.id or document.page_content for document in documents]


@pytest.mark.parametrize("cls", [ByTexts, ByDocuments])
def test_one_way_to_add_gives_the_other(cls, call):
    store = cls()
    assert call.run(store, "add_texts", ["a"], [{"n": 1}], ids=["x"]) == ["x"]
    assert call.run(store, "add_documents", [Document("b", id="y", metadata={"n": 2})]) == ["y"]
    assert {name: document.metadata for name, document in store.rows.items()} == {
        "x": {"n": 1},
        "y": {"n": 2},
    }


def test_awaited_twins_and_scores_are_derived(call):
    store = call.run(ByTexts, "from_documents", [Document("cat"), Document("dog")], None)
    assert [document.page_content for document in call.run(store, "similarity_search", "cat")] == [
        "cat"
    ]
    ((_, score),) = call.run(store, "similarity_search_with_relevance_scores", "cat")
    assert score == 0.75
    assert call.run(store, "search", "cat", "similarity_score_threshold", score_threshold=0.8) == []


def test_what_was_not_written_says_so(call):
    store = ByTexts()
    for name, args in [
        ("delete", [["a"]]),
        ("get_by_ids", [["a"]]),
        ("similarity_search_by_vector", [[1.0]]),
        ("max_marginal_relevance_search", ["a"]),
        ("max_marginal_relevance_search_by_vector", [[1.0]]),
    ]:
        with pytest.raises(NotImplementedError, match=f"ByTexts has no `{name}`"):
            call.run(store, name, *args)


def test_a_store_that_can_add_in_no_way_says_so():
    class Nothing(ByTexts):
        add_texts = VectorStore.add_texts

    with pytest.raises(NotImplementedError, match="neither `add_texts` nor `add_documents`"):
        Nothing().add_texts(["a"])
    with pytest.raises(NotImplementedError, match="neither `add_documents` nor `add_texts`"):
        Nothing().add_documents([Document("a")])


def test_scores_outside_0_and_1_are_reported(caplog):
    class Far(ByTexts):
        def _select_relevance_score_fn(self):
            return lambda score: 7.0

    Far.from_texts(["a"], None).similarity_search_with_relevance_scores("a")
    assert "between 0 and 1" in caplog.text


def test_langchains_relevance_functions():
    assert VectorStore._euclidean_relevance_score_fn(0.0) == 1.0
    assert VectorStore._cosine_relevance_score_fn(0.25) == 0.75
    assert VectorStore._max_inner_product_relevance_score_fn(0.25) == 0.75
    assert VectorStore._max_inner_product_relevance_score_fn(-0.25) == 0.25


class Recorder(BaseCallbackHandler):
    def __init__(self):
        self.starts = []

    def on_retriever_start(self, serialized, query, **kwargs):
        self.starts.append((query, kwargs["name"], kwargs["tags"], kwargs["metadata"]))


def test_a_retriever_tells_the_store_and_the_embedding_in_its_trace(plane, call):
    from foldline.vectorstores import InMemoryVectorStore

    retriever = InMemoryVectorStore.from_texts(["1 0"], plane).as_retriever()
    recorder = Recorder()
    call.invoke(retriever, "1 0", {"callbacks": [recorder]})
    ((query, name, tags, metadata),) = recorder.starts
    assert (query, name, tags) == ("1 0", "VectorStoreRetriever", ["InMemoryVectorStore", "Plane"])
    assert metadata == {
        "ls_retriever_name": "vectorstore",
        "ls_vector_store_provider": "InMemoryVectorStore",
        "ls_embedding_provider": "Plane",
    }
    assert retriever.vectorstore.as_retriever(tags=["mine"]).tags == ["mine"]


def test_a_retriever_checks_how_it_is_to_search(plane):
    store = ByTexts()
    with pytest.raises(ValueError, match="not 'nearby'"):
        store.as_retriever(search_type="nearby")
    with pytest.raises(ValueError, match="score_threshold"):
        store.as_retriever(search_type="similarity_score_threshold")
    with pytest.raises(ValueError, match="VectorStore, not str"):
        VectorStoreRetriever(vectorstore="store")


def test_a_retriever_adds_documents_to_its_store(call):
    store = ByTexts()
    retriever = store.as_retriever()
    assert isinstance(retriever, BaseRetriever)
    assert call.run(retriever, "add_documents", [Document("a", id="x")]) == ["x"]
    assert store.rows["x"].page_content == "a"


def test_a_subclass_that_writes_only_the_blocking_hook_is_heard_sync_and_async(call):
    class UpperCaseStore(VectorStoreRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return [Document(query.upper())]

    assert call.invoke(UpperCaseStore(vectorstore=ByTexts()), "hi")[0].page_content == "HI"


def test_texts_must_match_their_metadatas():
    with pytest.raises(UsageError, match="one metadata per text"):
        ByDocuments().add_texts(["a"], [{}, {}])
