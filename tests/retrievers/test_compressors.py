from __future__ import annotations

import pytest

from foldline.documents import Document
from foldline.embeddings import Embeddings
from foldline.exceptions import OutputParserException
from foldline.language_models import FakeListChatModel
from foldline.retrievers import (
    BM25Retriever,
    ContextualCompressionRetriever,
    DocumentCompressorPipeline,
    EmbeddingsFilter,
    EmbeddingsRedundantFilter,
    LLMChainExtractor,
    LLMChainFilter,
    LongContextReorder,
)
from foldline.runnables import RunnableLambda
from foldline.text_splitters import CharacterTextSplitter

DOCUMENTS = [Document("a cat", metadata={"n": 1}), Document("a dog", metadata={"n": 2})]


class ByLetter(Embeddings):
    """Two numbers: how many of the letters are `a`, and how many are `o`."""

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        return [float(text.count("a")), float(text.count("o"))]


def texts(documents):
    return [document.page_content for document in documents]


def test_an_extractor_keeps_what_the_model_copies(call):
    model = RunnableLambda(lambda prompt: "cat" if "a cat" in prompt.text else "NO_OUTPUT")

    documents = call.run(
        LLMChainExtractor.from_llm(model), "compress_documents", DOCUMENTS, "purr?"
    )

    assert documents == [Document("cat", metadata={"n": 1})]


def test_a_filter_keeps_whole_documents(call):
    model = RunnableLambda(lambda prompt: "YES" if "a dog" in prompt.text else "no")

    documents = call.run(LLMChainFilter.from_llm(model), "compress_documents", DOCUMENTS, "bark?")

    assert documents == [DOCUMENTS[1]]


def test_a_filter_says_when_the_model_answers_neither():
    compressor = LLMChainFilter.from_llm(FakeListChatModel(responses=["perhaps"]))

    with pytest.raises(OutputParserException, match="neither YES and NO"):
        compressor.compress_documents(DOCUMENTS, "bark?")


def test_a_filter_by_vectors_keeps_the_nearest_first(call):
    compressor = EmbeddingsFilter(embeddings=ByLetter(), k=None, similarity_threshold=0.8)

    documents = call.run(compressor, "compress_documents", DOCUMENTS, "o a")

    assert texts(documents) == ["a dog"]
    assert round(documents[0].metadata["query_similarity_score"], 2) == 1.0
    assert texts(
        EmbeddingsFilter(embeddings=ByLetter(), k=1).compress_documents(DOCUMENTS, "aaa")
    ) == ["a cat"]
    with pytest.raises(ValueError, match="Must specify one of"):
        EmbeddingsFilter(embeddings=ByLetter(), k=None).compress_documents(DOCUMENTS, "a")


def test_a_pipeline_runs_its_steps_in_order(call):
    pipeline = DocumentCompressorPipeline(
        transformers=[
            CharacterTextSplitter(chunk_size=6, chunk_overlap=0, separator=". "),
            EmbeddingsRedundantFilter(embeddings=ByLetter()),
            EmbeddingsFilter(embeddings=ByLetter(), similarity_threshold=0.5),
        ]
    )
    retriever = ContextualCompressionRetriever(
        base_compressor=pipeline,
        base_retriever=BM25Retriever.from_texts(["a cat. a rat. a dog"]),
    )

    assert texts(call.invoke(retriever, "cat")) == ["a cat", "a dog"]


def test_a_step_that_is_neither_is_refused():
    with pytest.raises(ValueError, match="Got unexpected transformer type: int"):
        DocumentCompressorPipeline(transformers=[3]).compress_documents(DOCUMENTS, "x")


def test_the_worst_documents_go_to_the_middle():
    ordered = LongContextReorder().transform_documents([Document(letter) for letter in "12345"])

    assert texts(ordered) == ["1", "3", "5", "4", "2"]
