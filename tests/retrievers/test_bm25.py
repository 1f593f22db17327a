from __future__ import annotations

import math
import re
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from foldline.documents import Document
from foldline.exceptions import UsageError
from foldline.retrievers import BM25Retriever

words = st.text("abcd", min_size=1, max_size=2)
texts = st.lists(words, max_size=6).map(" ".join)


def contents(documents):
    return [document.page_content for document in documents]


def test_rare_words_count_more_and_short_documents_come_first(call):
    retriever = BM25Retriever.from_texts(
        ["the cat sat on the mat with the dog", "the dog", "the the the", "a bird"], k=9
    )
    assert contents(call.invoke(retriever, "the dog")) == [
        "the dog",
        "the cat sat on the mat with the dog",
        "the the the",
    ]


def test_documents_without_a_word_of_the_question_are_not_given(call):
    retriever = BM25Retriever.from_texts(["apple", "pear"])
    assert call.invoke(retriever, "plum") == []
    assert call.invoke(retriever, "") == []
    assert call.invoke(BM25Retriever(), "plum") == []
    assert call.invoke(BM25Retriever.from_texts(["apple"], k=0), "apple") == []


def test_case_and_punctuation_do_not_count(call):
    retriever = BM25Retriever.from_texts(["Straße, ÜBER Wasser!"])
    assert len(call.invoke(retriever, "strasse")) == 1
    assert len(call.invoke(retriever, "über")) == 1


def test_documents_are_added_replaced_and_deleted(call):
    retriever = BM25Retriever.from_documents([Document("apple tree", id="1")])
    assert retriever.add_documents(
        [Document("pear tree", id="2"), Document("apple pie", id="1")]
    ) == ["2", "1"]
    assert contents(call.invoke(retriever, "tree")) == ["pear tree"]
    assert contents(call.invoke(retriever, "apple")) == ["apple pie"]
    retriever.delete(["1", "nobody"])
    assert call.invoke(retriever, "apple") == []
    assert contents(retriever.docs) == ["pear tree"]


def test_metadata_ids_and_a_tokenizer_of_ones_own(call):
    retriever = BM25Retriever.from_texts(
        ["a-b c"],
        [{"n": 1}],
        ["x"],
        bm25_params={"k1": 1.2, "b": 0.5},
        preprocess_func=str.split,
        k=3,
    )
    assert call.invoke(retriever, "b") == []
    assert call.invoke(retriever, "a-b") == [Document("a-b c", metadata={"n": 1}, id="x")]
    assert (retriever.k1, retriever.b) == (1.2, 0.5)


def test_wrong_settings_are_refused():
    with pytest.raises(UsageError, match="one metadata and one id per text"):
        BM25Retriever.from_texts(["a"], [{}, {}])
    with pytest.raises(ValueError, match="k"):
        BM25Retriever(k=-1)
    with pytest.raises(UsageError, match="not dict"):
        BM25Retriever().invoke({"question": "x"})


def bm25(corpus, query, k1=1.5, b=0.75):
    """The formula, written out."""
    word_counts = [Counter(re.findall(r"\w+", text)) for text in corpus]
    mean = sum(words.total() for words in word_counts) / len(word_counts)
    scores = []
    for counts in word_counts:
        score = 0.0
        for word in query.split():
            having = sum(word in other for other in word_counts)
            idf = math.log(1 + (len(word_counts) - having + 0.5) / (having + 0.5))
            if counts[word]:
                length = 1 - b + b * counts.total() / mean
                score += idf * counts[word] * (k1 + 1) / (counts[word] + k1 * length)
        scores.append(score)
    return scores


@settings(deadline=None)
@given(st.lists(texts, min_size=1, max_size=6), texts, st.lists(st.integers(0, 5), max_size=3))
def test_weights_are_the_formulas_also_after_deleting(corpus, query, deleted_numbers):
    retriever = BM25Retriever.from_texts(corpus, ids=[str(n) for n in range(len(corpus))], k=99)
    retriever.delete([str(n) for n in deleted_numbers])
    remaining_texts = [text for n, text in enumerate(corpus) if n not in deleted_numbers]
    expected = [
        score for score in (bm25(remaining_texts, query) if remaining_texts else []) if score
    ]
    assert [score for _, score in retriever.scores(query)] == pytest.approx(
        sorted(expected, reverse=True)
    )
