"""Selectors: by length, and by what a vector store finds."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.documents import Document
from foldline.embeddings import DeterministicFakeEmbedding, Embeddings
from foldline.example_selectors import (
    BaseExampleSelector,
    LengthBasedExampleSelector,
    MaxMarginalRelevanceExampleSelector,
    SemanticSimilarityExampleSelector,
    sorted_values,
)
from foldline.prompts import FewShotPromptTemplate, PromptTemplate
from foldline.utils.formatting import MissingVariableError
from foldline.vectorstores import InMemoryVectorStore


class Store:
    """A vector store that ranks by shared words; its async methods are optional."""

    def __init__(self) -> None:
        self.documents: list[Document] = []
        self.searches: list[tuple[str, dict[str, Any]]] = []

    @classmethod
    def from_texts(cls, texts, embeddings, metadatas=None, **kwargs):
        store = cls()
        store.made_with = (embeddings, kwargs)
        store.add_texts(texts, metadatas)
        return store

    def add_texts(self, texts, metadatas=None):
        self.documents += [
            Document(page_content=t, metadata=m) for t, m in zip(texts, metadatas, strict=True)
        ]
        return [str(len(self.documents))]

    def similarity_search(self, query, k=4, **kwargs):
        self.searches.append((query, kwargs))
        words = set(query.split())
        return sorted(self.documents, key=lambda d: -len(words & set(d.page_content.split())))[:k]

    def max_marginal_relevance_search(self, query, k=4, fetch_k=20, **kwargs):
        return self.similarity_search(query, fetch_k, fetched=fetch_k)[::-1][:k]


class AsyncStore(Store):
    async def asimilarity_search(self, query, k=4, **kwargs):
        return self.similarity_search(query, k, awaited=True, **kwargs)


EXAMPLES = [
    {"q": "big cat", "a": "lion"},
    {"q": "small dog", "a": "pug"},
    {"q": "red bird", "a": "robin"},
]


def test_as_many_examples_are_taken_as_leave_room(call):
    selector = LengthBasedExampleSelector(
        examples=list(EXAMPLES),
        example_prompt=PromptTemplate.from_template("{q} is {a}"),
        max_length=10,
    )

    assert call.run(selector, "select_examples", {"q": "one two"}) == EXAMPLES[:2]
    assert call.run(selector, "select_examples", {"q": "a b c d e f g h i j k"}) == []
    call.run(selector, "add_example", {"q": "x", "a": "y"})
    assert selector.example_text_lengths == [4, 4, 4, 3]
    with pytest.raises(MissingVariableError, match="'a'"):
        selector.add_example({"q": "x"})
    assert len(selector.examples) == 4


def test_a_length_may_be_measured_otherwise():
    selector = LengthBasedExampleSelector(
        examples=list(EXAMPLES),
        example_prompt=PromptTemplate.from_template("{a}"),
        get_text_length=len,
        max_length=8,
    )

    assert [e["a"] for e in selector.select_examples({"q": "x"})] == ["lion", "pug"]


def test_the_most_similar_examples_are_chosen(call):
    selector = call.run(
        SemanticSimilarityExampleSelector,
        "from_examples",
        EXAMPLES,
        "embeddings",
        Store,
        k=1,
        input_keys=["q"],
        extra=1,
    )

    assert selector.vectorstore.made_with == ("embeddings", {"extra": 1})
    assert [d.page_content for d in selector.vectorstore.documents] == [
        "big cat",
        "small dog",
        "red bird",
    ]
    assert call.run(selector, "select_examples", {"q": "a small pet", "other": "x"}) == [
        EXAMPLES[1]
    ]
    assert call.run(selector, "add_example", {"q": "huge whale", "a": "blue"}) == "4"
    assert call.run(selector, "select_examples", {"q": "a huge one"}) == [
        {"q": "huge whale", "a": "blue"}
    ]


def test_options_go_to_the_search_and_only_some_keys_are_shown(call):
    store = AsyncStore.from_texts(["big cat"], None, [EXAMPLES[0]])
    selector = SemanticSimilarityExampleSelector(
        vectorstore=store, example_keys=["a"], vectorstore_kwargs={"filter": 1}
    )

    assert call.run(selector, "select_examples", {"q": "big"}) == [{"a": "lion"}]
    extra = {"awaited": True} if call.is_async else {}
    assert store.searches == [("big", {"filter": 1, **extra})]


def test_marginal_relevance_fetches_more_than_it_gives(call):
    selector = call.run(
        MaxMarginalRelevanceExampleSelector,
        "from_examples",
        EXAMPLES,
        None,
        Store,
        k=1,
        fetch_k=2,
        input_keys=["q"],
    )

    assert len(call.run(selector, "select_examples", {"q": "small bird"})) == 1
    assert selector.vectorstore.searches == [("small bird", {"fetched": 2})]


class Words(Embeddings):
    """Embeds a text by which words of a small world it has: near in meaning is near in words."""

    world = ("big", "small", "red", "cat", "dog", "bird", "fish", "whale")

    def embed_documents(self, texts):
        return [[1.0 * (word in text.split()) + 0.01 for word in self.world] for text in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]


PETS = [
    {"q": "big cat", "a": "lion"},
    {"q": "big cat cat", "a": "tiger"},
    {"q": "small cat", "a": "house cat"},
    {"q": "red bird", "a": "robin"},
]


def test_the_nearest_examples_of_a_real_store_are_chosen(call):
    selector = call.run(
        SemanticSimilarityExampleSelector,
        "from_examples",
        PETS,
        Words(),
        InMemoryVectorStore,
        k=2,
        input_keys=["q"],
        example_keys=["a"],
    )

    assert call.run(selector, "select_examples", {"q": "a red bird"}) == [
        {"a": "robin"},
        {"a": "lion"},
    ]
    call.run(selector, "add_example", {"q": "red red fish", "a": "snapper"})
    assert {"a": "snapper"} in call.run(selector, "select_examples", {"q": "red fish"})


def test_examples_of_a_real_store_that_say_the_same_are_not_both_chosen(call):
    def choose(cls, **options):
        selector = call.run(
            cls, "from_examples", PETS, Words(), InMemoryVectorStore, 2, ["q"], **options
        )
        return [
            example["a"] for example in call.run(selector, "select_examples", {"q": "big cat fish"})
        ]

    assert sorted(choose(SemanticSimilarityExampleSelector)) == ["lion", "tiger"]
    diverse = choose(MaxMarginalRelevanceExampleSelector, fetch_k=4)
    assert diverse[0] in ("lion", "tiger")
    assert diverse[1] in ("house cat", "robin")
    assert sorted(choose(MaxMarginalRelevanceExampleSelector, fetch_k=2)) == ["lion", "tiger"]


def test_a_filter_of_the_store_and_a_deterministic_embedding(call):
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=32))
    selector = SemanticSimilarityExampleSelector(
        vectorstore=store, k=1, vectorstore_kwargs={"filter": {"a": "pug"}}
    )
    for example in EXAMPLES:
        call.run(selector, "add_example", example)

    assert call.run(selector, "select_examples", EXAMPLES[0]) == [EXAMPLES[1]]
    selector.vectorstore_kwargs = None
    assert call.run(selector, "select_examples", EXAMPLES[0]) == [EXAMPLES[0]]


def test_a_few_shot_prompt_shows_what_a_real_store_finds(call):
    selector = SemanticSimilarityExampleSelector.from_examples(
        PETS, Words(), InMemoryVectorStore, 1, ["q"]
    )
    prompt = FewShotPromptTemplate(
        example_selector=selector,
        example_prompt=PromptTemplate.from_template("{q}: {a}"),
        suffix="{q}:",
        input_variables=["q"],
    )

    assert call.invoke(prompt, {"q": "a red bird"}).to_string() == "red bird: robin\n\na red bird:"


def test_values_are_joined_in_the_order_of_their_keys():
    assert sorted_values({"b": 2, "a": 1}) == [1, 2]


def test_an_authors_selector_needs_no_twins(call):
    class First(BaseExampleSelector):
        def __init__(self) -> None:
            self.examples = list(EXAMPLES)

        def add_example(self, example):
            self.examples.insert(0, example)

        def select_examples(self, input_variables):
            return self.examples[:1]

    selector = First()
    call.run(selector, "add_example", {"q": "new"})
    assert call.run(selector, "select_examples", {}) == [{"q": "new"}]
