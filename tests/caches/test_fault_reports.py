"""F-Y18: a cache or store that fails does not stop a call, and is not only logged: result and trace tell it."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.caches import BaseCache
from foldline.embeddings import CacheBackedEmbeddings, DeterministicFakeEmbedding
from foldline.exceptions import StoreError
from foldline.language_models import FakeListChatModel, FakeListLLM
from foldline.stores import InMemoryByteStore
from foldline.tracers import RunCollectorCallbackHandler


class Broken(BaseCache):
    """A cache that cannot be read, or not be written."""

    def __init__(self, part: str) -> None:
        self.part = part

    def lookup(self, prompt: str, llm_string: str) -> Any:
        if self.part == "read":
            raise StoreError("the disk is gone")
        return None

    def update(self, prompt: str, llm_string: str, return_val: Any) -> None:
        if self.part == "written":
            raise StoreError("the disk is full")

    def clear(self, **kwargs: Any) -> None:
        """Nothing to do."""


@pytest.mark.parametrize("part", ["read", "written"])
def test_F_Y18_a_cache_of_chats_that_fails_is_told_with_the_answer_and_in_the_trace(call, part):
    collector = RunCollectorCallbackHandler()
    model = FakeListChatModel(responses=["x"], cache=Broken(part))

    answer = call.invoke(model, "?", {"callbacks": [collector]})

    assert answer.text == "x"
    assert answer.response_metadata["cache_error"].startswith(f"not {part}: StoreError: the disk")
    assert f"not {part}: StoreError" in str(collector.traced_runs[0].outputs)


@pytest.mark.parametrize("part", ["read", "written"])
def test_a_cache_of_texts_that_fails_is_told_with_the_answer(call, part):
    model = FakeListLLM(responses=["x"], cache=Broken(part))

    result = call.run(model, "generate", ["?"])

    assert result.generations[0][0].text == "x"
    assert result.llm_output["cache_error"].startswith(f"not {part}: StoreError: the disk")


def test_a_cache_that_works_tells_nothing(call):
    answer = call.invoke(FakeListChatModel(responses=["x"], cache=Broken("nothing")), "?")

    assert "cache_error" not in answer.response_metadata


class Full(InMemoryByteStore):
    """A store that cannot be written."""

    def mset(self, key_value_pairs: Any) -> None:
        raise StoreError("the disk is full")


def test_F_Y18_a_store_of_embeddings_that_fails_is_told_by_the_embeddings(call):
    embeddings = CacheBackedEmbeddings.from_bytes_store(
        DeterministicFakeEmbedding(size=2), Full(), namespace="n"
    )

    assert len(call.run(embeddings, "embed_documents", ["a"])[0]) == 2
    assert str(embeddings.store_error) == "the disk is full"
