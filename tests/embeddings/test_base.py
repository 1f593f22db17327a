from __future__ import annotations

import pytest

import foldline.embeddings.embeddings
from foldline.embeddings import DeterministicFakeEmbedding, Embeddings, FakeEmbeddings
from foldline.providers.local import LocalEmbeddings


class Lengths(Embeddings):
    def embed_documents(self, texts):
        return [[float(len(text))] for text in texts]

    def embed_query(self, text):
        return [float(len(text))]


def test_awaited_twins_are_derived(call):
    assert call.run(Lengths(), "embed_documents", ["a", "bb"]) == [[1.0], [2.0]]
    assert call.run(Lengths(), "embed_query", "abc") == [3.0]


def test_both_methods_must_be_written():
    with pytest.raises(TypeError, match="abstract"):
        Embeddings()


def test_the_deterministic_fake_depends_on_the_text_alone(call):
    fake = DeterministicFakeEmbedding(size=5)
    first, second, third = call.run(fake, "embed_documents", ["a", "b", "a"])
    assert first == third == call.run(DeterministicFakeEmbedding(size=5), "embed_query", "a")
    assert first != second
    assert len(first) == 5
    assert len(call.run(fake, "embed_query", "half \ud800")) == 5


def test_the_random_fake_is_never_the_same(call):
    first, second = call.run(FakeEmbeddings(size=4), "embed_documents", ["a", "a"])
    assert first != second
    assert len(first) == 4


def test_a_fake_of_no_numbers_is_refused():
    for cls in (FakeEmbeddings, DeterministicFakeEmbedding):
        with pytest.raises(ValueError, match="greater than or equal to 1"):
            cls(size=0)


def test_the_local_encoder_is_embeddings_too():
    assert issubclass(LocalEmbeddings, Embeddings)
    assert foldline.embeddings.embeddings.Embeddings is Embeddings
