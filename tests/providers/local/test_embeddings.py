"""The encoder in the box: real vectors, sync and async, of texts of any length."""

from __future__ import annotations

import math

import pytest

from foldline.exceptions import ContextOverflowError
from foldline.providers.local import LocalEmbeddings
from foldline.providers.local._tools import cosine

pytestmark = pytest.mark.timing


def test_a_vector_has_384_numbers_and_length_one(call, embeddings):
    vector = call.run(embeddings, "embed_query", "a small red house")

    assert len(vector) == 384
    assert math.isclose(cosine(vector, vector), 1.0, abs_tol=1e-5)


def test_meaning_is_nearer_than_words(call, embeddings):
    meal, paraphrase, other = call.run(
        embeddings,
        "embed_documents",
        ["A man is eating food.", "Someone has a meal.", "The stock market fell."],
    )

    assert cosine(meal, paraphrase) > 0.6
    assert cosine(meal, other) < 0.1


def test_documents_come_back_in_order_also_beyond_one_batch(embeddings):
    texts = [f"text number {number}" for number in range(70)]
    vectors = embeddings.embed_documents(texts)

    assert len(vectors) == 70
    assert cosine(vectors[69], embeddings.embed_query(texts[69])) > 0.999


def test_nothing_to_embed_is_nothing(call, embeddings):
    assert call.run(embeddings, "embed_documents", []) == []


def test_an_empty_text_has_a_vector_too(embeddings):
    assert len(embeddings.embed_query("")) == 384


@pytest.mark.slow
def test_a_long_text_is_cut_or_refused_as_chosen(embeddings):
    long = "house " * 2000
    assert len(embeddings.embed_query(long)) == 384

    with pytest.raises(ContextOverflowError):
        LocalEmbeddings(truncate=False).embed_query(long)
