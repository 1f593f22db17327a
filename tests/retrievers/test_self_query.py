from __future__ import annotations

import pytest

from foldline.documents import Document
from foldline.embeddings import DeterministicFakeEmbedding
from foldline.exceptions import OutputParserException, UsageError
from foldline.language_models import FakeListChatModel
from foldline.retrievers import AttributeInfo, SelfQueryRetriever
from foldline.retrievers.query_constructor import (
    StructuredQueryOutputParser,
    get_query_constructor_prompt,
)
from foldline.structured_query import Comparator, Comparison, Operation, Operator
from foldline.vectorstores import InMemoryVectorStore, VectorStore

FILMS = [
    Document("robots", metadata={"year": 1984, "genre": "sf"}),
    Document("robots again", metadata={"year": 1991, "genre": "sf"}),
    Document("love", metadata={"year": 1997, "genre": "drama"}),
]
FIELDS = [
    AttributeInfo(name="year", description="when it came out", type="integer"),
    {"name": "genre", "description": "what kind", "type": "string"},
]


def retriever_of(answer, **options):
    store = InMemoryVectorStore.from_documents(FILMS, DeterministicFakeEmbedding(size=8))
    model = FakeListChatModel(responses=[answer])
    return SelfQueryRetriever.from_llm(model, store, "a film", FIELDS, **options)


def years(documents):
    return sorted(document.metadata["year"] for document in documents)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('gt("year", 1990)', [1991, 1997]),
        ('and(gt("year", 1990), eq("genre", "sf"))', [1991]),
        ('or(lt("year", 1990), in("genre", ["drama"]))', [1984, 1997]),
        ('not(eq("genre", "sf"))', [1997]),
        ('and(eq("genre", "sf"))', [1984, 1991]),
        ("NO_FILTER", [1984, 1991, 1997]),
    ],
)
def test_a_filter_is_read_and_used(call, condition, expected):
    escaped = condition.replace('"', '\\"')
    retriever = retriever_of(f'```json\n{{"query": "films", "filter": "{escaped}"}}\n```')

    assert years(call.invoke(retriever, "which films?")) == expected


def test_a_limit_is_kept(call):
    retriever = retriever_of('{"query": "", "filter": "NO_FILTER", "limit": 2}', enable_limit=True)

    assert len(call.invoke(retriever, "two films")) == 2


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ('__import__("os")', "unrecognized function"),
        ("1 + 1", "a condition is a call"),
        ('eq("director", "x")', "disallowed attribute director"),
        ('like("genre", "s")', "disallowed comparator like"),
        ('eq("year")', "takes an attribute and a value"),
        ('eq("year", open("x"))', "malformed node"),
        ("eq(", "raised following error"),
    ],
)
def test_a_filter_that_cannot_be_used_is_an_error(condition, problem):
    escaped = condition.replace('"', '\\"')
    retriever = retriever_of(f'{{"query": "x", "filter": "{escaped}"}}')

    with pytest.raises(OutputParserException, match=problem):
        retriever.invoke("which films?")


def test_what_is_not_allowed_may_be_left_out():
    parser = StructuredQueryOutputParser(allowed_attributes=["a"], fix_invalid=True)

    query = parser.parse('{"query": "x", "filter": "and(eq(\\"a\\", 1), eq(\\"b\\", 2))"}')

    assert query.filter == Comparison(Comparator.EQ, "a", 1)


def test_operations_are_read_as_a_tree():
    query = StructuredQueryOutputParser().parse(
        '{"query": "x", "filter": "or(eq(a, 1), ne(b, -2.5))"}'
    )

    parts = [Comparison(Comparator.EQ, "a", 1), Comparison(Comparator.NE, "b", -2.5)]
    assert query.filter == Operation(Operator.OR, parts)


def test_the_prompt_tells_of_the_attributes():
    text = get_query_constructor_prompt("films", FIELDS, examples=[("old", {"query": "x"})]).format(
        query="{odd}"
    )

    assert "- year (integer): when it came out" in text
    assert '"old" is' in text
    assert text.endswith("The question of the user: {odd}\n")


def test_a_store_of_others_needs_a_translator():
    class Store(VectorStore):
        @classmethod
        def from_texts(cls, texts, embedding, metadatas=None, **kwargs):
            raise NotImplementedError

        def similarity_search(self, query, k=4, **kwargs):
            return []

    with pytest.raises(UsageError, match="pass a structured_query_translator"):
        SelfQueryRetriever.from_llm(FakeListChatModel(responses=["x"]), Store(), "a film", FIELDS)
