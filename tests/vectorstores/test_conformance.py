"""Behaviour of every vector store: in memory, in SQLite, in PostgreSQL with pgvector and without."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from foldline.documents import Document
from foldline.exceptions import FoldlineError, UsageError
from foldline.vectorstores import PostgresVectorStore

CORNERS = ["1 0", "0 1", "-1 0", "1 1"]


def texts(documents):
    return [document.page_content for document in documents]


def test_the_nearest_come_first_with_their_cosines(store, call):
    call.run(store, "add_texts", CORNERS)
    scored = call.run(store, "similarity_search_with_score", "2 0", k=3)
    assert texts(document for document, _ in scored) == ["1 0", "1 1", "0 1"]
    assert [score for _, score in scored] == pytest.approx([1.0, math.sqrt(0.5), 0.0], abs=1e-6)


def test_a_store_uses_the_embedding_sync_or_async_like_the_call(store, plane, call):
    call.run(store, "add_texts", CORNERS)
    call.run(store, "similarity_search", "1 0")
    call.run(store, "max_marginal_relevance_search", "1 0")
    assert set(plane.modes) == {call.mode}


def test_every_way_to_search_agrees(store, call):
    call.run(store, "add_texts", CORNERS)
    nearest = texts(call.run(store, "similarity_search", "1 0.1", k=2))
    assert nearest == texts(call.run(store, "similarity_search_by_vector", [1.0, 0.1], k=2))
    by_vector = call.run(store, "similarity_search_with_score_by_vector", [1.0, 0.1], k=2)
    assert nearest == texts(document for document, _ in by_vector)
    assert nearest == texts(call.run(store, "search", "1 0.1", "similarity", k=2))
    assert nearest == ["1 0", "1 1"]


def test_relevance_is_between_0_and_1_and_has_a_threshold(store, call):
    call.run(store, "add_texts", CORNERS)
    scored = call.run(store, "similarity_search_with_relevance_scores", "1 0", k=9)
    assert [score for _, score in scored] == pytest.approx([1, math.sqrt(0.5), 0, 0], abs=1e-6)
    near = call.run(store, "search", "1 0", "similarity_score_threshold", k=9, score_threshold=0.5)
    assert texts(near) == ["1 0", "1 1"]
    with pytest.raises(UsageError, match="not 'nearby'"):
        call.run(store, "search", "1 0", "nearby")


def test_documents_keep_their_ids_and_metadata(store, call):
    documents = [
        Document("1 0", id="a", metadata={"page": 1, "nested": {"x": [1, None, "ü"]}}),
        Document("0 1"),
    ]
    ids = call.run(store, "add_documents", documents)
    assert ids[0] == "a"
    assert len(set(ids)) == 2
    first, second = call.run(store, "get_by_ids", [*ids, "nobody"])
    assert (first.id, first.metadata) == ("a", documents[0].metadata)
    assert second.id == ids[1]
    assert call.run(store, "similarity_search", "1 0", k=1)[0].id == "a"


def test_an_id_that_comes_again_replaces_the_document(store, call):
    call.run(store, "add_texts", ["1 0", "0 1"], ids=["a", "b"])
    call.run(store, "add_texts", ["-1 0"], [{"new": True}], ids=["a"])
    documents = call.run(store, "similarity_search", "1 0", k=9)
    assert texts(documents) == ["0 1", "-1 0"]
    assert call.run(store, "get_by_ids", ["a"])[0].metadata == {"new": True}


def test_of_one_id_twice_in_one_call_the_last_one_stands(store, call):
    assert call.run(store, "add_texts", ["1 0", "0 1"], ids=["a", "a"]) == ["a", "a"]
    assert texts(call.run(store, "get_by_ids", ["a"])) == ["0 1"]
    assert len(call.run(store, "similarity_search", "1 0", k=9)) == 1


def test_deleted_documents_are_gone(store, call):
    call.run(store, "add_texts", CORNERS, ids=list("abcd"))
    call.run(store, "delete", ["a", "nobody"])
    assert texts(call.run(store, "similarity_search", "1 0", k=9)) == ["1 1", "0 1", "-1 0"]
    assert call.run(store, "get_by_ids", ["a"]) == []
    call.run(store, "delete", ["b", "c", "d"])
    assert call.run(store, "similarity_search", "1 0", k=9) == []


def test_an_emptied_store_takes_vectors_of_another_length(store, call):
    call.run(store, "add_texts", ["1 0"], ids=["a"])
    call.run(store, "delete", ["a"])
    call.run(store, "add_texts", ["1 0 0"])
    assert texts(call.run(store, "similarity_search", "1 0 0")) == ["1 0 0"]


def test_an_empty_store_and_k_0_give_nothing(store, call):
    assert call.run(store, "similarity_search", "1 0") == []
    assert call.run(store, "max_marginal_relevance_search", "1 0") == []
    assert call.run(store, "add_texts", []) == []
    call.run(store, "add_texts", ["1 0"])
    assert call.run(store, "similarity_search", "1 0", k=0) == []
    assert call.run(store, "max_marginal_relevance_search", "1 0", k=0) == []


@pytest.mark.parametrize("k", [-1, 1.5, "2", None, True])
def test_a_k_that_is_no_count_is_refused(store, k):
    with pytest.raises(UsageError, match="k must be an integer"):
        store.similarity_search("1 0", k=k)


def test_vectors_of_another_length_are_refused_and_nothing_changes(store, call):
    call.run(store, "add_texts", ["1 0"], ids=["a"])
    with pytest.raises(UsageError, match="holds vectors of 2 numbers, got one of 3"):
        call.run(store, "add_texts", ["1 0 0"], ids=["a"])
    with pytest.raises(UsageError, match="holds vectors of 2 numbers, got one of 3"):
        call.run(store, "similarity_search", "1 0 0")
    assert texts(call.run(store, "similarity_search", "1 0")) == ["1 0"]


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e300"])
def test_numbers_that_are_not_finite_are_refused_and_nothing_changes(store, call, number):
    with pytest.raises(UsageError, match="not finite"):
        call.run(store, "add_texts", ["1 0", f"{number} 1"])
    call.run(store, "add_texts", ["1 0"])
    with pytest.raises(UsageError, match="not finite"):
        call.run(store, "similarity_search", f"1 {number}")
    assert len(call.run(store, "similarity_search", "1 0")) == 1


def test_a_vector_of_zeros_is_like_nothing(store, call):
    call.run(store, "add_texts", ["0 0"])
    ((document, score),) = call.run(store, "similarity_search_with_score", "1 0")
    assert (document.page_content, score) == ("0 0", 0.0)
    assert len(call.run(store, "similarity_search_with_score", "0 0")) == 1


def test_wrong_counts_and_wrong_things_are_refused(store, call):
    with pytest.raises(UsageError, match="1 texts"):
        call.run(store, "add_texts", ["1 0"], [{}, {}])
    with pytest.raises(UsageError, match="got 2 ids"):
        call.run(store, "add_documents", [Document("1 0")], ids=["a", "b"])
    with pytest.raises(UsageError, match="holds documents, not str"):
        call.run(store, "add_documents", ["1 0"])


FRUIT = [
    ("1 0", {"name": "apple", "price": 3, "organic": True}),
    ("1 0.1", {"name": "pear", "price": 4.5, "organic": False}),
    ("1 0.2", {"name": "plum", "price": 1}),
    ("1 0.3", {"name": "fig", "price": "dear", "season": None}),
]


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ({}, "apple pear plum fig"),
        ({"name": "pear"}, "pear"),
        ({"price": 3.0}, "apple"),
        ({"organic": 1}, ""),
        ({"season": None}, "fig"),
        ({"price": {"$gt": 1, "$lte": 4.5}}, "apple pear"),
        ({"price": {"$lt": "e"}}, "fig"),
        ({"name": {"$gte": "p"}}, "pear plum"),
        ({"name": {"$in": ["fig", "apple"]}}, "apple fig"),
        ({"name": {"$nin": ["fig", "apple"]}}, "pear plum"),
        ({"organic": {"$ne": True}}, "pear plum fig"),
        ({"organic": {"$exists": True}}, "apple pear"),
        ({"organic": {"$exists": False}, "price": {"$gt": 0}}, "plum"),
        ({"$or": [{"name": "fig"}, {"price": 1}]}, "plum fig"),
        ({"$and": [{"name": "fig"}, {"price": 1}]}, ""),
        ({"$not": {"name": {"$in": ["fig", "plum"]}}}, "apple pear"),
        ({"$or": []}, ""),
        ({"nobody": {"$lt": 3}}, ""),
    ],
)
def test_filters_by_dict(store, call, condition, names):
    call.run(store, "add_texts", *map(list, zip(*FRUIT, strict=True)))
    documents = call.run(store, "similarity_search", "1 0", k=9, filter=condition)
    assert [document.metadata["name"] for document in documents] == names.split()
    documents = call.run(store, "max_marginal_relevance_search", "1 0", k=9, filter=condition)
    assert sorted(document.metadata["name"] for document in documents) == sorted(names.split())


def test_filters_by_function_look_further_until_there_are_k(store, call):
    call.run(
        store, "add_texts", [f"1 {n / 1000}" for n in range(500)], [{"n": n} for n in range(500)]
    )
    documents = call.run(
        store,
        "similarity_search",
        "1 0",
        k=2,
        filter=lambda document: document.metadata["n"] >= 490,
    )
    assert [document.metadata["n"] for document in documents] == [490, 491]
    assert call.run(store, "similarity_search", "1 0", k=2, filter=lambda document: False) == []


def test_a_filter_that_is_none_is_refused(store, call):
    call.run(store, "add_texts", ["1 0"])
    for condition, error_text in [
        ({"a": {"$near": 1}}, r"'\$near'"),
        ({"$nor": []}, r"'\$nor'"),
        ({"$or": {"a": 1}}, "list of filters"),
        ({"a": {"$in": "abc"}}, "list of values"),
        ([("a", 1)], "not list"),
    ]:
        with pytest.raises(UsageError, match=error_text):
            call.run(store, "similarity_search", "1 0", filter=condition)


HOSTILE = [
    "'; DROP TABLE foldline_vectors; --",
    "a' = 'a' OR 'x",
    'x."secret"',
    "%s",
    "%(name)s",
    "{kind}",
    "a\\",
    "metadata",
    "'::jsonb OR TRUE --",
    "ключ",
    "",
]


@pytest.mark.parametrize("key", HOSTILE)
def test_CVE_2025_67644_hostile_filter_keys_and_values_are_only_keys_and_values(store, call, key):
    call.run(
        store,
        "add_texts",
        ["1 0", "0 1"],
        [{key: key, "secret": 1}, {"other": "yes"}],
        ids=[f"id{key}", "b"],
    )
    for condition in (
        {key: key},
        {key: {"$gte": key}},
        {key: {"$in": [key]}},
        {key: {"$exists": True}},
    ):
        documents = call.run(store, "similarity_search", "0 1", filter=condition)
        assert texts(documents) == ["1 0"], condition
    assert call.run(store, "similarity_search", "0 1", filter={f"{key}x": key}) == []
    assert texts(call.run(store, "get_by_ids", [f"id{key}"])) == ["1 0"]
    call.run(store, "delete", [f"id{key}"])
    assert texts(call.run(store, "similarity_search", "0 1", k=9)) == ["0 1"]


def test_F_K05_collections_see_only_their_own_rows(make, plane, call):
    first, other = make(plane, "one"), make(plane, "one' OR '1'='1")
    call.run(first, "add_texts", ["1 0"], ids=["a"])
    call.run(other, "add_texts", ["0 1 0"], ids=["a"])
    assert texts(call.run(first, "similarity_search", "1 0", k=9)) == ["1 0"]
    call.run(other, "delete", ["a"])
    assert texts(call.run(first, "get_by_ids", ["a"])) == ["1 0"]


def test_answers_may_be_changed_without_changing_the_store(store, call):
    call.run(store, "add_texts", ["1 0"], [{"a": 1}], ids=["x"])
    for document in [
        *call.run(store, "similarity_search", "1 0"),
        *call.run(store, "get_by_ids", ["x"]),
    ]:
        document.metadata["a"] = 2
        document.page_content = "changed"
    assert call.run(store, "get_by_ids", ["x"])[0] == Document("1 0", metadata={"a": 1}, id="x")


def test_marginal_relevance_chooses_different_documents(store, call):
    call.run(store, "add_texts", ["1 0", "1 0.01", "0.6 0.8"])
    diverse = call.run(store, "max_marginal_relevance_search", "1 0", k=2, lambda_mult=0.3)
    assert texts(diverse) == ["1 0", "0.6 0.8"]
    near = call.run(
        store, "max_marginal_relevance_search_by_vector", [1.0, 0.0], k=2, lambda_mult=1.0
    )
    assert texts(near) == ["1 0", "1 0.01"]
    only = call.run(store, "max_marginal_relevance_search", "1 0", k=9, fetch_k=2)
    assert sorted(texts(only)) == ["1 0", "1 0.01"]
    with pytest.raises(UsageError, match="lambda_mult"):
        call.run(store, "max_marginal_relevance_search", "1 0", lambda_mult=2)


def test_strange_texts_come_back_as_they_were_or_are_refused(store, call, plane):
    strange = ["NUL \0", "half \ud800", "wide \U0001f600 é", "\\u0000", "   ", "", '{"text": 1}']
    plane._vector = lambda text: [1.0, 0.0]
    for text in strange:
        if isinstance(store, PostgresVectorStore) and text in strange[:2]:
            with pytest.raises(UsageError, match="PostgreSQL cannot store"):
                call.run(store, "add_texts", [text], [{"m": text}])
            continue
        (name,) = call.run(store, "add_texts", [text], [{"m": text}])
        documents = call.run(store, "get_by_ids", [name])
        assert documents == [Document(text, metadata={"m": text}, id=name)]
    assert call.run(store, "get_by_ids", ["no\0body"]) == []
    assert isinstance(call.run(store, "similarity_search", "x", filter={"m\0": "\ud800"}), list)


def test_a_retriever_over_the_store(store, call):
    call.run(store, "add_texts", CORNERS, [{"n": n} for n in range(4)])
    assert texts(call.invoke(store.as_retriever(search_kwargs={"k": 2}), "1 0")) == ["1 0", "1 1"]
    threshold = store.as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.9}
    )
    assert texts(call.invoke(threshold, "1 0")) == ["1 0"]
    diverse = store.as_retriever(search_type="mmr", search_kwargs={"k": 1, "filter": {"n": 2}})
    assert texts(call.invoke(diverse, "1 0")) == ["-1 0"]
    assert texts(call.invoke(store.as_retriever(), "1 0", k=1)) == ["1 0"]


numbers = st.integers(-5, 5)
values = st.one_of(
    st.none(),
    st.booleans(),
    numbers,
    st.sampled_from([0.5, 1.0, 2.0]),
    st.text("abü'%", max_size=2),
)
keys = st.sampled_from(["a", "b", "a'b", "x"])
metadatas = st.dictionaries(keys, st.one_of(values, st.lists(values, max_size=2)), max_size=3)
operators = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]), values),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(values, max_size=3)),
    st.tuples(st.just("$exists"), st.booleans()),
)
leaves = st.dictionaries(
    keys, st.one_of(values, operators.map(lambda pair: dict([pair]))), max_size=2
)
conditions = st.recursive(
    leaves,
    lambda part: st.one_of(
        st.fixed_dictionaries({"$or": st.lists(part, max_size=2)}),
        st.fixed_dictionaries({"$and": st.lists(part, max_size=2)}),
        st.fixed_dictionaries({"$not": part}),
    ),
    max_leaves=4,
)


@pytest.mark.parametrize("make", ["sqlite", "postgres"], indirect=True)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(metadatas=st.lists(metadatas, min_size=1, max_size=4), condition=conditions)
def test_filters_mean_the_same_in_every_store(make, plane, metadatas, condition):
    from foldline.vectorstores._filters import matches, parse_filter

    store = make(plane)
    store.delete([str(n) for n in range(4)])
    store.add_texts(
        ["1 0"] * len(metadatas), metadatas, ids=[str(n) for n in range(len(metadatas))]
    )
    expected = {
        str(n) for n, metadata in enumerate(metadatas) if matches(parse_filter(condition), metadata)
    }
    answers = store.similarity_search("1 0", k=9, filter=condition)
    store.close()  # a server accepts a hundred connections
    assert {document.id for document in answers} == expected


def test_every_refusal_is_an_error_of_ours(store):
    with pytest.raises(FoldlineError):
        store.similarity_search(["not", "a", "question"])
