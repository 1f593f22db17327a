from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from foldline.exceptions import UsageError
from foldline.vectorstores._vectors import top
from foldline.vectorstores.utils import maximal_marginal_relevance

vectors = st.lists(st.floats(-10, 10, width=32), min_size=3, max_size=3)


@given(vectors, st.lists(vectors, max_size=8), st.floats(0, 1), st.integers(0, 10))
def test_marginal_relevance_chooses_each_place_once(query, rows, weight, k):
    places = maximal_marginal_relevance(query, rows, lambda_mult=weight, k=k)
    assert len(places) == len(set(places)) == min(k, len(rows))
    assert all(0 <= place < len(rows) for place in places)


@given(vectors, st.lists(vectors, min_size=1, max_size=8), st.floats(0, 1))
def test_marginal_relevance_is_what_its_definition_says(query, rows, weight):
    def unit(vector):
        length = float(np.linalg.norm(vector))
        return np.asarray(vector) / length if length else np.zeros(3)

    units, query_unit = [unit(row) for row in rows], unit(query)
    places = maximal_marginal_relevance(np.array([query]), rows, lambda_mult=weight, k=len(rows))
    for step in range(1, len(places)):

        def worth(place, before=places[:step]):
            return weight * float(units[place] @ query_unit) - (1 - weight) * max(
                float(units[place] @ units[other]) for other in before
            )

        best = max(worth(place) for place in range(len(rows)) if place not in places[:step])
        assert worth(places[step]) == pytest.approx(best, abs=1e-4)


def test_marginal_relevance_of_weight_1_is_nearness():
    assert maximal_marginal_relevance([1, 0], [[0, 1], [1, 0], [1, 1]], lambda_mult=1, k=3) == [
        1,
        2,
        0,
    ]
    with pytest.raises(UsageError, match="between 0 and 1"):
        maximal_marginal_relevance([1], [[1]], lambda_mult=-1)
    with pytest.raises(UsageError, match="holds vectors of 1 numbers"):
        maximal_marginal_relevance([1, 2], [[1]])


@given(st.lists(st.integers(0, 5), max_size=50), st.integers(0, 60))
def test_the_top_places_are_those_of_a_stable_sort(scores, count):
    expected = sorted(range(len(scores)), key=lambda place: -scores[place])[:count]
    assert top(np.array(scores, dtype=np.float32), count).tolist() == expected
