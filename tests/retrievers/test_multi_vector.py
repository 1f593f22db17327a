from __future__ import annotations

import pytest

from foldline.documents import Document
from foldline.embeddings import DeterministicFakeEmbedding
from foldline.language_models import FakeListChatModel
from foldline.retrievers import (
    BM25Retriever,
    MergerRetriever,
    MultiVectorRetriever,
    ParentDocumentRetriever,
    RePhraseQueryRetriever,
)
from foldline.stores import InMemoryByteStore, InMemoryStore
from foldline.text_splitters import CharacterTextSplitter
from foldline.vectorstores import InMemoryVectorStore

SMALL = CharacterTextSplitter(chunk_size=3, chunk_overlap=0, separator=" ")


def vectors():
    return InMemoryVectorStore(DeterministicFakeEmbedding(size=16))


def test_pieces_lead_to_their_documents_once(call):
    store = vectors()
    store.add_documents(
        [Document("a", metadata={"doc_id": "1"}), Document("b", metadata={"doc_id": "1"})]
    )
    store.add_documents([Document("c"), Document("d", metadata={"doc_id": "gone"})])
    documents = InMemoryByteStore()
    retriever = MultiVectorRetriever(vectorstore=store, byte_store=documents)
    retriever.docstore.mset([("1", Document("whole", metadata={"n": 1}))])

    assert call.invoke(retriever, "a") == [Document("whole", metadata={"n": 1})]
    assert isinstance(documents.mget(["1"])[0], bytes)


def test_a_retriever_without_a_store_of_documents_is_refused():
    with pytest.raises(ValueError, match="needs a docstore or a byte_store"):
        MultiVectorRetriever(vectorstore=vectors())


@pytest.mark.parametrize("search_type", ["similarity", "mmr", "similarity_score_threshold"])
def test_a_parent_is_brought_for_its_piece(call, search_type):
    retriever = ParentDocumentRetriever(
        vectorstore=vectors(),
        docstore=InMemoryStore(),
        child_splitter=SMALL,
        search_type=search_type,
        search_kwargs={"k": 1},
    )

    call.run(retriever, "add_documents", [Document("one two"), Document("six ten")], ids=["1", "2"])

    assert call.invoke(retriever, "ten") == [Document("six ten")]
    assert sorted(retriever.docstore.yield_keys()) == ["1", "2"]


def test_parents_may_be_larger_pieces_and_children_keep_chosen_metadata():
    store = vectors()
    retriever = ParentDocumentRetriever(
        vectorstore=store,
        docstore=InMemoryStore(),
        child_splitter=SMALL,
        parent_splitter=CharacterTextSplitter(chunk_size=7, chunk_overlap=0, separator=" "),
        child_metadata_fields=["a"],
    )

    retriever.add_documents([Document("one two six ten", metadata={"a": 1, "b": 2})])

    assert retriever.invoke("two", k=1)[0].page_content in ("one two", "six ten")
    assert set(store.similarity_search("two", k=1)[0].metadata) == {"a", "doc_id"}


def test_ids_must_fit():
    retriever = ParentDocumentRetriever(
        vectorstore=vectors(), docstore=InMemoryStore(), child_splitter=SMALL
    )

    with pytest.raises(ValueError, match="Got uneven list"):
        retriever.add_documents([Document("a")], ids=["1", "2"])
    with pytest.raises(ValueError, match="MUST be True"):
        retriever.add_documents([Document("a")], add_to_docstore=False)


def test_several_retrievers_take_turns(call):
    first = BM25Retriever.from_texts(["a dog", "a dog barks"])
    right = BM25Retriever.from_texts(["dog"])

    documents = call.invoke(MergerRetriever(retrievers=[first, right]), "dog")

    assert [document.page_content for document in documents] == ["a dog", "dog", "a dog barks"]


def test_the_question_is_put_in_other_words(call):
    retriever = RePhraseQueryRetriever.from_llm(
        BM25Retriever.from_texts(["a cat", "a dog"], k=1), FakeListChatModel(responses=["dog"])
    )

    assert call.invoke(retriever, "which animal barks?")[0].page_content == "a dog"
